//! One key, atomically: the decision is taken under the key's lock, queued, and installed, in this order or not at all.

use std::sync::Arc;

use super::cell::{CELL_BYTES, Cell, CellState, Held};
use super::promises::{admission, promised, shows_state};
use super::queue::Change as Queued;
use super::{Local, Shared};
use crate::backend::{Decided, Durability, Op, Seen, Turn};
use crate::codec::{Content, KeyHash, Kind, decode_body, encode_payload, split_payload};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::lifecycle::{Change, Event, Moment, Verb, Wake, decide};
use crate::time::NEVER_US;

/// What a decision came to, and what has to be on disk before it shows.
pub(super) enum Outcome {
    Decided {
        decided: Decided,
        shows_at: u64,
    },
    /// The queue is full: wait for room with no lock held, then decide again.
    NeedsRoom,
}

/// One event, and who sends it.
pub(super) struct Asking<'a> {
    pub(super) key: &'a Key,
    pub(super) hash: KeyHash,
    pub(super) event: &'a Event,
    pub(super) durability: Durability,
}

impl Local {
    pub(super) fn update_op<'a>(
        &'a self,
        key: &'a Key,
        event: &'a Event,
        turn: Option<Turn>,
        durability: Durability,
    ) -> Op<'a, Result<Decided>> {
        if let Err(error) = self.origin.check().and_then(|()| self.shared.check_open()) {
            return Op::ready(Err(error));
        }
        let asking = Asking {
            key,
            hash: self.shared.hash(key.as_bytes()),
            event,
            durability,
        };
        let mut turn = turn;
        match self.shared.decide(&asking, &mut turn) {
            Err(error) => Op::ready(Err(error)),
            Ok(Outcome::Decided { decided, shows_at }) if self.shared.durable.reached(shows_at) => {
                Op::ready(Ok(decided))
            }
            Ok(outcome) => Op::later(self.shared.settle(asking, outcome, turn)),
        }
    }
}

impl Shared {
    /// Sees an outcome through: waits for room, for the disk, or both.
    async fn settle<'a>(
        self: &'a Arc<Self>,
        asking: Asking<'a>,
        outcome: Outcome,
        mut turn: Option<Turn>,
    ) -> Result<Decided> {
        let mut outcome = outcome;
        let (decided, shows_at) = loop {
            match outcome {
                Outcome::Decided { decided, shows_at } => break (decided, shows_at),
                Outcome::NeedsRoom => {
                    self.queue
                        .room(
                            admission(asking.event),
                            || self.now_us(),
                            || self.durable.check().and_then(|()| self.check_open()),
                        )
                        .await?;
                    outcome = self.decide(&asking, &mut turn)?;
                }
            }
        };
        self.durable.wait(shows_at).await.map(|()| decided)
    }

    /// Takes the decision, if there is room for what it changes.
    pub(super) fn decide(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        turn: &mut Option<Turn>,
    ) -> Result<Outcome> {
        let claims = matches!(asking.event.verb, Verb::Claim(_));
        let cell = match claims {
            true => self
                .index
                .find_or_make(&asking.hash, self.options.max_records),
            false => self.index.find(&asking.hash),
        };
        let Some(cell) = cell else {
            return match claims {
                true => Err(self.full()),
                false => {
                    let moment = Moment {
                        now_us: self.now_us(),
                        holder_gone: false,
                        turn_until_us: 0,
                    };
                    let answer = decide(None, asking.event, moment).answer;
                    Ok(Outcome::Decided {
                        decided: Decided {
                            answer,
                            record: None,
                        },
                        shows_at: 0,
                    })
                }
            };
        };
        let mut calls = Vec::new();
        let mut used = false;
        let outcome = {
            let mut state = cell.lock();
            self.decide_locked(
                asking,
                &cell,
                &mut state,
                turn.as_ref().map_or(0, Turn::id),
                &mut calls,
                &mut used,
            )
        };
        calls.into_iter().for_each(std::task::Waker::wake);
        if used && let Some(turn) = turn.take() {
            turn.used();
        }
        if !matches!(outcome, Ok(Outcome::NeedsRoom)) {
            // An unused turn passes on, now that no lock is held.
            drop(turn.take());
        }
        let vacant = match &outcome {
            Ok(Outcome::Decided { decided, .. }) => decided.record.is_none(),
            _ => claims,
        };
        drop(cell);
        if vacant {
            self.index.discard_if_vacant(&asking.hash);
        }
        self.make_room();
        outcome
    }

    /// Puts a few values out of memory when there are too many. Every call that may bring one in ends with this.
    pub(super) fn make_room(&self) {
        if self.log.is_some() {
            self.index.evict(self.durable.pos());
        }
    }

    fn decide_locked(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        cell: &Arc<Cell>,
        state: &mut CellState,
        turn: u64,
        calls: &mut Vec<std::task::Waker>,
        used: &mut bool,
    ) -> Result<Outcome> {
        self.read_in(cell, state, asking.hash, asking.key.as_bytes())?;
        let now_us = self.now_us();
        let record = state.held.record();
        let holder_gone = record.is_some_and(|record| self.is_gone(record.holder.session));
        let turn_until_us = state.line.as_ref().map_or(0, |line| {
            line.turn_until_us(turn, record.and_then(|record| record.open_since_us()))
        });
        let step = decide(
            record.map(|record| &**record),
            asking.event,
            Moment {
                now_us,
                holder_gone,
                turn_until_us,
            },
        );
        let admission = admission(asking.event);
        let content = match step.change {
            Change::Keep => {
                let shows_at = if state.promised && shows_state(&step.answer) {
                    state.pos
                } else {
                    0
                };
                if !self.durable.reached(state.pos) && self.log.is_some() {
                    self.durable.check()?;
                }
                let record = state.held.record().cloned();
                return Ok(Outcome::Decided {
                    decided: Decided {
                        answer: step.answer,
                        record,
                    },
                    shows_at,
                });
            }
            Change::Put(mut record) => {
                let stamp = self.stamps.next(now_us);
                record.version = stamp;
                if record.fence == 0 {
                    record.fence = stamp;
                }
                Some(Content::Record(Arc::new(record)))
            }
            Change::Remove => None,
        };
        let promised = promised(&asking.event.verb, content.as_ref(), asking.durability);
        if self.log.is_some() && !self.queue.has_room(admission, || now_us) {
            self.durable.check()?;
            return Ok(Outcome::NeedsRoom);
        }
        self.install(asking, cell, state, content, now_us, promised)?;
        self.tell(asking.hash, state, step.wake, turn, now_us, calls, used);
        let record = state.held.record().cloned();
        let shows_at = if promised { state.pos } else { 0 };
        Ok(Outcome::Decided {
            decided: Decided {
                answer: step.answer,
                record,
            },
            shows_at,
        })
    }

    /// Queues a change and makes it the cell's value; if it cannot be queued, nothing is changed.
    fn install(
        &self,
        asking: &Asking<'_>,
        cell: &Arc<Cell>,
        state: &mut CellState,
        content: Option<Content>,
        now_us: u64,
        promised: bool,
    ) -> Result<()> {
        let admission = admission(asking.event);
        let pos = match &self.log {
            None => {
                self.check_open()?;
                0
            }
            Some(_) => {
                self.durable.check()?;
                let change = self.queued(
                    asking.key.as_bytes(),
                    asking.hash,
                    cell,
                    content.as_ref(),
                    now_us,
                )?;
                self.queue
                    .push(std::iter::once(change), admission, promised)?
            }
        };
        self.take_up(asking.hash, state, content, pos, promised);
        Ok(())
    }

    /// The change as it goes to the log: the bytes of this moment.
    pub(super) fn queued(
        &self,
        key: &[u8],
        hash: KeyHash,
        cell: &Arc<Cell>,
        content: Option<&Content>,
        decided_us: u64,
    ) -> Result<Queued> {
        let payload = encode_payload(key, content)?;
        if payload.len() > super::index::Loc::MAX_ENTRY_BYTES / 2 {
            return Err(Error::invalid(format!(
                "a record of {} bytes is too long for the store; keep results and steps smaller",
                payload.len()
            )));
        }
        Ok(Queued {
            hash,
            pos: 0,
            stamp: content.map_or_else(|| self.stamps.last(), Content::version),
            decided_us,
            due_us: content.map_or(NEVER_US, Content::due_us),
            forgotten_at_us: content.map_or(NEVER_US, Content::forgotten_at_us),
            kind: content.map_or(Kind::Marker, Content::kind),
            group: None,
            payload,
            cell: Arc::clone(cell),
        })
    }

    /// Makes a queued change the cell's value.
    pub(super) fn take_up(
        &self,
        hash: KeyHash,
        state: &mut CellState,
        content: Option<Content>,
        pos: u64,
        promised: bool,
    ) {
        let before = state.held.content().and_then(Content::open_since_us);
        self.watchlist.change(
            &hash,
            before,
            content.as_ref().and_then(Content::open_since_us),
        );
        let places = (
            super::ordered::place(state.held.content()),
            super::ordered::place(content.as_ref()),
        );
        self.ordered.change(&state.key, hash, places.0, places.1);
        if self.log.is_none()
            && let Some(content) = &content
        {
            self.unlogged_expiry.note(content.forgotten_at_us(), hash);
        }
        state.promised = promised || (state.promised && !self.durable.reached(state.pos));
        state.pos = pos;
        state.held = content.map_or(Held::Absent, Held::Present);
        self.reweigh(state);
    }

    fn reweigh(&self, state: &mut CellState) {
        let weight = CELL_BYTES + state.key.len() + state.held.content().map_or(0, Content::weight);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        self.index
            .weigh(i64::from(weight) - i64::from(state.weight));
        state.weight = weight;
    }

    /// Reads the value of a cold cell. A block that is missing has been cleaned away, if the index points elsewhere by
    /// now; if not, it is lost, which is an error and never an absence.
    pub(super) fn read_in(
        &self,
        cell: &Cell,
        state: &mut CellState,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<()> {
        if matches!(state.held, Held::Unread) {
            let (found, content) = self.read_at_home(&hash, || cell.home())?;
            state.key = found;
            state.held = content.map_or(Held::Absent, Held::Present);
            self.reweigh(state);
        }
        if state.key.is_empty() {
            state.key = key.into();
            self.reweigh(state);
        }
        match *state.key == *key {
            true => Ok(()),
            false => Err(Error::corrupt(
                "two different keys of the store have one hash; report this, with the store if you can",
            )),
        }
    }

    /// Reads what the log has at a key's place: its key and content.
    pub(super) fn read_at_home(
        &self,
        hash: &KeyHash,
        home: impl Fn() -> super::index::Loc,
    ) -> Result<(Box<[u8]>, Option<Content>)> {
        let lost = || {
            Error::corrupt(
                "the log lacks a block that the index points to; restore a backup with `semel restore`",
            )
        };
        let log = self.log.as_ref().ok_or_else(lost)?;
        loop {
            let loc = home();
            if let Some((kind, payload)) = log.payload(hash, loc)? {
                let (key, body) = split_payload(&payload).ok_or_else(lost)?;
                return Ok((key.into(), decode_body(kind, body)?));
            }
            if home() == loc {
                return Err(lost());
            }
        }
    }

    /// Whether the process of a session is known to be dead: an embedded store that this process holds has no other.
    pub(super) fn is_gone(&self, session: u64) -> bool {
        session != self.session
    }

    pub(super) fn full(&self) -> Error {
        Error::unavailable(format!(
            "the store holds {} records, and max_records allows {}: sweep, shorten retain, or allow more",
            self.index.len(),
            self.options.max_records
        ))
    }

    /// The record of a key, if it is in memory and shows, and nobody is at it.
    pub(super) fn glance(&self, key: &Key) -> Option<Arc<crate::record::Record>> {
        self.index.glance(&self.hash(key.as_bytes()), |cell| {
            let state = cell.try_lock()?;
            let record = state.held.record()?;
            // Where a fault has ended the writing, what is not on disk shows no more.
            let shows = self.log.is_none() || self.durable.reached(state.pos);
            (shows && *state.key == *key.as_bytes()).then(|| Arc::clone(record))
        })
    }

    /// What a key holds, and what has to be on disk before it shows.
    pub(super) fn look(&self, key: &Key) -> Result<(Seen, u64)> {
        let looked = self.look_at(key);
        self.make_room();
        looked
    }

    fn look_at(&self, key: &Key) -> Result<(Seen, u64)> {
        let now_us = self.now_us();
        let hash = self.hash(key.as_bytes());
        let absent = Seen {
            content: None,
            now_us,
            holder_gone: false,
        };
        let Some(cell) = self.index.find(&hash) else {
            return Ok((absent, 0));
        };
        let mut state = cell.lock();
        self.read_in(&cell, &mut state, hash, key.as_bytes())?;
        if self.log.is_some() && !self.durable.reached(state.pos) {
            self.durable.check()?;
        }
        let content = state.held.content().cloned();
        let holder_gone = state
            .held
            .record()
            .is_some_and(|record| self.is_gone(record.holder.session));
        let shows_at = if state.promised { state.pos } else { 0 };
        Ok((
            Seen {
                content,
                now_us,
                holder_gone,
            },
            shows_at,
        ))
    }
}

impl Shared {
    /// Wakes those who wait, as the decision says, and keeps the line in order.
    #[allow(clippy::too_many_arguments)]
    fn tell(
        self: &Arc<Self>,
        hash: KeyHash,
        state: &mut CellState,
        wake: Wake,
        turn: u64,
        now_us: u64,
        calls: &mut Vec<std::task::Waker>,
        used: &mut bool,
    ) {
        let Some(line) = &mut state.line else {
            *used = turn != 0;
            return;
        };
        if turn != 0 && line.holds_turn(turn) {
            line.end_turn();
            *used = true;
        }
        match wake {
            Wake::Nobody => {}
            Wake::First => {
                if let Some((waker, ..)) = line.promote(now_us) {
                    calls.extend(waker);
                }
            }
            Wake::Everybody => calls.extend(line.dismiss()),
        }
        match line.is_idle(now_us) {
            true => state.line = None,
            false => self.look_after(hash, state, now_us),
        }
    }
}
