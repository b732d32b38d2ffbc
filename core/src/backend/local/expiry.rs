//! What is forgotten when, by the second: the cost of sweeping follows what expired, not what is stored.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::time::NEVER_US;

const SECOND_US: u64 = 1_000_000;

/// Hints of where to look for what is forgotten in a second. A hint may be stale; the entry itself is asked.
pub(super) struct ExpiryIndex<H> {
    seconds: Mutex<BTreeMap<u64, Vec<H>>>,
}

impl<H: Ord> ExpiryIndex<H> {
    pub(super) fn new() -> Self {
        Self {
            seconds: Mutex::default(),
        }
    }

    /// Something there is forgotten at this time.
    pub(super) fn note(&self, forgotten_at_us: u64, hint: H) {
        if forgotten_at_us == NEVER_US {
            return;
        }
        let mut seconds = self.seconds.lock();
        let hints = seconds.entry(forgotten_at_us / SECOND_US).or_default();
        if hints.last() != Some(&hint) {
            hints.push(hint);
        }
    }

    /// Whether a second has begun in which something is forgotten.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        let seconds = self.seconds.lock();
        let first = seconds.first_key_value();
        first.is_some_and(|(second, _)| second * SECOND_US <= now_us)
    }

    /// Takes the hints of the earliest second that has begun by `now_us`, each once, with that second.
    pub(super) fn take_due(&self, now_us: u64) -> Option<(u64, Vec<H>)> {
        let mut seconds = self.seconds.lock();
        let first = seconds.first_entry()?;
        let (second, mut hints) =
            (*first.key() * SECOND_US <= now_us).then(|| first.remove_entry())?;
        drop(seconds);
        hints.sort_unstable();
        hints.dedup();
        Some((second, hints))
    }

    /// Puts hints back that are to be looked at again.
    pub(super) fn put_back(&self, second: u64, hints: Vec<H>) {
        if !hints.is_empty() {
            self.seconds.lock().entry(second).or_default().extend(hints);
        }
    }
}
