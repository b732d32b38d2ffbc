//! Cleaning: what is still live in the oldest blocks is copied to the newest, so that the oldest can go.

use std::sync::Arc;

use super::batch::{Fill, Plan};
use super::committer::{Committer, FULL_BATCH};
use super::disk::Bytes;
use super::index::Index;
use super::loc::Loc;
use super::log::{BATCH_BLOCKS, Log};
use super::parcels::Parcels;
use crate::codec::{
    BlockReader, Content, Entry, EntryHead, Kind, decode_body, encode_payload, pieces,
    split_payload,
};
use crate::error::{Error, Result};

/// Old blocks that are looked at for each new one.
const OLD_PER_NEW: usize = 2;
/// The most old blocks that may be looked at later, because there was no room for what is live in them.
const MAX_OWED_BLOCKS: usize = 8192;
/// An entry that moves.
pub(super) struct Copy {
    pub(super) head: EntryHead,
    pub(super) payload: Vec<u8>,
    pub(super) from: Loc,
}

/// What cleaning adds to a batch: copies, and the blocks that are free once the copies are on disk.
#[derive(Default)]
pub(super) struct Cleaning {
    pub(super) copies: Vec<Copy>,
    pub(super) leaving: Vec<(u64, Bytes)>,
    /// How much of a batch the copies take.
    fill: Fill,
}

/// How much of the old blocks was still live of late: copied blocks for each one that left, in parts of [`Survival::WHOLE`].
pub(super) struct Survival(usize);

impl Default for Survival {
    fn default() -> Self {
        Self(Self::WHOLE / 2)
    }
}

impl Survival {
    const WHOLE: usize = 1024;

    /// Takes note of what was found; what was found lately counts most.
    fn note(&mut self, copied: usize, left: usize) {
        if let Some(share) = (copied * Self::WHOLE).checked_div(left) {
            self.0 = (7 * self.0 + share.min(Self::WHOLE)) / 8;
        }
    }

    /// How many new blocks a batch has room for, when copies of all that lives in `OLD_PER_NEW` old ones for each are to
    /// go with them.
    fn new_blocks(&self) -> usize {
        FULL_BATCH * Self::WHOLE / (Self::WHOLE + OLD_PER_NEW * self.0)
    }
}

impl Cleaning {
    /// The entry that has many blocks to itself, if it is one; then it is the only one.
    pub(super) fn long_copy(&self) -> Option<&Copy> {
        self.copies
            .first()
            .filter(|copy| pieces(copy.payload.len()) > 1)
    }
}

impl Committer {
    pub(super) fn is_cleaning_due(&self) -> bool {
        is_due(&self.log, self.shared.options.tuning.slack_bytes)
    }

    /// New blocks were written, for which old ones are to be looked at.
    pub(super) fn owe(&mut self, new_blocks: usize) {
        self.owed_blocks = match self.is_cleaning_due() {
            true => (self.owed_blocks + OLD_PER_NEW * new_blocks).min(MAX_OWED_BLOCKS),
            false => 0,
        };
    }

    pub(super) fn collect(&mut self, plan: &Plan) -> Result<Cleaning> {
        // The newest block stays; and what is arriving only looks dead.
        let arriving = self.arriving.first().map(|(_, loc)| loc.block());
        let before = arriving.unwrap_or(u64::MAX).min(self.log.ends().head);
        let cleaned = collect(
            &self.log,
            &self.shared.index,
            plan,
            self.owed_blocks,
            before,
            self.shared.now_us(),
        )?;
        self.owed_blocks = self.owed_blocks.saturating_sub(cleaned.leaving.len());
        self.survival
            .note(cleaned.fill.filled_blocks(), cleaned.leaving.len());
        Ok(cleaned)
    }

    /// How many new blocks go into a batch that cleans as well: as many as leave room for the copies that are owed for
    /// them, and fewer while more is owed.
    pub(super) fn new_blocks_beside_copies(&self) -> usize {
        let new_blocks = self.survival.new_blocks();
        match self.owed_blocks > OLD_PER_NEW * BATCH_BLOCKS {
            true => new_blocks / 2,
            false => new_blocks,
        }
    }

    /// Cleans in batches of its own, as far as is owed: after a long change, which shares no batch.
    pub(super) fn clean(&mut self) -> Result<()> {
        let log = Arc::clone(&self.log);
        while self.owed_blocks > 0
            && self.is_cleaning_due()
            && let Some(_right) = log.begin_cleaning()
        {
            let cleaned = self.collect(&Plan::default())?;
            if cleaned.leaving.is_empty() {
                break;
            }
            match cleaned.long_copy() {
                Some(_) => self.move_long_entry(&cleaned)?,
                None => self.write_short(Plan::default(), &Parcels::default(), cleaned)?,
            }
        }
        Ok(())
    }
}

/// Whether too much of the log is dead.
fn is_due(log: &Log, slack_bytes: u64) -> bool {
    log.bytes() > 2 * log.live_bytes() + slack_bytes
}

/// Looks at up to `old_blocks` of the oldest blocks, all of them before the block `before`, as long as the copies fit into what `plan` leaves of a batch. What
/// `plan` writes anew is not copied.
fn collect(
    log: &Log,
    index: &Index,
    plan: &Plan,
    old_blocks: usize,
    before: u64,
    now_us: u64,
) -> Result<Cleaning> {
    let room_blocks = BATCH_BLOCKS.saturating_sub(plan.fill.blocks() + 1);
    let mut found = Cleaning::default();
    let at_a_time = old_blocks.min(2 * BATCH_BLOCKS);
    for (number, block) in log.disk.read_from(log.ends().tail, at_a_time)? {
        if number >= before {
            break;
        }
        let live = live_entries(index, plan, number, &block)?;
        if let [only] = &live[..]
            && pieces(only.head.payload_bytes as usize) > 1
        {
            // A long entry goes by itself, only from the very end of the log, and when there is a budget for all of it.
            return match found.leaving.is_empty()
                && pieces(only.head.payload_bytes as usize) <= old_blocks
            {
                true => long(log, only.head, number, now_us),
                false => Ok(found),
            };
        }
        let moving = live
            .iter()
            .map(|entry| copy(entry.head, entry.piece.to_vec(), number, now_us))
            .collect::<Result<Vec<_>>>()?;
        let filled = moving.iter().fold(found.fill, |fill, copy| {
            fill.with(copy.head.encoded_bytes() + copy.payload.len())
        });
        if !moving.is_empty() && filled.blocks() > room_blocks {
            break;
        }
        found.fill = filled;
        found.copies.extend(moving);
        found.leaving.push((number, block));
    }
    Ok(found)
}

/// The entries of a block that are the newest of their keys, and stay so when `plan` is written.
fn live_entries<'b>(
    index: &Index,
    plan: &Plan,
    number: u64,
    block: &'b [u8],
) -> Result<Vec<Entry<'b>>> {
    let mut live = BlockReader::open(number, block)?.newest_entries()?;
    live.retain(|entry| {
        // A marker goes with the oldest block: nothing older than it is left that it could hide.
        !matches!(entry.head.kind, Kind::Marker | Kind::Piece)
            && index.home(&entry.head.hash) == Some(Loc::new(number, entry_bytes(&entry.head)))
            && !plan.has(&entry.head.hash)
    });
    Ok(live)
}

/// What an entry counts for: as if it were in one piece, so that copies keep their place's length.
pub(super) fn entry_bytes(head: &EntryHead) -> usize {
    crate::codec::ENTRY_FIXED_BYTES + head.payload_bytes as usize
}

fn copy(head: EntryHead, payload: Vec<u8>, number: u64, now_us: u64) -> Result<Copy> {
    let from = Loc::new(number, entry_bytes(&head));
    let payload = match now_us >= head.due_us && head.kind == Kind::EndedRecord {
        true => without_result(&payload)?,
        false => payload,
    };
    let head = EntryHead {
        group: None,
        copied: true,
        payload_bytes: payload.len() as u32,
        ..head
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
            let mut payload = Vec::new();
            encode_payload(&mut payload, key, Some(&bare)).map(|_| payload)
        }
        _ => Ok(payload.to_vec()),
    }
}

fn long(log: &Log, head: EntryHead, number: u64, now_us: u64) -> Result<Cleaning> {
    let whole = log.payload(&head.hash, Loc::new(number, entry_bytes(&head)))?;
    let Some((_, payload)) = whole else {
        return Err(Error::corrupt(format!(
            "the log lacks a piece of the long record that begins in block {number}; restore a backup with `semel restore`"
        )));
    };
    Ok(Cleaning {
        copies: vec![copy(head, payload, number, now_us)?],
        leaving: log
            .disk
            .read_from(number, pieces(head.payload_bytes as usize))?,
        fill: Fill::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_blocks_when(copied: usize, left: usize) -> usize {
        let mut survival = Survival::default();
        for _ in 0..100 {
            survival.note(copied, left);
        }
        survival.new_blocks()
    }

    #[test]
    fn new_blocks_leave_room_for_the_copies_that_they_owe() {
        for copied in 0..=100 {
            let new_blocks = new_blocks_when(copied, 100);
            let copies = OLD_PER_NEW * new_blocks * copied / 100;
            let used = new_blocks + copies;
            assert!(used <= FULL_BATCH, "{copied} %: {new_blocks} and {copies}");
            assert!(used + 5 >= FULL_BATCH, "{copied} %: a batch of {used} only");
        }
    }

    #[test]
    fn a_batch_in_which_nothing_left_tells_nothing() {
        let mut survival = Survival::default();
        survival.note(0, 0);
        assert_eq!(survival.new_blocks(), Survival::default().new_blocks());
    }
}
