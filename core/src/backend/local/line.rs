//! Those who wait for a key to change: first come, first served, and nobody who left holds up the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::lifecycle::TURN_US;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, Ordering};

/// Somebody who waits.
pub(super) struct Waiter {
    pub(super) id: u64,
    told: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

/// What a waiter has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Told {
    /// Nothing yet.
    Nothing = 0,
    /// It is your turn.
    YourTurn = 1,
    /// There is an answer: look again.
    Look = 2,
}

impl Waiter {
    pub(super) fn new(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            told: AtomicU8::new(0),
            waker: Mutex::new(None),
        })
    }

    pub(super) fn told(&self) -> Told {
        match self.told.load(Ordering::Acquire) {
            1 => Told::YourTurn,
            2 => Told::Look,
            _ => Told::Nothing,
        }
    }

    /// Leaves word; what it was told first stands. The waker is to be called with no lock held.
    pub(super) fn tell(&self, told: Told) -> Option<Waker> {
        let _ = self
            .told
            .compare_exchange(0, told as u8, Ordering::AcqRel, Ordering::Acquire);
        self.waker.lock().take()
    }

    pub(super) fn call_with(&self, waker: &Waker) {
        let mut slot = self.waker.lock();
        match &*slot {
            Some(known) if known.will_wake(waker) => {}
            _ => *slot = Some(waker.clone()),
        }
    }
}

/// The waiters of one key.
#[derive(Default)]
pub(super) struct Line {
    waiting: VecDeque<Arc<Waiter>>,
    /// Whose turn it is, and until when.
    turn: Option<(u64, u64)>,
    /// When the timer looks after the line; 0 when it is not set.
    pub(super) watched_at_us: u64,
}

impl Line {
    pub(super) fn join(&mut self, waiter: Arc<Waiter>) {
        self.waiting.push_back(waiter);
    }

    /// A waiter goes, for whatever reason.
    pub(super) fn leave(&mut self, id: u64) {
        self.waiting.retain(|waiter| waiter.id != id);
    }

    pub(super) fn is_idle(&self, now_us: u64) -> bool {
        self.waiting.is_empty() && self.turn.is_none_or(|(_, until_us)| now_us >= until_us)
    }

    #[cfg(all(test, feature = "sled"))]
    pub(super) fn waiters(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Until when the turn is somebody else's than `id`'s; 0 when it is not. Who comes anew does not overtake those who
    /// wait: from `open_since_us` on they have as long as a turn lasts to take it.
    pub(super) fn turn_until_us(&self, id: u64, open_since_us: Option<u64>) -> u64 {
        match self.turn {
            Some((owner, until_us)) => {
                if owner == id {
                    0
                } else {
                    until_us
                }
            }
            None if self.waiting.is_empty() => 0,
            None => open_since_us.map_or(0, |since_us| since_us.saturating_add(TURN_US)),
        }
    }

    /// Gives the turn to the first who waits; whom to call, and whose turn it is until when.
    pub(super) fn promote(&mut self, now_us: u64) -> Option<(Option<Waker>, u64, u64)> {
        let waiter = self.waiting.pop_front()?;
        let until_us = now_us.saturating_add(TURN_US);
        self.turn = Some((waiter.id, until_us));
        Some((waiter.tell(Told::YourTurn), waiter.id, until_us))
    }

    /// Whether the turn is still this waiter's.
    pub(super) fn holds_turn(&self, id: u64) -> bool {
        self.turn.is_some_and(|(owner, _)| owner == id)
    }

    /// Ends the turn: it was used, or is to pass on.
    pub(super) fn end_turn(&mut self) {
        self.turn = None;
    }

    /// Tells everybody to look again; whom to call.
    pub(super) fn dismiss(&mut self) -> Vec<Waker> {
        self.turn = None;
        self.waiting
            .drain(..)
            .filter_map(|waiter| waiter.tell(Told::Look))
            .collect()
    }
}
