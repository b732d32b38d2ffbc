//! Sweeping: what is forgotten leaves the index, and the archive, if there is one, gets it first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::index::Expiry;
use super::lines::Lines;
use super::loc::Loc;
use super::log::Log;
use crate::archive;
use crate::backend::wait;
use crate::codec::{BlockReader, Content, KeyHash, Kind, decode_body, split_payload};
use crate::error::{Error, Result};
use crate::key::Parts;

/// After so many entries a sweep lets others run.
const YIELD_AFTER: u64 = 2_000;

/// What a sweep came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Swept {
    pub(super) count: u64,
    /// Whether it got to the end of what is forgotten.
    pub(super) finished: bool,
}

/// One sweep.
struct Sweep<'a> {
    shared: &'a Shared,
    now_us: u64,
    archive: Option<Lines>,
    swept: u64,
    /// The earliest time at which something was forgotten that could not be taken out yet.
    left_us: u64,
    failed: Option<Error>,
}

impl Shared {
    /// Takes out what is forgotten; how many. Ends early when `stop` says so.
    pub(super) fn sweep(&self, stop: &dyn Fn() -> bool) -> Result<Swept> {
        let mut unsaid = self.sweeping.lock();
        let archive = match &self.options.archive {
            Some(path) => Some(Lines::open(path)?),
            None => None,
        };
        let mut sweep = Sweep {
            shared: self,
            now_us: self.now_us(),
            archive,
            swept: 0,
            left_us: u64::MAX,
            failed: None,
        };
        let finished = match &self.log {
            Some(log) => sweep.logged(log, stop, &mut unsaid),
            None => sweep.unlogged(stop),
        };
        self.swept.fetch_add(sweep.swept, Ordering::Relaxed);
        let count = sweep.swept;
        match (finished, sweep.failed) {
            (Err(error), _) | (_, Some(error)) => Err(error),
            (Ok(finished), None) => Ok(Swept { count, finished }),
        }
    }
}

impl Sweep<'_> {
    fn logged(
        &mut self,
        log: &Arc<Log>,
        stop: &dyn Fn() -> bool,
        unsaid: &mut bool,
    ) -> Result<bool> {
        if self.archive.is_some() && !self.shared.expiry.is_due(self.now_us) {
            return Ok(true);
        }
        let _pause = match self.archive {
            None => None,
            Some(_) => {
                // No block leaves before the archive is on disk; and all that was decided is where a sweep finds it.
                let pause = log.pause_cleaning(|| self.shared.durable.check())?;
                wait(self.shared.durable.wait(self.shared.queue.hurry()))?;
                Some(pause)
            }
        };
        let finished = self.seconds(log, stop);
        self.sync_archive()?;
        *unsaid |= self.swept > 0;
        if finished && self.failed.is_none() && *unsaid {
            *unsaid = false;
            // The log says from now on that all that was forgotten by then is out of the index.
            log.swept_until_us.fetch_max(
                self.now_us.min(self.left_us.saturating_sub(1)),
                Ordering::AcqRel,
            );
        }
        Ok(finished)
    }

    /// Goes through the seconds in which something is forgotten; whether it got through all of them.
    fn seconds(&mut self, log: &Log, stop: &dyn Fn() -> bool) -> bool {
        let mut again: Vec<(u64, Vec<u64>)> = Vec::new();
        let mut finished = true;
        while finished && let Some((second, blocks)) = self.shared.expiry.take_due(self.now_us) {
            let mut keep = Vec::new();
            let mut rest = blocks.into_iter();
            for block in rest.by_ref() {
                if stop() {
                    finished = false;
                    keep.push(block);
                    break;
                }
                match self.block(log, block, second) {
                    Ok(true) => {}
                    Ok(false) => keep.push(block),
                    Err(error) => {
                        // What cannot be read or archived does not stop the others; it is looked at again next time.
                        keep.push(block);
                        self.failed = Some(error);
                    }
                }
            }
            keep.extend(rest);
            again.push((second, keep));
        }
        for (second, blocks) in again {
            self.shared.expiry.put_back(second, blocks);
        }
        finished
    }

    /// Whether the block needs no second look for this second.
    fn block(&mut self, log: &Log, number: u64, second: u64) -> Result<bool> {
        let Some(bytes) = log.block(number)? else {
            return Ok(true);
        };
        let mut done = true;
        for entry in BlockReader::open(number, &bytes)?.newest_entries()? {
            let head = entry.head;
            let loc = Loc::new(number, super::cleaner::entry_bytes(&head));
            if matches!(head.kind, Kind::Piece | Kind::Marker)
                || head.forgotten_at_us / 1_000_000 != second
            {
                continue;
            }
            if head.forgotten_at_us > self.now_us {
                done &= self.shared.index.home(&head.hash) != Some(loc);
                continue;
            }
            let whole = match self.archive {
                Some(_) if self.shared.index.home(&head.hash) == Some(loc) => {
                    self.whole(log, &head.hash, loc)?
                }
                _ => None,
            };
            match self
                .shared
                .index
                .expire(&head.hash, loc, self.shared.durable.pos())
            {
                Expiry::Removed(loc) => {
                    self.archive_or_put_back(log, &head.hash, loc, whole)?;
                    if head.kind == Kind::OpenRecord {
                        let watched_us = Some(head.due_us);
                        self.shared.watchlist.change(&head.hash, watched_us, None);
                    }
                    self.count(split_payload(entry.piece).map_or(&[], |(key, _)| key));
                }
                Expiry::Superseded => {}
                Expiry::InUse => {
                    done = false;
                    self.left_us = self.left_us.min(head.forgotten_at_us);
                }
            }
        }
        Ok(done)
    }

    fn archive_or_put_back(
        &mut self,
        log: &Log,
        hash: &KeyHash,
        loc: Loc,
        whole: Option<(Vec<u8>, Content)>,
    ) -> Result<()> {
        let archived = match &whole {
            Some((key, content)) => self.record(key, content),
            None => Ok(()),
        };
        if archived.is_err() && self.shared.index.put_back(hash, loc) {
            return archived;
        }
        log.replaced(loc, Loc::NONE);
        archived
    }

    fn whole(&self, log: &Log, hash: &KeyHash, loc: Loc) -> Result<Option<(Vec<u8>, Content)>> {
        let Some((kind, payload)) = log.payload(hash, loc)? else {
            return Ok(None);
        };
        let Some((key, body)) = split_payload(&payload) else {
            return Ok(None);
        };
        Ok(decode_body(kind, body)?.map(|content| (key.to_vec(), content)))
    }

    fn unlogged(&mut self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let mut again = Vec::new();
        let mut finished = true;
        while finished
            && let Some((second, hashes)) = self.shared.unlogged_expiry.take_due(self.now_us)
        {
            let mut keep = Vec::new();
            let mut rest = hashes.into_iter();
            for hash in rest.by_ref() {
                if stop() {
                    finished = false;
                    keep.push(hash);
                    break;
                }
                match self.shared.index.expire_unlogged(&hash, self.now_us) {
                    (Expiry::Removed(_), Some((key, content))) => {
                        if let Err(error) = self.record(&key, &content) {
                            self.failed = Some(error);
                        }
                        let watched_us = content.open_since_us();
                        self.shared.watchlist.change(&hash, watched_us, None);
                        self.count(&key);
                    }
                    (Expiry::Removed(_), None) => {}
                    (Expiry::InUse, _) => keep.push(hash),
                    (Expiry::Superseded, _) => {
                        let forgotten_us =
                            self.shared.peek(&hash)?.map(|it| it.1.forgotten_at_us());
                        keep.extend(
                            forgotten_us
                                .filter(|us| us / 1_000_000 == second)
                                .map(|_| hash),
                        );
                    }
                }
            }
            keep.extend(rest);
            again.push((second, keep));
        }
        for (second, hashes) in again {
            self.shared.unlogged_expiry.put_back(second, hashes);
        }
        self.sync_archive()?;
        Ok(finished)
    }

    /// Writes what was dropped from the index, before the log says so: a crash may write it twice, never lose it.
    fn record(&mut self, key: &[u8], content: &Content) -> Result<()> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        // Line by line: what one write leaves unwritten is one record, which is put back.
        archive::line(key, content).map_or(Ok(()), |line| archive.append(&line))
    }

    fn sync_archive(&mut self) -> Result<()> {
        match &self.archive {
            Some(archive) if self.swept > 0 => archive.sync(),
            _ => Ok(()),
        }
    }

    fn count(&mut self, key: &[u8]) {
        self.swept += 1;
        if let Some(parts) = Parts::decode(key) {
            let mut counts = self.shared.swept_by_operation.lock();
            let known =
                counts.contains_key(parts.operation) || counts.len() < crate::stats::MAX_OPERATIONS;
            let name = if known {
                parts.operation
            } else {
                crate::stats::OTHER_OPERATIONS
            };
            match counts.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(counts.insert(name.to_owned(), 1)),
            }
        }
        if self.swept.is_multiple_of(YIELD_AFTER) {
            std::thread::yield_now();
        }
    }
}
