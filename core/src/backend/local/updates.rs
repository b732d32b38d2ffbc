//! One key, atomically: the decision is taken under the key's lock, queued, and installed, in this order or not at all.

use std::cell::RefCell;
use std::sync::Arc;

use super::cell::{CELL_BYTES, Cell, CellState, Held};
use super::parcels::Parcel;
use super::promises::{admission, promised, shows_state};
use super::queue::Change as Queued;
use super::{Local, Shared};
use crate::backend::{Decided, Durability, Op, Turn};
use crate::codec::{Content, KeyHash, Kind, encode_payload};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::lifecycle::{Change, Event, Moment, Verb, Wake, decide};
use crate::time::NEVER_US;

thread_local! {
    /// Where a payload is put together before it goes into the queue.
    static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A draft that has grown longer than this is not kept so long.
const MAX_DRAFT_BYTES: usize = 64 << 10;

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
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) key: &'a Key,
    pub(super) hash: KeyHash,
    pub(super) event: &'a Event,
    pub(super) durability: Durability,
    /// It is said although there is no room: who says it can wait no longer.
    pressed: bool,
}

/// Somebody who waits for room to say how an attempt has ended. If he goes away meanwhile, he has said it all the same:
/// nothing that was produced is lost for want of room.
struct Pressing<'a> {
    shared: &'a Arc<Shared>,
    asking: Asking<'a>,
}

impl<'a> Pressing<'a> {
    /// `None` for what may be left unsaid.
    fn of(shared: &'a Arc<Shared>, asking: &Asking<'a>) -> Option<Self> {
        let counts = matches!(
            asking.event.verb,
            Verb::Complete { .. }
                | Verb::Fail { .. }
                | Verb::Release { .. }
                | Verb::Doubt { .. }
                | Verb::Unlock { .. }
                | Verb::EndStep { .. }
                | Verb::Withdraw { .. }
        );
        counts.then_some(Self {
            shared,
            asking: Asking {
                pressed: true,
                ..*asking
            },
        })
    }
}

impl Drop for Pressing<'_> {
    fn drop(&mut self) {
        if !self.shared.origin.is_foreign() {
            let _ = self.shared.decide(&self.asking, &mut None);
        }
    }
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
            pressed: false,
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
                    let pressing = Pressing::of(self, &asking);
                    let room = self.queue.room(
                        admission(asking.event),
                        || self.now_us(),
                        || self.durable.check().and_then(|()| self.check_open()),
                    );
                    let room = room.await;
                    std::mem::forget(pressing);
                    room?;
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
        let record = state.held().record();
        let holder_gone = record.is_some_and(|record| self.is_orphan(record));
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
                let record = state.held().record().cloned();
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
        if self.log.is_some() && !asking.pressed && !self.queue.has_room(admission, || now_us) {
            self.durable.check()?;
            return Ok(Outcome::NeedsRoom);
        }
        self.install(asking, cell, state, content, now_us, promised)?;
        self.tell(asking.hash, state, step.wake, turn, now_us, calls, used);
        let record = state.held().record().cloned();
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
        let pos = match &self.log {
            None => {
                self.check_open()?;
                0
            }
            Some(_) => {
                self.durable.check()?;
                self.queue_one(asking, cell, content.as_ref(), now_us, promised)?
            }
        };
        self.take_up(asking.hash, state, content, pos, promised);
        Ok(())
    }

    fn queue_one(
        &self,
        asking: &Asking<'_>,
        cell: &Arc<Cell>,
        content: Option<&Content>,
        now_us: u64,
        promised: bool,
    ) -> Result<u64> {
        let queue = |draft: &mut Vec<u8>| {
            draft.clear();
            draft.shrink_to(MAX_DRAFT_BYTES);
            let (key, hash) = (asking.key.as_bytes(), asking.hash);
            let change = self.queued(draft, key, hash, cell, content, now_us)?;
            let change = std::iter::once((change, &draft[..]));
            self.queue.push(change, admission(asking.event), promised)
        };
        // A thread that ends may have let go of its draft before it lets go of a ticket.
        match DRAFT.try_with(|draft| queue(&mut draft.borrow_mut())) {
            Ok(queued) => queued,
            Err(_) => queue(&mut Vec::new()),
        }
    }

    /// The change as it goes to the log: the bytes of this moment, which are put behind what is in `draft`.
    pub(super) fn queued(
        &self,
        draft: &mut Vec<u8>,
        key: &[u8],
        hash: KeyHash,
        cell: &Arc<Cell>,
        content: Option<&Content>,
        decided_us: u64,
    ) -> Result<Queued> {
        let bytes = encode_payload(draft, key, content)?;
        if bytes > super::loc::Loc::MAX_ENTRY_BYTES / 2 {
            return Err(Error::invalid(format!(
                "a record of {bytes} bytes is too long for the store; keep results and steps smaller"
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
            payload: Parcel::of(bytes),
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
        let before = state.held().content().and_then(Content::open_since_us);
        self.watchlist.change(
            &hash,
            before,
            content.as_ref().and_then(Content::open_since_us),
        );
        let places = (
            super::ordered::place(state.held().content()),
            super::ordered::place(content.as_ref()),
        );
        self.ordered
            .change(state.key.as_bytes(), hash, places.0, places.1);
        if self.log.is_none()
            && let Some(content) = &content
        {
            self.unlogged_expiry.note(content.forgotten_at_us(), hash);
        }
        state.promised = promised || (state.promised && !self.durable.reached(state.pos));
        state.pos = pos;
        state.hold(content.map_or(Held::Absent, Held::Present));
        self.reweigh(state);
    }

    pub(super) fn reweigh(&self, state: &mut CellState) {
        let weight = CELL_BYTES
            + state.key.memory_bytes()
            + state.held().content().map_or(0, Content::weight);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        self.index
            .weigh(i64::from(weight) - i64::from(state.weight));
        state.weight = weight;
    }
}

impl Shared {
    pub(super) fn full(&self) -> Error {
        Error::unavailable(format!(
            "the store holds {} records, and max_records allows {}: sweep, shorten retain, or allow more",
            self.index.len(),
            self.options.max_records
        ))
    }

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
