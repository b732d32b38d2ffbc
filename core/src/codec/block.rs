//! A block: a header with a checksum that is chained to the block before, then entries back to back.

use super::entry::{ENTRY_FIXED_BYTES, EntryHead, GROUP_BYTES};
use super::{u32_at, u64_at};
use crate::error::{Error, Result};

/// The version of the block layout this code writes. Older versions stay readable.
const BLOCK_VERSION: u8 = 1;
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
