//! The fixed part of an entry, in places of its own, so that a scan decodes no record.

use super::{KeyHash, u32_at, u64_at};

/// Length of an entry before its group, key and body.
pub(crate) const ENTRY_FIXED_BYTES: usize = 1 + 16 + 8 + 8 + 8 + 8 + 4;
/// Length of the group number of an entry that belongs to a group.
pub(crate) const GROUP_BYTES: usize = 8;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A record whose attempt has not ended: running, released or in doubt.
    OpenRecord = 1,
    /// A record that has succeeded or failed.
    EndedRecord = 2,
    /// A row.
    Row = 3,
    /// The key is absent from here on.
    Marker = 4,
    /// A piece of an entry that is too long for one block; all but the first piece.
    Piece = 5,
    /// A row that is kept in order with others of its space.
    OrderedRow = 6,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::OpenRecord,
            2 => Self::EndedRecord,
            3 => Self::Row,
            4 => Self::Marker,
            5 => Self::Piece,
            6 => Self::OrderedRow,
            _ => return None,
        })
    }
}

const KIND_BITS: u8 = 0x0f;
const GROUPED: u8 = 0x10;
const LAST_OF_GROUP: u8 = 0x20;
const COPIED: u8 = 0x40;

/// Where an entry stands among those that take effect together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The position of the group's first entry.
    pub(crate) id: u64,
    /// Whether the group ends with this entry.
    pub(crate) last: bool,
}

/// The fixed part of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryHead {
    pub(crate) kind: Kind,
    pub(crate) group: Option<Group>,
    /// Moved here by cleaning, from an older block.
    pub(crate) copied: bool,
    pub(crate) hash: KeyHash,
    /// The change's place in the order of all changes.
    pub(crate) pos: u64,
    /// The version, and a clock that never falls.
    pub(crate) stamp: u64,
    /// Of an ended record: from when on its result is not shown. Of an open one: from when on it is to be watched. In
    /// microseconds since the Unix epoch.
    pub(crate) due_us: u64,
    /// From when on the entry counts as absent.
    pub(crate) forgotten_at_us: u64,
    /// Length of the whole payload (key and body, over all pieces).
    pub(crate) payload_bytes: u32,
}

impl EntryHead {
    pub(crate) fn encoded_bytes(&self) -> usize {
        ENTRY_FIXED_BYTES + if self.group.is_some() { GROUP_BYTES } else { 0 }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut flags = self.kind as u8;
        if let Some(group) = self.group {
            flags |= GROUPED | if group.last { LAST_OF_GROUP } else { 0 };
        }
        if self.copied {
            flags |= COPIED;
        }
        out.push(flags);
        for word in [
            self.hash[0],
            self.hash[1],
            self.pos,
            self.stamp,
            self.due_us,
            self.forgotten_at_us,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        if let Some(group) = self.group {
            out.extend_from_slice(&group.id.to_le_bytes());
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let fixed = bytes.get(..ENTRY_FIXED_BYTES)?;
        let flags = fixed[0];
        let word = |at: usize| u64_at(fixed, 1 + 8 * at);
        let grouped = flags & GROUPED != 0;
        let group = match grouped {
            true => Some(Group {
                id: u64_at(
                    bytes.get(..ENTRY_FIXED_BYTES + GROUP_BYTES)?,
                    ENTRY_FIXED_BYTES,
                ),
                last: flags & LAST_OF_GROUP != 0,
            }),
            false => None,
        };
        let head = Self {
            kind: Kind::from_bits(flags & KIND_BITS)?,
            group,
            copied: flags & COPIED != 0,
            hash: [word(0), word(1)],
            pos: word(2),
            stamp: word(3),
            due_us: word(4),
            forgotten_at_us: word(5),
            payload_bytes: u32_at(fixed, 49),
        };
        Some((head, head.encoded_bytes()))
    }
}
