//! Queues for contended keys: who lost a race waits for its turn instead of racing again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::key::Key;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::plain::{Condvar, Mutex};
use crate::time::Stopwatch;

/// The queues of one process.
#[derive(Default)]
pub(crate) struct Lanes {
    line: Mutex<Line>,
    moved: Condvar,
    /// How many stand in the line, read without its lock.
    standing: AtomicUsize,
}

#[derive(Default)]
struct Line {
    next_number: u64,
    /// Those whose turn it is or who wait, in the order in which they came.
    queue: VecDeque<(u64, Vec<Key>)>,
}

/// A place in the line, for as long as it lives.
pub(crate) struct Lane<'a> {
    lanes: &'a Lanes,
    number: u64,
    /// Whether those before have taken longer than their time.
    overdue: bool,
}

impl Lanes {
    /// Waits until nobody who came before wants one of these keys. All keys are taken at once, so that no two wait for each
    /// other; and no longer than `patience`, since what those before do is not known.
    pub(crate) fn enter(&self, keys: &[Key], patience: Duration) -> Lane<'_> {
        let mut line = self.line.lock();
        let number = line.next_number;
        line.next_number += 1;
        line.queue.push_back((number, keys.to_vec()));
        self.standing.fetch_add(1, Ordering::Relaxed);
        let waiting = Stopwatch::start();
        let mut overdue = false;
        while line.queued_before(Some(number), keys.iter()).is_some() {
            let Some(left) = patience.checked_sub(waiting.elapsed()) else {
                overdue = true;
                break;
            };
            self.moved.wait_for(&mut line, left);
        }
        Lane {
            lanes: self,
            number,
            overdue,
        }
    }

    /// The first of these keys that somebody wants who came before the holder of this place, and has time left; before
    /// anybody who has none.
    pub(crate) fn wanted<'k>(
        &self,
        place: Option<&Lane<'_>>,
        keys: impl Iterator<Item = &'k Key>,
    ) -> Option<Key> {
        if self.standing.load(Ordering::Relaxed) == 0 || place.is_some_and(|lane| lane.overdue) {
            return None;
        }
        self.line
            .lock()
            .queued_before(place.map(|lane| lane.number), keys)
            .cloned()
    }
}

impl Line {
    fn queued_before<'k>(
        &self,
        number: Option<u64>,
        mut keys: impl Iterator<Item = &'k Key>,
    ) -> Option<&'k Key> {
        keys.find(|key| {
            self.queue
                .iter()
                .take_while(|(other, _)| Some(*other) != number)
                .any(|(_, theirs)| {
                    theirs
                        .iter()
                        .any(|their| their.as_bytes() == key.as_bytes())
                })
        })
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.lanes
            .line
            .lock()
            .queue
            .retain(|(other, _)| *other != self.number);
        self.lanes.standing.fetch_sub(1, Ordering::Relaxed);
        self.lanes.moved.notify_all();
    }
}
