//! The only place that knows how records become bytes. The layout is in `docs/format.md`.
//!
//! A block is one value of the log: a header, then entries back to back. An entry is one change of one key. Everything a
//! scan needs stands in fixed places before the key, so that an opening store decodes no record it does not need.

use std::sync::Arc;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::Record;

/// The version of the block layout this code writes. Older versions stay readable.
pub(crate) const BLOCK_VERSION: u8 = 1;
/// The first bytes of every block.
const MAGIC: [u8; 2] = *b"SM";
/// A block never takes more, so that sled keeps it inline in a node.
pub(crate) const MAX_BLOCK_BYTES: usize = 4000;
/// Length of a block's header.
pub(crate) const HEADER_BYTES: usize = 60;
/// Where the checksum stands in the header; it covers everything else.
const CHECK_AT: usize = HEADER_BYTES - 4;
/// What a block has for entries.
pub(crate) const BLOCK_ROOM_BYTES: usize = MAX_BLOCK_BYTES - HEADER_BYTES;
/// Length of an entry before its group, key and body.
pub(crate) const ENTRY_FIXED_BYTES: usize = 1 + 16 + 8 + 8 + 8 + 8 + 4;
/// Length of the group number of an entry that belongs to a group.
pub(crate) const GROUP_BYTES: usize = 8;
/// What the largest decoded record may take, whatever the bytes claim.
const DECODE_LIMIT_BYTES: usize = 32 << 20;

/// The keyed hash of a key.
pub(crate) type KeyHash = [u64; 2];

/// What one value of a key is, in memory.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The life of an operation.
    Record(Arc<Record>),
    /// A row: bytes with a version.
    Row(Arc<Row>),
}

/// A row of the store: bytes that somebody else gives a meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) version: u64,
    /// Of the commit that wrote it.
    pub(crate) nonce: u64,
    pub(crate) forgotten_at_us: u64,
    /// Its place among the rows of its space that are kept in order; 0 when it is not one of them.
    pub(crate) order: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Record(record) => record.version,
            Self::Row(row) => row.version,
        }
    }

    /// Of the event or commit that made this version.
    pub(crate) fn nonce(&self) -> u64 {
        match self {
            Self::Record(record) => record.nonce,
            Self::Row(row) => row.nonce,
        }
    }

    pub(crate) fn forgotten_at_us(&self) -> u64 {
        match self {
            Self::Record(record) => record.forgotten_at_us(),
            Self::Row(row) => row.forgotten_at_us,
        }
    }

    /// What an entry tells as its [`EntryHead::due_us`].
    pub(crate) fn due_us(&self) -> u64 {
        match self {
            Self::Record(record) => record
                .open_since_us()
                .unwrap_or_else(|| record.retained_until_us()),
            Self::Row(row) => row.forgotten_at_us,
        }
    }

    pub(crate) fn open_since_us(&self) -> Option<u64> {
        match self {
            Self::Record(record) => record.open_since_us(),
            Self::Row(_) => None,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Record(record) => record.weight(),
            Self::Row(row) => size_of::<Row>() + row.bytes.len(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Record(record) if record.open_since_us().is_some() => Kind::OpenRecord,
            Self::Record(_) => Kind::EndedRecord,
            Self::Row(row) if row.order != 0 => Kind::OrderedRow,
            Self::Row(_) => Kind::Row,
        }
    }
}

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

    fn write(&self, out: &mut Vec<u8>) {
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

    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
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

/// How many blocks a payload of this length takes, given that one which does not fit a block has whole blocks to itself.
pub(crate) fn pieces(payload_bytes: usize) -> usize {
    let room = BLOCK_ROOM_BYTES - ENTRY_FIXED_BYTES - GROUP_BYTES;
    if payload_bytes <= room {
        1
    } else {
        payload_bytes.div_ceil(room)
    }
}

/// The length of the piece of a payload that the `index`th of its blocks holds, and where it starts.
pub(crate) fn piece_range(payload_bytes: usize, index: usize) -> std::ops::Range<usize> {
    let room = BLOCK_ROOM_BYTES - ENTRY_FIXED_BYTES - GROUP_BYTES;
    let start = (index * room).min(payload_bytes);
    start..(start + room).min(payload_bytes)
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct BlockHead {
    pub(crate) number: u64,
    /// Made at the store's creation and at every restore: a block of another life of the store is not taken for its own.
    pub(crate) epoch: u64,
    /// Position of the first change that was new in this block.
    pub(crate) first_pos: u64,
    /// Everything forgotten at or before this time had been swept when the block was written.
    pub(crate) swept_until_us: u64,
    /// A stamp that none given before the block's end can exceed; feeds stamps, never the clock.
    pub(crate) stamp_floor: u64,
    /// The store's time when the block was written, in microseconds since the Unix epoch. Stamps may run ahead of it.
    pub(crate) time_us: u64,
    /// The checksum of the block before this one.
    pub(crate) previous: u32,
}

/// A block being written.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    bytes: Vec<u8>,
}

impl BlockWriter {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::with_capacity(MAX_BLOCK_BYTES);
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes }
    }

    /// The entries of a block that was read, to be sealed under another header.
    pub(crate) fn again(block: &BlockReader<'_>) -> Self {
        let mut writer = Self::new();
        writer.bytes.extend_from_slice(block.body);
        writer
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_BYTES
    }

    /// Whether an entry with this head and this much of its payload fits.
    pub(crate) fn fits(&self, head: &EntryHead, payload_bytes: usize) -> bool {
        self.bytes.len() + head.encoded_bytes() + payload_bytes <= MAX_BLOCK_BYTES
    }

    pub(crate) fn push(&mut self, head: &EntryHead, payload: &[u8]) {
        head.write(&mut self.bytes);
        self.bytes.extend_from_slice(payload);
    }

    /// Seals the block; gives its bytes and its checksum.
    pub(crate) fn seal(mut self, head: &BlockHead) -> (Vec<u8>, u32) {
        let bytes = &mut self.bytes;
        bytes[0..2].copy_from_slice(&MAGIC);
        bytes[2] = BLOCK_VERSION;
        bytes[3] = 0;
        for (at, word) in [
            head.number,
            head.epoch,
            head.first_pos,
            head.swept_until_us,
            head.stamp_floor,
            head.time_us,
        ]
        .into_iter()
        .enumerate()
        {
            bytes[4 + 8 * at..12 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        bytes[52..56].copy_from_slice(&head.previous.to_le_bytes());
        let check = checksum(bytes);
        bytes[56..60].copy_from_slice(&check.to_le_bytes());
        (self.bytes, check)
    }
}

fn checksum(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..CHECK_AT]), &block[HEADER_BYTES..])
}

/// A block that was read and is known to be what was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockReader<'b> {
    pub(crate) head: BlockHead,
    pub(crate) check: u32,
    body: &'b [u8],
}

impl<'b> BlockReader<'b> {
    /// Checks the block's number, version and checksum.
    pub(crate) fn open(number: u64, bytes: &'b [u8]) -> Result<Self> {
        let wrong = |what: &str| {
            Error::corrupt(format!(
                "block {number} of the log {what}; restore a backup"
            ))
        };
        if bytes.len() < HEADER_BYTES || bytes[0..2] != MAGIC {
            return Err(wrong("is not a block of semel"));
        }
        if bytes[2] == 0 || bytes[2] > BLOCK_VERSION {
            return Err(Error::corrupt(format!(
                "block {number} of the log has layout version {}, and this semel reads up to {BLOCK_VERSION}: use the semel that wrote it, or a newer one",
                bytes[2]
            )));
        }
        let check = u32_at(bytes, CHECK_AT);
        if checksum(bytes) != check {
            return Err(wrong("fails its checksum"));
        }
        let head = BlockHead {
            number: u64_at(bytes, 4),
            epoch: u64_at(bytes, 12),
            first_pos: u64_at(bytes, 20),
            swept_until_us: u64_at(bytes, 28),
            stamp_floor: u64_at(bytes, 36),
            time_us: u64_at(bytes, 44),
            previous: u32_at(bytes, 52),
        };
        if head.number != number {
            return Err(wrong(&format!("says that it is block {}", head.number)));
        }
        Ok(Self {
            head,
            check,
            body: &bytes[HEADER_BYTES..],
        })
    }

    /// The last entry of each key, in their order. A block has two of a key when one of them came in a group; only the
    /// last can be the newest, and both may be equally long.
    pub(crate) fn newest_entries(self) -> Result<Vec<Entry<'b>>> {
        let mut newest: Vec<Entry<'b>> = Vec::new();
        for entry in self.entries() {
            let entry = entry?;
            newest.retain(|earlier| earlier.head.hash != entry.head.hash);
            newest.push(entry);
        }
        Ok(newest)
    }

    /// The entries in their order.
    pub(crate) fn entries(self) -> Entries<'b> {
        Entries {
            number: self.head.number,
            rest: self.body,
            failed: false,
        }
    }
}

/// One entry of a block: its head and the part of its payload that this block holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'b> {
    pub(crate) head: EntryHead,
    pub(crate) piece: &'b [u8],
}

/// The entries of a block.
pub(crate) struct Entries<'b> {
    number: u64,
    rest: &'b [u8],
    failed: bool,
}

impl<'b> Iterator for Entries<'b> {
    type Item = Result<Entry<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        let entry = EntryHead::read(self.rest).and_then(|(head, used)| {
            let rest = &self.rest[used..];
            // A long payload has its blocks to itself: what follows the head is one piece of it.
            let in_block = if pieces(head.payload_bytes as usize) > 1 {
                rest.len()
            } else {
                head.payload_bytes as usize
            };
            let (piece, rest) = rest.split_at_checked(in_block)?;
            self.rest = rest;
            Some(Entry { head, piece })
        });
        self.failed = entry.is_none();
        Some(entry.ok_or_else(|| {
            Error::corrupt(format!(
                "block {} of the log has an entry that cannot be read; restore a backup",
                self.number
            ))
        }))
    }
}

/// The payload of an entry: the key with its length, then the body.
pub(crate) fn encode_payload(key: &[u8], content: Option<&Content>) -> Result<Box<[u8]>> {
    let mut out = Vec::with_capacity(2 + key.len() + content.map_or(0, |c| c.weight() / 2));
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    let written = match content {
        Some(Content::Record(record)) => {
            bincode::serde::encode_into_std_write(&**record, &mut out, config())
        }
        Some(Content::Row(row)) => {
            bincode::serde::encode_into_std_write(&**row, &mut out, config())
        }
        None => Ok(0),
    };
    written.map_err(|e| Error::invalid(format!("the record cannot be encoded: {e}")))?;
    Ok(out.into_boxed_slice())
}

/// Takes a payload apart into key and body.
pub(crate) fn split_payload(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = payload.split_at_checked(2)?;
    rest.split_at_checked(u16::from_le_bytes([len[0], len[1]]) as usize)
}

/// Decodes the body of an entry of this kind; `None` for a marker.
pub(crate) fn decode_body(kind: Kind, body: &[u8]) -> Result<Option<Content>> {
    let unreadable = |e: bincode::error::DecodeError| {
        Error::corrupt(format!(
            "a record of the log cannot be read: {e}; restore a backup"
        ))
    };
    Ok(match kind {
        Kind::OpenRecord | Kind::EndedRecord => {
            let (record, _) = bincode::serde::decode_from_slice::<Record, _>(body, config())
                .map_err(unreadable)?;
            Some(Content::Record(Arc::new(record)))
        }
        Kind::Row | Kind::OrderedRow => {
            let (row, _) =
                bincode::serde::decode_from_slice::<Row, _>(body, config()).map_err(unreadable)?;
            Some(Content::Row(Arc::new(row)))
        }
        Kind::Marker | Kind::Piece => None,
    })
}

/// The form in which schemes write their rows; the first byte of each.
const ROW_FORM: u8 = 1;

/// What a scheme keeps, as the bytes of a row.
pub(crate) fn encode_row<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    out.push(ROW_FORM);
    match bincode::serde::encode_into_std_write(value, &mut out, config()) {
        Ok(_) => Ok(out),
        Err(e) => Err(Error::invalid(e.to_string())),
    }
}

/// What a scheme keeps, from the bytes of a row.
pub(crate) fn decode_row<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T> {
    let Some((&ROW_FORM, bytes)) = bytes.split_first() else {
        return Err(Error::corrupt(
            "it was written by a newer semel, or is damaged",
        ));
    };
    match bincode::serde::borrow_decode_from_slice(bytes, config()) {
        Ok((value, _)) => Ok(value),
        Err(e) => Err(Error::corrupt(e.to_string())),
    }
}

type Config = Configuration<LittleEndian, Varint, Limit<DECODE_LIMIT_BYTES>>;

const fn config() -> Config {
    bincode::config::standard().with_limit::<DECODE_LIMIT_BYTES>()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
