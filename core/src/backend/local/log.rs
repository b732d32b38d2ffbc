//! The log as its readers see it: blocks on disk, the newest of them in memory too, and where it begins and ends.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::disk::{Bytes, Disk};
use super::loc::Loc;
use super::watermark::Mark;
use crate::codec::{BlockReader, Entry, KeyHash, Kind, pieces};
use crate::error::{Error, Result};

/// The most blocks that one batch writes: with no more between two syncs, no power-cut image lost anything.
pub(super) const BATCH_BLOCKS: usize = 64;

/// What one batch does to the log.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) blocks: Vec<(u64, Bytes)>,
    pub(super) removals: Vec<u64>,
}

/// How many of the newest blocks stay in memory, so that reading them does not wait for the batch in progress.
const RECENT_BLOCKS: usize = 1024;

/// How long one waits for the cleaning in progress before one looks whether the disk is still there.
const PAUSE_LOOK: Duration = Duration::from_millis(100);

/// The log of a store.
pub(super) struct Log {
    pub(super) disk: Disk,
    recent: Mutex<Recent>,
    /// The ends of what is on disk.
    ends: Mutex<Mark>,
    /// Everything forgotten at or before this time is swept.
    pub(super) swept_until_us: AtomicU64,
    /// Bytes of entries that are the newest of their key.
    live_bytes: AtomicU64,
    /// Reads of a block that was not in memory.
    cold_reads: AtomicU64,
    /// How many keep blocks from leaving. The committer holds the lock while it cleans.
    pauses: Mutex<usize>,
}

#[derive(Default)]
struct Recent {
    newest: BTreeMap<u64, Bytes>,
    /// Blocks that cleaning is about to remove, until the index points elsewhere.
    leaving: HashMap<u64, Bytes>,
}

impl Log {
    pub(super) fn new(disk: Disk, ends: Mark, swept_until_us: u64, live_bytes: u64) -> Self {
        Self {
            disk,
            recent: Mutex::default(),
            ends: Mutex::new(ends),
            swept_until_us: AtomicU64::new(swept_until_us),
            live_bytes: AtomicU64::new(live_bytes),
            cold_reads: AtomicU64::new(0),
            pauses: Mutex::new(0),
        }
    }

    pub(super) fn ends(&self) -> Mark {
        *self.ends.lock()
    }

    /// The ends, with what is swept.
    pub(super) fn mark(&self) -> Mark {
        // First: what is swept is said of the blocks that were there.
        let swept_until_us = self.swept_until_us.load(Ordering::Acquire);
        Mark {
            swept_until_us,
            ..self.ends()
        }
    }

    /// A batch is on disk: these are the ends now.
    pub(super) fn moved_ends(&self, ends: Mark) {
        *self.ends.lock() = ends;
    }

    /// Blocks between the ends, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let ends = self.ends();
        (ends.head + 1).saturating_sub(ends.tail) * crate::codec::MAX_BLOCK_BYTES as u64
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn cold_reads(&self) -> u64 {
        self.cold_reads.load(Ordering::Relaxed)
    }

    /// An entry has become the newest of its key, in the place of another.
    pub(super) fn replaced(&self, old: Loc, new: Loc) {
        self.live_bytes
            .fetch_add(new.entry_bytes(), Ordering::Relaxed);
        let old = old.entry_bytes();
        // Never below zero: places tell lengths rounded up, and copies keep them.
        let _ = self
            .live_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |live| {
                Some(live.saturating_sub(old))
            });
    }

    /// Keeps all blocks where they are until the guard is dropped. Waits for the cleaning in progress, or until `broken`
    /// says that the disk does not come back from it.
    pub(super) fn pause_cleaning(&self, broken: impl Fn() -> Result<()>) -> Result<Pause<'_>> {
        loop {
            if let Some(mut pauses) = self.pauses.try_lock_for(PAUSE_LOOK) {
                *pauses += 1;
                return Ok(Pause(&self.pauses));
            }
            broken()?;
        }
    }

    /// The right to remove blocks, while it is held; `None` while somebody keeps them.
    pub(super) fn begin_cleaning(&self) -> Option<MutexGuard<'_, usize>> {
        Some(self.pauses.lock()).filter(|pauses| **pauses == 0)
    }

    /// Keeps new blocks in memory for a while.
    pub(super) fn remember(&self, blocks: impl Iterator<Item = (u64, Bytes)>) {
        let mut recent = self.recent.lock();
        recent.newest.extend(blocks);
        while recent.newest.len() > RECENT_BLOCKS {
            recent.newest.pop_first();
        }
    }

    /// Keeps blocks that a batch is about to remove.
    pub(super) fn keep_leaving(&self, blocks: &[(u64, Bytes)]) {
        self.recent.lock().leaving.extend(blocks.iter().cloned());
    }

    /// The index points elsewhere now.
    pub(super) fn let_leave(&self) {
        self.recent.lock().leaving.clear();
    }

    fn in_memory(&self, number: u64) -> Option<Bytes> {
        let recent = self.recent.lock();
        recent
            .newest
            .get(&number)
            .or_else(|| recent.leaving.get(&number))
            .cloned()
    }

    /// A block; `None` when cleaning has removed it and the index knows.
    pub(super) fn block(&self, number: u64) -> Result<Option<Bytes>> {
        if let Some(block) = self.in_memory(number) {
            return Ok(Some(block));
        }
        self.cold_reads.fetch_add(1, Ordering::Relaxed);
        match self.disk.read(number)? {
            Some(block) => Ok(Some(block)),
            // It may have left between the two looks; if it is still leaving, the index may not know yet.
            None => Ok(self.in_memory(number)),
        }
    }

    /// The kind and the whole payload of a key's entry at this place; `None` when the block is there no more.
    pub(super) fn payload(&self, hash: &KeyHash, loc: Loc) -> Result<Option<(Kind, Vec<u8>)>> {
        let Some(block) = self.block(loc.block())? else {
            return Ok(None);
        };
        let reader = BlockReader::open(loc.block(), &block)?;
        let mut found: Option<Entry<'_>> = None;
        for entry in reader.entries() {
            let entry = entry?;
            if entry.head.hash == *hash && entry.head.kind != Kind::Piece {
                found = Some(entry);
            }
        }
        let Some(entry) = found else {
            return Err(Error::corrupt(format!(
                "block {} of the log lacks an entry that the index has there; restore a backup",
                loc.block()
            )));
        };
        let mut payload = entry.piece.to_vec();
        for number in (loc.block() + 1..).take(pieces(entry.head.payload_bytes as usize) - 1) {
            let Some(block) = self.block(number)? else {
                return Ok(None);
            };
            let piece = BlockReader::open(number, &block)?.entries().next();
            match piece {
                Some(Ok(piece)) if piece.head.hash == *hash && piece.head.kind == Kind::Piece => {
                    payload.extend_from_slice(piece.piece)
                }
                _ => {
                    return Err(Error::corrupt(format!(
                        "block {number} of the log lacks a piece of a long record; restore a backup"
                    )));
                }
            }
        }
        payload.truncate(entry.head.payload_bytes as usize);
        Ok(Some((entry.head.kind, payload)))
    }
}

/// Keeps cleaning from removing blocks while it lives.
pub(super) struct Pause<'a>(&'a Mutex<usize>);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
    }
}
