//! Stamps: fence, version and clock high-water in one number that only rises, across restarts too.

use std::sync::atomic::{AtomicU64, Ordering};

/// The last stamp given.
pub(super) struct Stamps(AtomicU64);

impl Stamps {
    pub(super) fn above(floor: u64) -> Self {
        Self(AtomicU64::new(floor))
    }

    /// `max(last + 1, now)`.
    pub(super) fn next(&self, now_us: u64) -> u64 {
        let next = |last: u64| last.saturating_add(1).max(now_us);
        let last = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        last.map_or(now_us, next)
    }

    pub(super) fn last(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
