//! How long things took, counted in fixed classes that double, so that recording is one addition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Classes: up to 1 us, 2 us, 4 us, ... about 67 s, and all above.
pub const CLASSES: usize = 28;

/// Counts of durations by class.
#[derive(Debug)]
pub(crate) struct Recorder {
    classes: [AtomicU64; CLASSES],
    total_us: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            classes: [const { AtomicU64::new(0) }; CLASSES],
            total_us: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    pub(crate) fn record(&self, took: Duration) {
        let us = u64::try_from(took.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let class = (u64::BITS - us.saturating_sub(1).leading_zeros()) as usize;
        self.classes[class.min(CLASSES - 1)].fetch_add(1, Ordering::Relaxed);
        self.total_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Histogram {
        let counts = std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed));
        Histogram {
            counts,
            total_us: self.total_us.load(Ordering::Relaxed),
        }
    }
}

/// Durations of a kind: how many fell into each class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: [u64; CLASSES],
    total_us: u64,
}

impl Histogram {
    /// Pairs of an upper bound in microseconds and how many durations were within it but over the bound before; the last
    /// class has no bound.
    pub fn classes(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .map(|(class, count)| ((class + 1 < CLASSES).then(|| 1 << class), *count))
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum, in microseconds.
    pub fn total_us(&self) -> u64 {
        self.total_us
    }

    /// The upper bound, in microseconds, of the class in which the quantile `q` (0 to 1) falls; `None` when nothing was
    /// recorded.
    pub fn quantile_us(&self, q: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(class, n)| {
            seen += n;
            (seen >= rank && count > 0).then(|| 1 << class)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_class_that_bounds_it() {
        let recorder = Recorder::default();
        for us in [0, 1, 2, 3, 4, 5, 1_000_000_000] {
            recorder.record(Duration::from_micros(us));
        }
        let filled: Vec<_> = recorder
            .snapshot()
            .classes()
            .filter(|(_, n)| *n > 0)
            .collect();
        assert_eq!(
            filled,
            [
                (Some(1), 2),
                (Some(2), 1),
                (Some(4), 2),
                (Some(8), 1),
                (None, 1)
            ]
        );
        assert_eq!(recorder.snapshot().quantile_us(0.5), Some(4));
        assert_eq!(Histogram::default().quantile_us(0.5), None);
    }
}
