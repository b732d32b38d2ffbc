//! Waiting for a key to change, without a lost wake-up: the line is joined under the same lock that changes are made under.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::cell::{Cell, CellState, Held};
use super::line::{Told, Waiter};
use super::{Local, Shared};
use crate::backend::{Op, Turn};
use crate::codec::KeyHash;
use crate::error::Result;
use crate::key::Key;
use crate::record::{Policy, State};
use crate::timer::Appointment;

/// What those who wait for a key can expect.
enum Prospect {
    /// Nothing before this time.
    NotBefore(u64),
    /// The first in line may try.
    Open,
    /// There is an answer for everybody.
    Answered,
}

impl Local {
    pub(super) fn changed_op<'a>(
        &'a self,
        key: &'a Key,
        seen: u64,
        until_us: u64,
    ) -> Op<'a, Result<Turn>> {
        if let Err(error) = self.origin.check().and_then(|()| self.shared.check_open()) {
            return Op::ready(Err(error));
        }
        match self.shared.join_line(key, seen, until_us) {
            Err(error) => Op::ready(Err(error)),
            Ok(None) => Op::ready(Ok(Turn::none())),
            Ok(Some(waiting)) => Op::later(async move { Ok(waiting.await) }),
        }
    }
}

impl Shared {
    /// Joins the line of a key, unless there is something to look at already.
    fn join_line(self: &Arc<Self>, key: &Key, seen: u64, until_us: u64) -> Result<Option<Waiting>> {
        let hash = self.hash(key.as_bytes());
        let Some(cell) = self.index.find(&hash) else {
            return Ok(None);
        };
        let mut state = cell.lock();
        self.read_in(&cell, &mut state, hash, key.as_bytes())?;
        let now_us = self.now_us();
        let version = state
            .held()
            .content()
            .map_or(0, crate::codec::Content::version);
        let free = state.line.as_ref().is_none_or(|line| line.is_idle(now_us));
        if version != seen
            || now_us >= until_us
            || (free && !matches!(self.prospect(&state, now_us), Prospect::NotBefore(_)))
        {
            drop(state);
            // Whoever let go of the key could not let go of its cell while this call had it.
            self.tidy(hash, cell);
            return Ok(None);
        }
        let waiter = Waiter::new(self.next_waiter.fetch_add(1, Ordering::Relaxed));
        state.line.get_or_insert_default().join(Arc::clone(&waiter));
        self.look_after(hash, &mut state, now_us);
        let alarm = Alarm(Arc::clone(&waiter));
        let timeout = self.timers.at(until_us, move || drop(alarm));
        drop(state);
        Ok(Some(Waiting {
            shared: Arc::clone(self),
            hash,
            cell: Some(cell),
            waiter,
            timeout,
            over: false,
        }))
    }

    fn prospect(&self, state: &CellState, now_us: u64) -> Prospect {
        let Some(record) = state.held().record() else {
            return Prospect::Open;
        };
        if record.forgotten(now_us) {
            return Prospect::Open;
        }
        let gone = self.is_orphan(record);
        let reruns = record.terms.in_doubt == Policy::Rerun && !record.exhausted();
        match &record.state {
            _ if record.doubt(now_us, gone).is_some() => {
                if reruns {
                    Prospect::Open
                } else {
                    Prospect::Answered
                }
            }
            State::Running { lease_until_us } => Prospect::NotBefore(*lease_until_us),
            State::Confirming { until_us, .. } => Prospect::NotBefore(*until_us),
            State::Released { .. } if !record.exhausted() => Prospect::Open,
            _ => Prospect::Answered,
        }
    }

    /// Sees to it that somebody looks when the line can move next: at the lease's end, or when a turn was not used.
    pub(super) fn look_after(self: &Arc<Self>, hash: KeyHash, state: &mut CellState, now_us: u64) {
        let prospect = self.prospect(state, now_us);
        let Some(line) = &mut state.line else { return };
        if !line.has_waiters() {
            return;
        }
        let turn_until_us = line.turn_until_us(0, None);
        let next_us = match prospect {
            Prospect::NotBefore(us) => us,
            _ => turn_until_us.max(now_us),
        };
        let watched = line.watched_at_us != 0 && line.watched_at_us <= next_us;
        if watched || next_us == crate::time::NEVER_US {
            return;
        }
        line.watched_at_us = next_us;
        let weak = Arc::downgrade(self);
        self.timers.at(next_us, move || {
            if let Some(shared) = Weak::upgrade(&weak) {
                shared.move_line(hash);
            }
        });
    }

    /// The time has come at which the line may move.
    fn move_line(self: &Arc<Self>, hash: KeyHash) {
        let Some(cell) = self.index.find_hot(&hash) else {
            return;
        };
        let mut calls = Vec::new();
        {
            let mut state = cell.lock();
            let now_us = self.now_us();
            if matches!(state.held(), Held::Unread) {
                return; // a line is only ever joined to a value that was read
            }
            let prospect = self.prospect(&state, now_us);
            let Some(line) = &mut state.line else {
                drop(state);
                self.tidy(hash, cell);
                return;
            };
            line.watched_at_us = 0;
            let turn_is_out = now_us < line.turn_until_us(0, None);
            match prospect {
                Prospect::Open if !turn_is_out => {
                    if let Some((waker, ..)) = line.promote(now_us) {
                        calls.extend(waker);
                    }
                }
                Prospect::Answered => calls.extend(line.dismiss()),
                _ => {}
            }
            self.look_after(hash, &mut state, now_us);
        }
        calls.into_iter().for_each(std::task::Waker::wake);
        self.tidy(hash, cell);
    }

    /// A turn that was not used passes on.
    fn pass_turn(self: &Arc<Self>, hash: KeyHash, id: u64) {
        if self.origin.is_foreign() {
            return;
        }
        let Some(cell) = self.index.find_hot(&hash) else {
            return;
        };
        let mut call = None;
        {
            let mut state = cell.lock();
            let now_us = self.now_us();
            let open = matches!(self.prospect(&state, now_us), Prospect::Open);
            if let Some(line) = &mut state.line
                && line.holds_turn(id)
            {
                line.end_turn();
                if open && let Some((waker, ..)) = line.promote(now_us) {
                    call = waker;
                }
                self.look_after(hash, &mut state, now_us);
            }
        }
        if let Some(waker) = call {
            waker.wake();
        }
        self.tidy(hash, cell);
    }

    /// Takes a line away in which nobody stands, and a cell of an absent key that only the line kept.
    fn tidy(&self, hash: KeyHash, cell: Arc<Cell>) {
        let vacant = {
            let mut state = cell.lock();
            let now_us = self.now_us();
            if state.line.as_ref().is_some_and(|line| line.is_idle(now_us)) {
                state.line = None;
            }
            state.line.is_none() && matches!(state.held(), Held::Absent)
        };
        drop(cell);
        if vacant {
            self.index.discard_if_vacant(&hash);
        }
    }
}

/// Ends a wait: when its time is over, and when there will be no more time, since the store was closed.
struct Alarm(Arc<Waiter>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.0.told() == Told::Nothing
            && let Some(waker) = self.0.tell(Told::Look)
        {
            waker.wake();
        }
    }
}

/// Somebody in the line of a key.
struct Waiting {
    shared: Arc<Shared>,
    hash: KeyHash,
    cell: Option<Arc<Cell>>,
    waiter: Arc<Waiter>,
    timeout: Appointment,
    over: bool,
}

impl Future for Waiting {
    type Output = Turn;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Turn> {
        self.waiter.call_with(context.waker());
        match self.waiter.told() {
            Told::Nothing => Poll::Pending,
            Told::Look => {
                self.over = true;
                self.leave();
                // Its turn may have come just after its time was over.
                self.shared.pass_turn(self.hash, self.waiter.id);
                Poll::Ready(Turn::none())
            }
            Told::YourTurn => {
                self.over = true;
                let (shared, hash, id) = (Arc::clone(&self.shared), self.hash, self.waiter.id);
                self.shared.timers.call_off(self.timeout);
                Poll::Ready(Turn::of(id, move || shared.pass_turn(hash, id)))
            }
        }
    }
}

impl Waiting {
    fn leave(&mut self) {
        self.shared.timers.call_off(self.timeout);
        let Some(cell) = self.cell.take() else { return };
        if let Some(line) = &mut cell.lock().line {
            line.leave(self.waiter.id);
        }
        self.shared.tidy(self.hash, cell);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.over && !self.shared.origin.is_foreign() {
            // Told in between or not: who goes takes nothing along.
            self.leave();
            self.shared.pass_turn(self.hash, self.waiter.id);
        }
    }
}
