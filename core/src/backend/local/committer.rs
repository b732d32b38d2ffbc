//! The only writer of the log: batch by batch, each on disk before the next begins.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::batch::{Packer, Plan};
use super::cleaner::{Cleaning, Survival, entry_bytes};
use super::disk::Bytes;
use super::loc::Loc;
use super::log::{BATCH_BLOCKS, Batch, Log};
use super::parcels::Parcels;
use super::queue::{Change, Waiting, Work};
use super::watermark::Mark;
use crate::codec::{BlockHead, EntryHead, pieces};
use crate::error::{Error, Result};
use crate::time::after;

/// Blocks of a batch, but for those that copies and changes leave half empty.
pub(super) const FULL_BATCH: usize = BATCH_BLOCKS - 2;
/// How many changes the memory is kept for that a busy moment has taken.
const SPARE_CHANGES: usize = 4096;
/// How far stamps may have run ahead of the blocks that tell of them.
pub(super) const STAMP_SLACK_US: u64 = 1_000_000;

/// The committer's own state.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Arc<Log>,
    /// The header of the next block.
    next: BlockHead,
    tail: u64,
    /// Old blocks that may be looked at for the new ones that were written.
    pub(super) owed_blocks: usize,
    pub(super) survival: Survival,
    /// Changes of a group whose last is not on disk yet: none of them counts before.
    pub(super) arriving: Vec<(Change, Loc)>,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, log: Arc<Log>, epoch: u64) -> Self {
        let ends = log.ends();
        let next = BlockHead {
            number: ends.head + 1,
            epoch,
            previous: ends.check,
            ..BlockHead::default()
        };
        Self {
            shared,
            log,
            next,
            tail: ends.tail,
            owed_blocks: 0,
            survival: Survival::default(),
            arriving: Vec::new(),
        }
    }

    /// Writes until the queue is closed and empty, or the disk fails; lets go of the log when the store is closed.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let log = Arc::clone(&self.log);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.serve()));
        drop(self);
        let ended = ended.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the committer of the store panicked; reopen the store",
            ))
        });
        if let Err(fault) = ended {
            // Final: what is on disk still replays, everything else is refused until the store is reopened.
            shared.fail(fault);
            // What is on disk can be read until the store is closed.
            shared.queue.wait_for_close();
        }
        // Tickets and clones of the store may live on; the next store must not wait for them.
        shared.watched(|| log.disk.close());
        shared.durable.end();
    }

    fn serve(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let (queue, interval) = (&shared.queue, shared.options.commit_interval);
        let mut spare = VecDeque::new();
        while let Work::Write(mut waiting) = queue.take(interval, &mut spare) {
            while !waiting.changes.is_empty() {
                self.write_batch(&mut waiting)?;
                waiting.done();
            }
            spare = waiting.changes;
            spare.shrink_to(SPARE_CHANGES);
            queue.give_back(waiting.parcels);
        }
        Ok(())
    }

    /// Writes a batch to the disk; gives the disk up when that takes too long.
    fn write(&self, batch: Batch) -> Result<()> {
        let shared = &self.shared;
        let timing = crate::time::Stopwatch::start();
        let written = shared.watched(|| self.log.disk.write(batch));
        shared.commit_times.record(timing.elapsed());
        shared.commits.fetch_add(1, Ordering::Relaxed);
        // What comes too late is not told to anybody: the fault is final.
        written.and_then(|()| shared.durable.check())
    }

    fn write_batch(&mut self, waiting: &mut Waiting) -> Result<()> {
        let log = Arc::clone(&self.log);
        // Held until the index knows what this batch has moved.
        let right = match self.is_cleaning_due() {
            true => log.begin_cleaning(),
            false => None,
        };
        let cleaning = right.is_some();
        let plan = Plan::cut(
            &mut waiting.changes,
            match cleaning {
                true => self.new_blocks_beside_copies(),
                false => FULL_BATCH,
            },
        );
        self.shared
            .queue
            .in_hand_since(waiting.changes.front().map_or(0, |next| next.decided_us));
        if plan.is_long() {
            drop(right);
            self.write_long_change(plan, &waiting.parcels)?;
            return self.clean();
        }
        self.owe(plan.fill.blocks());
        let mut cleaned = match cleaning {
            true => self.collect(&plan)?,
            false => Cleaning::default(),
        };
        if cleaned.long_copy().is_some() {
            self.move_long_entry(&cleaned)?;
            cleaned = Cleaning::default();
        }
        self.write_short(plan, &waiting.parcels, cleaned)
    }

    /// Writes changes that share blocks, and copies before them.
    pub(super) fn write_short(
        &mut self,
        plan: Plan,
        parcels: &Parcels,
        cleaned: Cleaning,
    ) -> Result<()> {
        let first_pos = plan.changes.first().map_or(0, |change| change.pos);
        let mut packer = Packer::new(self.header(first_pos));
        // Copies first: an entry that is new in this batch must come after any older one of its key.
        let moved: Vec<Loc> = cleaned
            .copies
            .iter()
            .map(|copy| place(packer.push(&copy.head, &copy.payload), &copy.head))
            .collect();
        packer.turn_over();
        let placed: Vec<Loc> = plan
            .changes
            .iter()
            .map(|change| {
                let head = change.head();
                place(packer.push(&head, parcels.get(change.payload)), &head)
            })
            .collect();
        self.put(packer, &cleaned.leaving)?;
        for (copy, to) in cleaned.copies.iter().zip(moved) {
            self.publish_copy(copy, to);
        }
        self.finish(plan, placed);
        Ok(())
    }

    fn write_long_change(&mut self, plan: Plan, parcels: &Parcels) -> Result<()> {
        let mut placed = Vec::new();
        if let Some(change) = plan.changes.first() {
            placed.push(self.put_pieces(&change.head(), parcels.get(change.payload), &[])?);
            self.owe(pieces(change.payload.bytes));
        }
        self.finish(plan, placed);
        Ok(())
    }

    pub(super) fn move_long_entry(&mut self, cleaned: &Cleaning) -> Result<()> {
        if let Some(copy) = cleaned.long_copy() {
            let to = self.put_pieces(&copy.head, &copy.payload, &cleaned.leaving)?;
            self.publish_copy(copy, to);
            self.log.let_leave();
        }
        Ok(())
    }

    /// Writes a long entry, over as many batches as it needs; the old blocks leave with the last of them.
    fn put_pieces(
        &mut self,
        head: &EntryHead,
        payload: &[u8],
        leaving: &[(u64, Bytes)],
    ) -> Result<Loc> {
        let loc = place(Loc::new(self.next.number, 0), head);
        let count = pieces(payload.len());
        for first in (0..count).step_by(BATCH_BLOCKS) {
            let last = (first + BATCH_BLOCKS).min(count);
            let mut packer = Packer::new(self.header(head.pos));
            for index in first..last {
                packer.push_piece(head, payload, index);
            }
            self.put(packer, if last == count { leaving } else { &[] })?;
        }
        Ok(loc)
    }

    fn header(&self, first_pos: u64) -> BlockHead {
        BlockHead {
            first_pos,
            swept_until_us: self.log.swept_until_us.load(Ordering::Acquire),
            stamp_floor: after(self.shared.stamps.last(), STAMP_SLACK_US),
            time_us: self.shared.now_us(),
            ..self.next
        }
    }

    /// Writes the packed blocks and removes the old ones, in one batch.
    fn put(&mut self, packer: Packer, leaving: &[(u64, Bytes)]) -> Result<()> {
        let (blocks, next) = packer.finish();
        let blocks: Vec<(u64, Bytes)> = blocks
            .into_iter()
            .map(|(number, bytes)| (number, Bytes::from(bytes)))
            .collect();
        self.log.keep_leaving(leaving);
        let removals = leaving.iter().map(|(number, _)| *number).collect();
        self.write(Batch {
            blocks: blocks.clone(),
            removals,
        })?;
        self.log.remember(blocks.into_iter());
        self.next = next;
        if let Some((last, _)) = leaving.last() {
            self.tail = last + 1;
        }
        self.log.moved_ends(Mark {
            epoch: next.epoch,
            head: next.number - 1,
            tail: self.tail,
            check: next.previous,
            time_us: self.shared.now_us(),
            swept_until_us: 0,
        });
        Ok(())
    }
}

/// The place of an entry, with the length that the index counts.
fn place(at: Loc, head: &EntryHead) -> Loc {
    Loc::new(at.block(), entry_bytes(head))
}
