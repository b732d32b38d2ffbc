//! The only writer of the log: batch by batch, each on disk before the next begins.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::batch::{Packer, Plan};
use super::cleaner::{self, Cleaning, Copy, entry_bytes};
use super::disk::{BATCH_BLOCKS, Batch, Bytes};
use super::index::Loc;
use super::log::Log;
use super::queue::{Change, Work};
use super::watermark::Mark;
use crate::codec::{BlockHead, EntryHead, Kind, pieces};
use crate::error::{Error, Result};
use crate::time::after;

/// New blocks of a batch that also cleans; the rest of the batch is for copies.
const NEW_BLOCKS_WHEN_CLEANING: usize = 24;
/// Old blocks that are looked at for each new one.
const OLD_PER_NEW: usize = 2;
/// How far stamps may have run ahead of the blocks that tell of them.
const STAMP_SLACK_US: u64 = 1_000_000;

/// The committer's own state.
pub(super) struct Committer {
    shared: Arc<Shared>,
    log: Arc<Log>,
    /// The header of the next block.
    next: BlockHead,
    tail: u64,
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
        }
    }

    /// Writes until the queue is closed and empty, or the disk fails; lets go of the log when the store is closed.
    pub(super) fn run(self) {
        let (shared, log) = (Arc::clone(&self.shared), Arc::clone(&self.log));
        self.write_all();
        // After a fault what is on disk can still be read.
        shared.queue.wait_for_close();
        shared.watched(|| log.disk.close());
        shared.durable.end();
    }

    fn write_all(mut self) {
        while let Work::Write(mut waiting) =
            self.shared.queue.take(self.shared.options.commit_interval)
        {
            while !waiting.is_empty() {
                if let Err(fault) = self.write_guarded(&mut waiting) {
                    // Final: what is on disk still replays, everything else is refused until the store is reopened.
                    self.shared.fail(fault);
                    return;
                }
            }
        }
    }

    fn write_guarded(&mut self, waiting: &mut VecDeque<Change>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let timing = crate::time::Stopwatch::start();
        let written = shared.watched(|| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.write_batch(waiting)))
        });
        shared.commit_times.record(timing.elapsed());
        shared.commits.fetch_add(1, Ordering::Relaxed);
        written.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the committer of the store panicked; reopen the store",
            ))
        })
    }

    fn write_batch(&mut self, waiting: &mut VecDeque<Change>) -> Result<()> {
        let cleaning = cleaner::is_due(&self.log);
        let plan = Plan::cut(
            waiting,
            if cleaning {
                NEW_BLOCKS_WHEN_CLEANING
            } else {
                BATCH_BLOCKS - 2
            },
        );
        self.shared
            .queue
            .in_hand_since(waiting.front().map_or(0, |change| change.decided_us));
        if plan.is_long() {
            return self.write_long_change(plan);
        }
        let mut cleaned = match cleaning {
            true => self.collect(&plan)?,
            false => Cleaning::Short {
                copies: Vec::new(),
                leaving: Vec::new(),
            },
        };
        if let Cleaning::Long { copy, leaving } = cleaned {
            self.move_long_entry(&copy, &leaving)?;
            cleaned = Cleaning::Short {
                copies: Vec::new(),
                leaving: Vec::new(),
            };
        }
        let Cleaning::Short { copies, leaving } = cleaned else {
            return Ok(());
        };
        let mut packer =
            Packer::new(self.header(plan.changes.first().map_or(0, |change| change.pos)));
        // Copies first: an entry that is new in this batch must come after any older one of its key.
        let moved: Vec<Loc> = copies
            .iter()
            .map(|copy| place(packer.push(&copy.head, &copy.payload), &copy.head))
            .collect();
        packer.turn_over();
        let placed: Vec<Loc> = plan
            .changes
            .iter()
            .map(|change| place(packer.push(&change.head(), &change.payload), &change.head()))
            .collect();
        self.put(packer, &leaving)?;
        for (change, loc) in plan.changes.iter().zip(placed) {
            self.publish(change, loc);
        }
        for (copy, to) in copies.iter().zip(moved) {
            self.publish_copy(copy, to);
        }
        self.finish(plan);
        Ok(())
    }

    fn collect(&self, plan: &Plan) -> Result<Cleaning> {
        let bytes: usize = plan
            .changes
            .iter()
            .map(|change| entry_bytes(&change.head()))
            .sum();
        let new = bytes.div_ceil(crate::codec::BLOCK_ROOM_BYTES).max(1);
        let room = BATCH_BLOCKS.saturating_sub(new + new / 4 + 2).max(1);
        cleaner::collect(
            &self.log,
            &self.shared.index,
            plan,
            OLD_PER_NEW * new,
            room,
            self.shared.now_us(),
        )
    }

    fn write_long_change(&mut self, plan: Plan) -> Result<()> {
        if let Some(change) = plan.changes.first() {
            let head = change.head();
            let loc = self.put_pieces(&head, &change.payload, &[])?;
            self.publish(change, loc);
        }
        self.finish(plan);
        Ok(())
    }

    fn move_long_entry(&mut self, copy: &Copy, leaving: &[(u64, Bytes)]) -> Result<()> {
        let to = self.put_pieces(&copy.head, &copy.payload, leaving)?;
        self.publish_copy(copy, to);
        self.log.let_leave();
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
        self.log.disk.write(Batch {
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
        });
        Ok(())
    }

    fn publish(&self, change: &Change, loc: Loc) {
        let loc = if change.kind == Kind::Marker {
            Loc::NONE
        } else {
            loc
        };
        self.log.replaced(change.cell.set_home(loc), loc);
        if loc != Loc::NONE {
            self.shared.expiry.note(change.forgotten_at_us, loc.block());
        }
    }

    fn publish_copy(&self, copy: &Copy, to: Loc) {
        if self.shared.index.moved(&copy.head.hash, copy.from, to) {
            self.log.replaced(copy.from, to);
            self.shared
                .expiry
                .note(copy.head.forgotten_at_us, to.block());
        }
    }

    /// Everything in the plan is on disk, and the index knows where.
    fn finish(&self, plan: Plan) {
        self.log.let_leave();
        self.shared.durable.advance(plan.last_pos);
        self.shared.queue.written(plan.weight);
        for change in plan.changes {
            let marker = (change.kind == Kind::Marker).then_some(change.hash);
            drop(change);
            if let Some(hash) = marker {
                self.shared.index.discard_if_vacant(&hash);
            }
        }
    }
}

/// The place of an entry, with the length that the index counts.
fn place(at: Loc, head: &EntryHead) -> Loc {
    Loc::new(at.block(), entry_bytes(head))
}
