//! Sweeping: what is forgotten leaves the index, and the archive, if there is one, gets it first.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Shared;
use super::index::{Expiry, Loc};
use super::log::Log;
use crate::archive;
use crate::codec::{BlockReader, Content, KeyHash, Kind, decode_body, split_payload};
use crate::error::Result;
use crate::key::Parts;

/// After so many entries a sweep lets others run.
const YIELD_AFTER: u64 = 2_000;

/// One sweep.
struct Sweep<'a> {
    shared: &'a Shared,
    now_us: u64,
    archive: Option<BufWriter<File>>,
    swept: u64,
    /// The earliest time at which something was forgotten that could not be taken out yet.
    left_us: u64,
}

impl Shared {
    /// Takes out what is forgotten; how many. Ends early when `stop` says so.
    pub(super) fn sweep(&self, stop: &dyn Fn() -> bool) -> Result<u64> {
        let _one = self.sweeping.lock();
        let archive = match &self.options.archive {
            Some(path) => Some(BufWriter::new(
                OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path)
                    .map_err(|e| super::disk::io(path, "open the archive", e))?,
            )),
            None => None,
        };
        let mut sweep = Sweep {
            shared: self,
            now_us: self.now_us(),
            archive,
            swept: 0,
            left_us: u64::MAX,
        };
        let result = match &self.log {
            Some(log) => sweep.logged(log, stop),
            None => sweep.unlogged(stop),
        };
        self.swept.fetch_add(sweep.swept, Ordering::Relaxed);
        result.map(|()| sweep.swept)
    }
}

impl Sweep<'_> {
    fn logged(&mut self, log: &Arc<Log>, stop: &dyn Fn() -> bool) -> Result<()> {
        let mut again: Vec<(u64, Vec<u64>)> = Vec::new();
        let mut failed = None;
        while !stop() {
            let Some((second, mut blocks)) = self.shared.expiry.take_due(self.now_us) else {
                break;
            };
            blocks.sort_unstable();
            blocks.dedup();
            let mut keep = Vec::new();
            for block in blocks {
                match self.block(log, block, second) {
                    Ok(true) => {}
                    Ok(false) => keep.push(block),
                    Err(error) => {
                        // One block that cannot be read does not stop the others; it is looked at again next time.
                        keep.push(block);
                        failed = Some(error);
                        self.left_us = self.left_us.min(second * 1_000_000);
                    }
                }
            }
            again.push((second, keep));
        }
        for (second, blocks) in again {
            self.shared.expiry.put_back(second, blocks);
        }
        if failed.is_none() && !stop() {
            // The log says from now on that all that was forgotten by then is out of the index.
            log.swept_until_us.fetch_max(
                self.now_us.min(self.left_us.saturating_sub(1)),
                Ordering::AcqRel,
            );
        }
        failed.map_or(Ok(()), Err)
    }

    /// Whether the block needs no second look for this second.
    fn block(&mut self, log: &Log, number: u64, second: u64) -> Result<bool> {
        let Some(bytes) = log.block(number)? else {
            return Ok(true);
        };
        let mut done = true;
        for entry in BlockReader::open(number, &bytes)?.entries() {
            let head = entry.as_ref().map_err(Clone::clone)?.head;
            if matches!(head.kind, Kind::Piece | Kind::Marker)
                || head.forgotten_at_us / 1_000_000 != second
            {
                continue;
            }
            let loc = Loc::new(number, super::cleaner::entry_bytes(&head));
            if head.forgotten_at_us > self.now_us {
                done &= self.shared.index.home(&head.hash) != Some(loc);
                continue;
            }
            if self.shared.index.home(&head.hash) != Some(loc) {
                continue;
            }
            let asked = self.archive.is_some() || head.kind == Kind::OpenRecord;
            let whole = if asked {
                self.whole(log, &head.hash, loc)?
            } else {
                None
            };
            if let Some((key, content)) = &whole {
                self.record(key, content)?;
            }
            match self
                .shared
                .index
                .expire(&head.hash, loc, self.shared.durable.pos())
            {
                Expiry::Removed(loc) => {
                    log.replaced(loc, Loc::NONE);
                    if let Ok(entry) = entry {
                        self.count(split_payload(entry.piece).map_or(&[], |(key, _)| key));
                    }
                    let watched_us = whole.and_then(|(_, content)| content.open_since_us());
                    self.shared.watchlist.change(&head.hash, watched_us, None);
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

    fn whole(&self, log: &Log, hash: &KeyHash, loc: Loc) -> Result<Option<(Vec<u8>, Content)>> {
        let Some((kind, payload)) = log.payload(hash, loc)? else {
            return Ok(None);
        };
        let Some((key, body)) = split_payload(&payload) else {
            return Ok(None);
        };
        Ok(decode_body(kind, body)?.map(|content| (key.to_vec(), content)))
    }

    fn unlogged(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        let mut again = Vec::new();
        while !stop() {
            let Some((second, hashes)) = self.shared.unlogged_expiry.take_due(self.now_us) else {
                break;
            };
            let mut keep = Vec::new();
            for hash in hashes {
                let Some((key, content)) = self.shared.peek(&hash)? else {
                    continue;
                };
                if content.forgotten_at_us() > self.now_us {
                    if content.forgotten_at_us() / 1_000_000 == second {
                        keep.push(hash);
                    }
                    continue;
                }
                if self.archive.is_some() {
                    self.record(&key, &content)?;
                }
                match self.shared.index.expire_unlogged(&hash, self.now_us).0 {
                    Expiry::Removed(_) => {
                        self.count(&key);
                        self.shared
                            .watchlist
                            .change(&hash, content.open_since_us(), None);
                    }
                    Expiry::Superseded => {}
                    Expiry::InUse => keep.push(hash),
                }
            }
            again.push((second, keep));
        }
        for (second, hashes) in again {
            self.shared.unlogged_expiry.put_back(second, hashes);
        }
        Ok(())
    }

    /// Writes what is about to be dropped. It is written before it is dropped: a crash may write it twice, never lose it.
    fn record(&mut self, key: &[u8], content: &Content) -> Result<()> {
        let (Some(out), Some(path)) = (&mut self.archive, &self.shared.options.archive) else {
            return Ok(());
        };
        let Some(line) = archive::line(key, content) else {
            return Ok(());
        };
        out.write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|e| super::disk::io(path, "write the archive", e))
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
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        if self.swept.is_multiple_of(YIELD_AFTER) {
            std::thread::yield_now();
        }
    }
}
