//! Looking through what is stored, a bounded piece at a time, and the backend's other plain questions.

use super::Local;
use super::cell::Held;
use super::loc::Loc;
use crate::backend::{
    Backend, Commit, Committed, Cursor, Decided, Durability, Facts, Op, Scanned, Seen, Turn,
};
use crate::codec::KeyHash;
use crate::error::Result;
use crate::key::Key;
use crate::lifecycle::{Event, Told};
use std::sync::atomic::Ordering;

/// How many entries one piece of a scan has at most.
const PIECE: usize = 500;

impl Backend for Local {
    fn update<'a>(
        &'a self,
        key: &'a Key,
        event: &'a Event,
        turn: Option<Turn>,
        durability: Durability,
    ) -> Op<'a, Result<Decided>> {
        self.update_op(key, event, turn, durability)
    }

    fn glance(&self, key: &Key) -> Option<Told> {
        self.check().ok()?;
        self.shared.glance(key)
    }

    fn commit<'a>(&'a self, commit: &'a Commit<'a>) -> Op<'a, Result<Committed>> {
        self.commit_op(commit)
    }

    fn load<'a>(&'a self, keys: &'a [&'a Key]) -> Op<'a, Result<Vec<Seen>>> {
        self.load_op(keys)
    }

    fn withdraw(&self, key: &Key, withdrawal: &Event, noted: Option<&Key>) {
        let told = self
            .update(key, withdrawal, None, Durability::Relaxed)
            .now();
        if let Some(Ok(decided)) = told {
            self.withdrawn(withdrawal, &decided, noted);
        }
    }

    fn changed<'a>(&'a self, key: &'a Key, seen: u64, until_us: u64) -> Op<'a, Result<Turn>> {
        self.changed_op(key, seen, until_us)
    }

    fn scan(&self, from: Cursor) -> Result<(Vec<Scanned>, Option<Cursor>)> {
        self.check()?;
        let Some(mut hashes) = self.shared.index.shard_hashes(from.shard) else {
            return Ok((Vec::new(), None));
        };
        if let Some(after) = from.hash {
            hashes.retain(|hash| *hash > after);
        }
        let next = match hashes.len() > PIECE {
            true => {
                let (_, last, _) = hashes.select_nth_unstable(PIECE - 1);
                let last = *last;
                hashes.truncate(PIECE);
                Cursor {
                    shard: from.shard,
                    hash: Some(last),
                }
            }
            false => Cursor {
                shard: from.shard + 1,
                hash: None,
            },
        };
        let mut found = Vec::with_capacity(hashes.len());
        for hash in hashes {
            found.extend(self.shared.peek(&hash)?);
        }
        Ok((found, Some(next)))
    }

    fn open_records(&self, until_us: u64, limit: usize) -> Result<Vec<Scanned>> {
        self.check()?;
        let mut found = Vec::new();
        for (_, hash) in self.shared.watchlist.until(until_us, limit) {
            found.extend(self.shared.peek(&hash)?);
        }
        Ok(found)
    }

    fn ordered(&self, space: &str, limit: usize) -> Result<Vec<Scanned>> {
        self.check()?;
        self.shared.ordered_rows(space, limit)
    }

    fn stamp(&self) -> Result<u64> {
        self.check()?;
        Ok(self.shared.stamps.next(self.shared.now_us()))
    }

    fn sweep(&self) -> Result<u64> {
        self.check()?;
        self.shared.sweep(&|| false).map(|swept| swept.count)
    }

    fn barrier<'a>(&'a self) -> Op<'a, Result<()>> {
        if let Err(error) = self.check() {
            return Op::ready(Err(error));
        }
        let pos = self.shared.queue.hurry();
        Op::later(async move { self.shared.durable.wait(pos).await })
    }

    fn close(&self) -> Result<()> {
        self.origin.check()?;
        self.shut()
    }

    fn facts(&self) -> Facts {
        let shared = &self.shared;
        Facts {
            entries: shared.index.len(),
            swept: shared.swept.load(Ordering::Relaxed),
            queued_bytes: shared.queue.bytes(),
            log_bytes: shared.log.as_ref().map_or(0, |log| log.bytes()),
            live_bytes: shared.log.as_ref().map_or(0, |log| log.live_bytes()),
            cold_reads: shared.log.as_ref().map_or(0, |log| log.cold_reads()),
            commits: shared.commits.load(Ordering::Relaxed),
        }
    }
}

impl Local {
    pub(super) fn check(&self) -> Result<()> {
        self.origin.check().and_then(|()| self.shared.check_open())
    }
}

impl super::Shared {
    /// The key and content of a hash, without bringing it into memory; `None` when it is absent.
    pub(super) fn peek(&self, hash: &KeyHash) -> Result<Option<Scanned>> {
        if let Some(cell) = self.index.find_hot(hash) {
            let state = cell.lock();
            match state.held() {
                Held::Present(content) => {
                    return Ok(Some((state.key.as_bytes().into(), content.clone())));
                }
                Held::Absent => {
                    drop(state);
                    drop(cell);
                    // Whoever forgot the key could not let go of its cell while this call had it.
                    self.index.discard_if_vacant(hash);
                    return Ok(None);
                }
                Held::Unread => {}
            }
        }
        let home = || self.index.home(hash).unwrap_or(Loc::NONE);
        match self.read_at_home(hash, home) {
            Ok((key, content)) => Ok(content.map(|content| (key, content))),
            // Swept, or forgotten, since the look at its cell.
            Err(_) if home() == Loc::NONE => Ok(None),
            Err(error) => Err(error),
        }
    }
}
