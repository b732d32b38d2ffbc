//! Queues for contended keys: who lost a race waits for its turn instead of racing again.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::key::Key;

/// The queues of one process.
#[derive(Default)]
pub(crate) struct Lanes {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Default)]
struct Line {
    next_number: u64,
    /// Those who are in or wait, in the order in which they came.
    queue: VecDeque<(u64, Vec<Key>)>,
}

/// The right to try, for as long as it lives.
pub(crate) struct Lane<'a> {
    lanes: &'a Lanes,
    number: Option<u64>,
}

impl Lanes {
    /// Waits until nobody who came before wants one of these keys. Taken all at once, so that no two wait for each other.
    pub(crate) fn enter(&self, keys: &[Key]) -> Lane<'_> {
        if keys.is_empty() {
            return Lane {
                lanes: self,
                number: None,
            };
        }
        let mut line = self.line.lock();
        let number = line.next_number;
        line.next_number += 1;
        line.queue.push_back((number, keys.to_vec()));
        while line.blocks(number, keys) {
            self.moved.wait(&mut line);
        }
        Lane {
            lanes: self,
            number: Some(number),
        }
    }
}

impl Line {
    fn blocks(&self, number: u64, keys: &[Key]) -> bool {
        self.queue
            .iter()
            .take_while(|(other, _)| *other != number)
            .any(|(_, theirs)| {
                theirs
                    .iter()
                    .any(|their| keys.iter().any(|key| key.as_bytes() == their.as_bytes()))
            })
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.lanes
                .line
                .lock()
                .queue
                .retain(|(other, _)| *other != number);
            self.lanes.moved.notify_all();
        }
    }
}
