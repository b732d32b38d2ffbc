//! Cleaning: what is still live in the oldest blocks is copied to the newest, so that the oldest can go.

use super::batch::Plan;
use super::disk::Bytes;
use super::index::{Index, Loc};
use super::log::Log;
use crate::codec::{
    BLOCK_ROOM_BYTES, BlockReader, Content, Entry, EntryHead, KeyHash, Kind, decode_body,
    encode_payload, pieces, split_payload,
};
use crate::error::Result;

/// The log is left alone below this, whatever is dead in it.
const SLACK_BYTES: u64 = 64 << 20;

/// An entry that moves.
pub(super) struct Copy {
    pub(super) head: EntryHead,
    pub(super) payload: Vec<u8>,
    pub(super) from: Loc,
}

/// What cleaning adds to a batch.
pub(super) enum Cleaning {
    /// Copies of short entries, and the blocks that are free once the copies are on disk.
    Short {
        copies: Vec<Copy>,
        leaving: Vec<(u64, Bytes)>,
    },
    /// The oldest block begins an entry that has many blocks to itself.
    Long {
        copy: Copy,
        leaving: Vec<(u64, Bytes)>,
    },
}

/// Whether too much of the log is dead.
pub(super) fn is_due(log: &Log) -> bool {
    !log.cleaning_is_paused() && log.bytes() > 2 * log.live_bytes() + SLACK_BYTES
}

/// Looks at up to `old_blocks` of the oldest blocks, as long as the copies fit `room_blocks`. What `plan` writes anew is
/// not copied.
pub(super) fn collect(
    log: &Log,
    index: &Index,
    plan: &Plan,
    old_blocks: usize,
    room_blocks: usize,
    now_us: u64,
) -> Result<Cleaning> {
    let ends = log.ends();
    let mut room_bytes = room_blocks * (BLOCK_ROOM_BYTES / 10 * 9);
    let (mut copies, mut leaving): (Vec<Copy>, Vec<_>) = (Vec::new(), Vec::new());
    for (number, block) in log.disk.read_from(ends.tail, old_blocks)? {
        if number >= ends.head {
            break;
        }
        let live = live_entries(index, number, &block)?;
        if let [only] = &live[..]
            && pieces(only.head.payload_bytes as usize) > 1
        {
            // A long entry goes by itself, and only from the very end of the log.
            if leaving.is_empty() {
                return long(
                    log,
                    only.head,
                    Loc::new(number, entry_bytes(&only.head)),
                    number,
                );
            }
            break;
        }
        let mut moving = Vec::new();
        for entry in live.iter().filter(|entry| !plan.has(&entry.head.hash)) {
            moving.push(copy(entry, number, now_us)?);
        }
        let bytes: usize = moving
            .iter()
            .map(|copy| copy.head.encoded_bytes() + copy.payload.len())
            .sum();
        if bytes > room_bytes {
            break;
        }
        room_bytes -= bytes;
        copies.extend(moving);
        leaving.push((number, block));
    }
    Ok(Cleaning::Short { copies, leaving })
}

/// The entries of a block that are the newest of their keys, each key once.
fn live_entries<'b>(index: &Index, number: u64, block: &'b [u8]) -> Result<Vec<Entry<'b>>> {
    let entries = BlockReader::open(number, block)?
        .entries()
        .collect::<Result<Vec<_>>>()?;
    let mut live: Vec<Entry<'b>> = Vec::new();
    // Backwards: within a block the last entry of a key is the newest.
    for entry in entries.into_iter().rev() {
        if matches!(entry.head.kind, Kind::Marker | Kind::Piece)
            || live.iter().any(|later| later.head.hash == entry.head.hash)
        {
            // A marker goes with the oldest block: nothing older than it is left that it could hide.
            continue;
        }
        if index.home(&entry.head.hash) == Some(Loc::new(number, entry_bytes(&entry.head))) {
            live.push(entry);
        }
    }
    live.reverse();
    Ok(live)
}

/// What an entry counts for: as if it were in one piece, so that copies keep their place's length.
pub(super) fn entry_bytes(head: &EntryHead) -> usize {
    crate::codec::ENTRY_FIXED_BYTES + head.payload_bytes as usize
}

fn copy(entry: &Entry<'_>, number: u64, now_us: u64) -> Result<Copy> {
    let from = Loc::new(number, entry_bytes(&entry.head));
    let payload =
        match now_us >= entry.head.drops_result_at_us && entry.head.kind == Kind::EndedRecord {
            true => without_result(entry.piece)?,
            false => entry.piece.to_vec(),
        };
    let head = EntryHead {
        group: None,
        copied: true,
        payload_bytes: payload.len() as u32,
        ..entry.head
    };
    Ok(Copy {
        head,
        payload,
        from,
    })
}

/// The payload of an ended record without the result whose time is over.
fn without_result(payload: &[u8]) -> Result<Vec<u8>> {
    let Some((key, body)) = split_payload(payload) else {
        return Ok(payload.to_vec());
    };
    match decode_body(Kind::EndedRecord, body)? {
        Some(Content::Record(record)) => {
            let bare = Content::Record(std::sync::Arc::new(record.without_result()));
            Ok(encode_payload(key, Some(&bare))?.into_vec())
        }
        _ => Ok(payload.to_vec()),
    }
}

fn long(log: &Log, head: EntryHead, from: Loc, number: u64) -> Result<Cleaning> {
    let leaving = log
        .disk
        .read_from(number, pieces(head.payload_bytes as usize))?;
    let hash: KeyHash = head.hash;
    let payload = match log.payload(&hash, from)? {
        Some((_, payload)) => payload,
        None => Vec::new(),
    };
    let head = EntryHead {
        group: None,
        copied: true,
        ..head
    };
    Ok(Cleaning::Long {
        copy: Copy {
            head,
            payload,
            from,
        },
        leaving,
    })
}
