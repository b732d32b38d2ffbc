//! Events that nobody waits for, such as the end of a ticket that was dropped: what is asked after them comes after them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::helpers::Helpers;
use crate::time::Stopwatch;

/// How many threads send them.
const MAX_HELPERS: usize = 4;

/// Events on their way that nobody waits for.
pub(super) struct Late {
    helpers: Helpers,
    list: Mutex<List>,
    ended: Condvar,
    /// How many there are, read without the lock.
    count: AtomicUsize,
}

#[derive(Default)]
struct List {
    next: u64,
    open: BTreeSet<u64>,
}

impl Late {
    pub(super) fn new() -> Self {
        Self {
            helpers: Helpers::new(MAX_HELPERS),
            list: Mutex::default(),
            ended: Condvar::new(),
            count: AtomicUsize::new(0),
        }
    }

    pub(super) fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// An event sets out; its number.
    pub(super) fn begin(&self) -> u64 {
        let mut list = self.list();
        let number = list.next;
        list.next += 1;
        list.open.insert(number);
        self.count.fetch_add(1, Ordering::SeqCst);
        number
    }

    /// It has arrived, or never will.
    pub(super) fn end(&self, number: u64) {
        self.list().open.remove(&number);
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify_all();
    }

    /// Waits for all that have set out so far, no longer than `patience`.
    pub(super) fn wait(&self, patience: Duration) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let waiting = Stopwatch::start();
        let mut list = self.list();
        let until = list.next;
        while list.open.first().is_some_and(|first| *first < until) {
            let Some(left) = patience.checked_sub(waiting.elapsed()) else {
                return;
            };
            list = match self.ended.wait_timeout(list, left) {
                Ok((list, _)) => list,
                Err(e) => e.into_inner().0,
            };
        }
    }
}
