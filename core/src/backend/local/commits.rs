//! Many keys, all or nothing: their cells are locked in one order, versions compared, and one group queued.

use std::collections::HashMap;
use std::sync::Arc;

use super::cell::{Cell, CellState};
use super::{Local, Shared};
use crate::backend::{
    Admission, Commit, Committed, Decided, Durability, LAST_PLACE, Op, Seen, Touched, Write,
};
use crate::codec::{Content, KeyHash};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::lifecycle::{Answer, Event, Verb};
use crate::record::{Policy, State};

/// The most bytes that one commit may write.
const MAX_COMMIT_BYTES: usize = 4 << 20;

enum Outcome {
    Written {
        contents: Vec<Content>,
        shows_at: u64,
    },
    Conflict(usize),
    NeedsRoom,
}

impl Local {
    pub(super) fn commit_op<'a>(&'a self, commit: &'a Commit<'a>) -> Op<'a, Result<Committed>> {
        if let Err(error) = self.check() {
            return Op::ready(Err(error));
        }
        match self.shared.commit(commit) {
            Err(error) => Op::ready(Err(error)),
            Ok(Outcome::Conflict(at)) => Op::ready(Ok(Committed::Conflict(at))),
            Ok(Outcome::Written { contents, shows_at })
                if self.shared.durable.reached(shows_at) =>
            {
                Op::ready(Ok(Committed::Written(contents)))
            }
            Ok(outcome) => Op::later(self.shared.see_through(commit, outcome)),
        }
    }

    pub(super) fn load_op<'a>(&'a self, keys: &'a [&'a Key]) -> Op<'a, Result<Vec<Seen>>> {
        if let Err(error) = self.check() {
            return Op::ready(Err(error));
        }
        let looked: Result<Vec<(Seen, u64)>> =
            keys.iter().map(|key| self.shared.look(key)).collect();
        let looked = match looked {
            Ok(looked) => looked,
            Err(error) => return Op::ready(Err(error)),
        };
        let shows_at = looked.iter().map(|(_, at)| *at).max().unwrap_or(0);
        let seen = looked.into_iter().map(|(seen, _)| seen).collect();
        match self.shared.durable.reached(shows_at) {
            true => Op::ready(Ok(seen)),
            false => {
                Op::later(async move { self.shared.durable.wait(shows_at).await.map(|()| seen) })
            }
        }
    }

    /// A claim was taken back: of an operation that never began nobody is the twin.
    pub(crate) fn withdrawn(&self, withdrawal: &Event, decided: &Decided, noted: Option<&Key>) {
        if let (Verb::Withdraw { claimed }, Some(noted)) = (&withdrawal.verb, noted)
            && decided.answer != Answer::Lost
            && self.check().is_ok()
        {
            let _ = self.shared.take_back(noted, *claimed);
        }
    }
}

/// A key of a commit: its cell, and its place in what the caller gave.
struct Part<'a> {
    touched: &'a Touched<'a>,
    at: usize,
    hash: KeyHash,
    cell: Arc<Cell>,
}

impl Shared {
    /// Waits for room, for the disk, or both.
    async fn see_through(
        self: &Arc<Self>,
        commit: &Commit<'_>,
        mut outcome: Outcome,
    ) -> Result<Committed> {
        loop {
            match outcome {
                Outcome::Conflict(at) => return Ok(Committed::Conflict(at)),
                Outcome::Written { contents, shows_at } => {
                    return self
                        .durable
                        .wait(shows_at)
                        .await
                        .map(|()| Committed::Written(contents));
                }
                Outcome::NeedsRoom => {
                    let broken = || self.durable.check().and_then(|()| self.check_open());
                    self.queue
                        .room(commit.admission, || self.now_us(), broken)
                        .await?;
                    outcome = self.commit(commit)?;
                }
            }
        }
    }

    /// Removes what a commit of this nonce has written, if it still stands. Nobody waits for it.
    fn take_back(self: &Arc<Self>, key: &Key, nonce: u64) -> Result<()> {
        let (seen, _) = self.look(key)?;
        if seen
            .content
            .as_ref()
            .is_none_or(|content| content.nonce() != nonce)
        {
            return Ok(());
        }
        let touched = Touched {
            key,
            version: seen.version(),
            write: Some(Write::Remove),
        };
        let commit = Commit {
            keys: vec![touched],
            nonce: crate::nonce::fresh(),
            durability: Durability::Relaxed,
            admission: Admission::Finish,
        };
        self.commit(&commit).map(drop)
    }

    fn commit(self: &Arc<Self>, commit: &Commit<'_>) -> Result<Outcome> {
        let mut parts = Vec::with_capacity(commit.keys.len());
        let gathered = self.gather(commit, &mut parts);
        let mut calls = Vec::new();
        let outcome = gathered.and_then(|()| {
            let mut states: Vec<_> = parts.iter().map(|part| part.cell.lock()).collect();
            let mut states: Vec<&mut CellState> =
                states.iter_mut().map(|state| &mut **state).collect();
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
    fn gather<'a>(&self, commit: &'a Commit<'a>, parts: &mut Vec<Part<'a>>) -> Result<()> {
        let limit = match commit.admission {
            Admission::Claim => self.options.max_records,
            Admission::Finish => u64::MAX,
        };
        for (at, touched) in commit.keys.iter().enumerate() {
            let hash = self.hash(touched.key.as_bytes());
            let cell = self
                .index
                .find_or_make(&hash, limit)
                .ok_or_else(|| self.full())?;
            parts.push(Part {
                touched,
                at,
                hash,
                cell,
            });
        }
        parts.sort_by_key(|part| part.hash);
        match parts.windows(2).any(|pair| pair[0].hash == pair[1].hash) {
            true => Err(Error::invalid("a commit names a key twice")),
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
            self.read_in(&part.cell, state, part.hash, part.touched.key.as_bytes())?;
        }
        if let Some(written) = written_before(commit, parts, states) {
            return Ok(written);
        }
        for (part, state) in parts.iter().zip(states.iter()) {
            if state.held().content().map_or(0, Content::version) != part.touched.version {
                return Ok(Outcome::Conflict(part.at));
            }
        }
        if commit.keys.iter().all(|touched| touched.write.is_none()) {
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
        let places = self.last_places(parts, now_us);
        let mut written = Vec::with_capacity(parts.len());
        for (place, part) in parts.iter().enumerate() {
            if let Some(write) = &part.touched.write {
                let order = places.get(&place).copied();
                written.push((place, stamped(write, stamp, commit.nonce, order)));
            }
        }
        let promised = commit.durability == Durability::Sync
            || written
                .iter()
                .any(|(_, content)| content.as_ref().is_some_and(holds));
        let pos = self.queue_group(commit, parts, &written, now_us, promised)?;
        let mut contents = Vec::with_capacity(written.len());
        for (place, content) in written {
            contents.extend(content.clone());
            // All of a group show together: when its last entry is on disk.
            self.take_up(parts[place].hash, states[place], content, pos, promised);
            if let Some(line) = &mut states[place].line {
                calls.extend(line.dismiss());
            }
        }
        Ok(Outcome::Written {
            contents,
            shows_at: if promised { pos } else { 0 },
        })
    }

    /// Places behind all others for the rows that ask for one, in the order in which they were written: whoever has seen
    /// this commit gets a later one.
    fn last_places(&self, parts: &[Part<'_>], now_us: u64) -> HashMap<usize, u64> {
        let asks = |write: &Option<Write>| match write {
            Some(Write::Row(row)) if row.order >= LAST_PLACE => Some(row.order),
            _ => None,
        };
        let mut asking: Vec<(u64, usize)> = parts
            .iter()
            .enumerate()
            .filter_map(|(place, part)| Some((asks(&part.touched.write)?, place)))
            .collect();
        asking.sort_unstable();
        asking
            .into_iter()
            .map(|(_, place)| (place, self.stamps.next(now_us)))
            .collect()
    }

    fn queue_group(
        &self,
        commit: &Commit<'_>,
        parts: &[Part<'_>],
        written: &[(usize, Option<Content>)],
        now_us: u64,
        promised: bool,
    ) -> Result<u64> {
        if self.log.is_none() {
            return self.check_open().map(|()| 0);
        }
        self.durable.check()?;
        let mut draft = Vec::new();
        let mut changes = Vec::with_capacity(written.len());
        for (place, content) in written {
            let part = &parts[*place];
            let (key, cell) = (part.touched.key.as_bytes(), &part.cell);
            let from = draft.len();
            let change = self.queued(&mut draft, key, part.hash, cell, content.as_ref(), now_us)?;
            changes.push((change, from..draft.len()));
        }
        let bytes = draft.len();
        if bytes > MAX_COMMIT_BYTES {
            return Err(Error::invalid(format!(
                "a commit of {bytes} bytes is too large; at most {MAX_COMMIT_BYTES} are allowed: split it"
            )));
        }
        let changes = changes.into_iter().map(|(change, at)| (change, &draft[at]));
        self.queue.push(changes, commit.admission, promised)
    }
}

fn stamped(write: &Write, stamp: u64, nonce: u64, order: Option<u64>) -> Option<Content> {
    match write {
        Write::Record(record) => {
            let fence = if record.fence == 0 {
                stamp
            } else {
                record.fence
            };
            let record = crate::record::Record {
                version: stamp,
                nonce,
                fence,
                ..record.clone()
            };
            Some(Content::Record(Arc::new(record)))
        }
        Write::Row(row) => Some(Content::Row(Arc::new(crate::codec::Row {
            version: stamp,
            nonce,
            order: order.unwrap_or(row.order),
            ..row.clone()
        }))),
        Write::Remove => None,
    }
}

/// What a commit that is here again was answered the first time; `None` when it is new.
fn written_before(
    commit: &Commit<'_>,
    parts: &[Part<'_>],
    states: &[&mut CellState],
) -> Option<Outcome> {
    let written: Vec<_> = parts
        .iter()
        .zip(states)
        .filter(|(part, _)| part.touched.write.is_some())
        .collect();
    let contents: Vec<Content> = written
        .iter()
        .filter_map(|(_, state)| state.held().content().cloned())
        .collect();
    let removed = |(part, state): &(&Part<'_>, &&mut CellState)| {
        matches!(part.touched.write, Some(Write::Remove)) && state.held().content().is_none()
    };
    let ours = |content: &Content| content.nonce() == commit.nonce;
    let again = !contents.is_empty()
        && contents.iter().all(ours)
        && written
            .iter()
            .all(|pair| pair.1.held().content().is_some() || removed(pair));
    again.then(|| Outcome::Written {
        shows_at: written
            .iter()
            .filter(|(_, state)| state.promised)
            .map(|(_, state)| state.pos)
            .max()
            .unwrap_or(0),
        contents,
    })
}

/// Whether the content starts an attempt that nobody may run again.
fn holds(content: &Content) -> bool {
    matches!(content, Content::Record(record)
        if record.terms.in_doubt != Policy::Rerun && matches!(record.state, State::Running { .. }))
}
