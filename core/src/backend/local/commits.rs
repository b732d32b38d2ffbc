//! Many keys, all or nothing: their cells are locked in one order, versions compared, and one group queued.

use std::sync::Arc;

use super::cell::{Cell, CellState};
use super::{Local, Shared};
use crate::backend::{Admission, Commit, Committed, Durability, Op, Seen, Write};
use crate::codec::{Content, KeyHash};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::record::Policy;

/// The most bytes that one commit may write.
const MAX_COMMIT_BYTES: usize = 4 << 20;

enum Outcome {
    Written {
        contents: Vec<Content>,
        shows_at: u64,
    },
    Conflict,
    NeedsRoom,
}

impl Local {
    pub(super) fn commit_op<'a>(&'a self, commit: &'a Commit<'a>) -> Op<'a, Result<Committed>> {
        if let Err(error) = self.origin.check().and_then(|()| self.shared.check_open()) {
            return Op::ready(Err(error));
        }
        let shared = &self.shared;
        Op::later(async move {
            loop {
                match shared.commit(commit)? {
                    Outcome::Conflict => return Ok(Committed::Conflict),
                    Outcome::NeedsRoom => {
                        shared
                            .queue
                            .room(
                                commit.admission,
                                || shared.now_us(),
                                || shared.durable.check().and_then(|()| shared.check_open()),
                            )
                            .await?;
                    }
                    Outcome::Written { contents, shows_at } => {
                        let waited = shared.durable.wait(shows_at).await;
                        return waited.map(|()| Committed::Written(contents));
                    }
                }
            }
        })
    }

    pub(super) fn load_op<'a>(&'a self, keys: &'a [&'a Key]) -> Op<'a, Result<Vec<Seen>>> {
        if let Err(error) = self.origin.check().and_then(|()| self.shared.check_open()) {
            return Op::ready(Err(error));
        }
        let looked: Result<Vec<(Seen, u64)>> =
            keys.iter().map(|key| self.shared.look(key)).collect();
        let looked = match looked {
            Ok(looked) => looked,
            Err(error) => return Op::ready(Err(error)),
        };
        let shows_at = looked
            .iter()
            .map(|(_, shows_at)| *shows_at)
            .max()
            .unwrap_or(0);
        let seen = looked.into_iter().map(|(seen, _)| seen).collect();
        match self.shared.durable.reached(shows_at) {
            true => Op::ready(Ok(seen)),
            false => {
                Op::later(async move { self.shared.durable.wait(shows_at).await.map(|()| seen) })
            }
        }
    }
}

/// A key of a commit: its cell, and what the commit says about it.
struct Part<'a> {
    key: &'a Key,
    hash: KeyHash,
    cell: Arc<Cell>,
    read: u64,
    write: Option<usize>,
}

impl Shared {
    fn commit(self: &Arc<Self>, commit: &Commit<'_>) -> Result<Outcome> {
        let mut parts = Vec::with_capacity(commit.reads.len());
        let gathered = self.gather(commit, &mut parts);
        let mut calls = Vec::new();
        let outcome = gathered.and_then(|()| {
            let mut states: Vec<_> = parts.iter().map(|part| part.cell.lock()).collect();
            let mut states: Vec<&mut CellState> =
                states.iter_mut().map(|guard| &mut **guard).collect();
            self.commit_locked(commit, &parts, &mut states, &mut calls)
        });
        calls.into_iter().for_each(std::task::Waker::wake);
        let hashes: Vec<KeyHash> = parts.iter().map(|part| part.hash).collect();
        drop(parts);
        for hash in &hashes {
            self.index.discard_if_vacant(hash);
            self.make_room();
        }
        outcome
    }

    /// The cells of a commit in the order in which they are locked, whatever the caller's order.
    fn gather<'a>(&self, commit: &Commit<'a>, parts: &mut Vec<Part<'a>>) -> Result<()> {
        for (key, read) in &commit.reads {
            let hash = self.hash(key.as_bytes());
            let limit = if commit.admission == Admission::Claim {
                self.options.max_records
            } else {
                u64::MAX
            };
            let cell = self.index.find_or_make(&hash, limit).ok_or_else(|| {
                Error::unavailable(
                    "the store is full: sweep, shorten retain, or allow more with max_records",
                )
            })?;
            let write = commit
                .writes
                .iter()
                .position(|(written, _)| written.as_bytes() == key.as_bytes());
            parts.push(Part {
                key,
                hash,
                cell,
                read: *read,
                write,
            });
        }
        parts.sort_by_key(|part| part.hash);
        match parts.windows(2).any(|pair| pair[0].hash == pair[1].hash)
            || parts.iter().filter(|part| part.write.is_some()).count() != commit.writes.len()
        {
            true => Err(Error::invalid(
                "a commit names a key twice, or writes one that it has not read",
            )),
            false => Ok(()),
        }
    }

    fn commit_locked(
        self: &Arc<Self>,
        commit: &Commit<'_>,
        parts: &[Part<'_>],
        states: &mut [&mut CellState],
        calls: &mut Vec<std::task::Waker>,
    ) -> Result<Outcome> {
        for (part, state) in parts.iter().zip(states.iter_mut()) {
            self.read_in(&part.cell, state, part.hash, part.key.as_bytes())?;
            if state.held.content().map_or(0, Content::version) != part.read {
                return Ok(Outcome::Conflict);
            }
        }
        if commit.writes.is_empty() {
            // Nothing to write: what was read holds, once it is as durable as it was promised.
            let promised = states.iter().filter(|state| state.promised);
            return Ok(Outcome::Written {
                contents: Vec::new(),
                shows_at: promised.map(|state| state.pos).max().unwrap_or(0),
            });
        }
        if self.log.is_some() && !self.queue.has_room(commit.admission, || self.now_us()) {
            self.durable.check()?;
            return Ok(Outcome::NeedsRoom);
        }
        let now_us = self.now_us();
        let stamp = self.stamps.next(now_us);
        let contents: Vec<Content> = commit
            .writes
            .iter()
            .map(|(_, write)| stamped(write.clone(), stamp))
            .collect();
        let promised = commit.durability == Durability::Sync || contents.iter().any(holds);
        let written: Vec<(usize, usize)> = parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| Some((at, part.write?)))
            .collect();
        let pos = match &self.log {
            None => {
                self.check_open()?;
                0
            }
            Some(_) => {
                self.durable.check()?;
                let changes = written
                    .iter()
                    .map(|&(at, write)| {
                        self.queued(
                            parts[at].key.as_bytes(),
                            parts[at].hash,
                            &parts[at].cell,
                            Some(&contents[write]),
                            now_us,
                        )
                    })
                    .collect::<Result<Vec<_>>>()?;
                let bytes: usize = changes.iter().map(|change| change.payload.len()).sum();
                if bytes > MAX_COMMIT_BYTES {
                    return Err(Error::invalid(format!(
                        "a commit of {bytes} bytes is too large; at most {MAX_COMMIT_BYTES} are allowed: split it"
                    )));
                }
                self.queue
                    .push(changes.into_iter(), commit.admission, promised)?
            }
        };
        for &(at, write) in &written {
            // All of a group show together: when its last entry is on disk.
            self.take_up(
                parts[at].hash,
                states[at],
                Some(contents[write].clone()),
                pos,
                promised,
            );
            if let Some(line) = &mut states[at].line {
                calls.extend(line.dismiss());
            }
        }
        Ok(Outcome::Written {
            contents,
            shows_at: if promised { pos } else { 0 },
        })
    }
}

fn stamped(write: Write, stamp: u64) -> Content {
    match write {
        Write::Record(mut record) => {
            record.version = stamp;
            if record.fence == 0 {
                record.fence = stamp;
            }
            Content::Record(Arc::new(record))
        }
        Write::Row(mut row) => {
            row.version = stamp;
            Content::Row(Arc::new(row))
        }
    }
}

/// Whether the content starts an attempt that nobody may run again.
fn holds(content: &Content) -> bool {
    matches!(content, Content::Record(record) if record.terms.in_doubt != Policy::Rerun)
}
