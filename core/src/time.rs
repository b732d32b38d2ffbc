//! The one place that reads a clock: store time runs with boot time from an anchor, so wall-clock steps move nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::plain::Mutex;

/// A deadline that never comes, in microseconds since the Unix epoch.
pub(crate) const NEVER_US: u64 = u64::MAX;

/// Microseconds of a duration, rounded up, so that a positive duration never becomes zero.
pub(crate) fn micros(duration: Duration) -> u64 {
    // Not by way of nanoseconds: dividing 128 bits is slow, and this is asked several times a claim.
    duration
        .as_secs()
        .saturating_mul(1_000_000)
        .saturating_add(u64::from(duration.subsec_nanos().div_ceil(1000)))
}

/// The moment `span_us` after `from_us`; the end of time when it is beyond.
pub(crate) const fn after(from_us: u64, span_us: u64) -> u64 {
    from_us.saturating_add(span_us)
}

/// Where a store reads time. [`Clock::system`] outside of tests.
///
/// Cloning gives the same clock.
#[derive(Clone)]
pub struct Clock(Arc<Source>);

enum Source {
    System,
    Manual(Manual),
}

struct Manual {
    wall_us: AtomicU64,
    boot_us: AtomicU64,
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

/// What a [`Clock`] shows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Microseconds since the Unix epoch; may step in both directions.
    pub(crate) wall_us: u64,
    /// Microseconds since the machine started, sleep included; never steps.
    pub(crate) boot_us: u64,
}

impl Clock {
    /// The machine's wall clock and boot time.
    pub fn system() -> Self {
        Self(Arc::new(Source::System))
    }

    /// A clock that stands still until it is told to move; for tests.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let clock = semel::Clock::manual(Duration::from_secs(1_800_000_000));
    /// let store = semel::Store::builder("memory:").clock(clock.clone()).open()?;
    /// clock.advance(Duration::from_secs(30)); // a lease of 30 s is over now
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn manual(since_unix_epoch: Duration) -> Self {
        Self(Arc::new(Source::Manual(Manual {
            wall_us: AtomicU64::new(micros(since_unix_epoch)),
            boot_us: AtomicU64::new(0),
            listeners: Mutex::new(Vec::new()),
        })))
    }

    /// Lets time pass on a manual clock. A system clock does not listen.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(manual) = &*self.0 {
            manual.wall_us.fetch_add(micros(by), Ordering::SeqCst);
            manual.boot_us.fetch_add(micros(by), Ordering::SeqCst);
            manual.tell();
        }
    }

    /// Steps the wall of a manual clock, as an operator or a time daemon would; no time passes by it.
    pub fn step_wall(&self, to_since_unix_epoch: Duration) {
        if let Source::Manual(manual) = &*self.0 {
            manual
                .wall_us
                .store(micros(to_since_unix_epoch), Ordering::SeqCst);
            manual.tell();
        }
    }

    pub(crate) fn is_manual(&self) -> bool {
        matches!(&*self.0, Source::Manual(_))
    }

    /// Calls `listener` whenever a manual clock was moved.
    pub(crate) fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        if let Source::Manual(manual) = &*self.0 {
            manual.listeners.lock().push(Box::new(listener));
        }
    }

    pub(crate) fn read(&self) -> Reading {
        match &*self.0 {
            Source::System => Reading {
                wall_us: system_wall_us(),
                boot_us: system_boot_us(),
            },
            Source::Manual(manual) => Reading {
                wall_us: manual.wall_us.load(Ordering::SeqCst),
                boot_us: manual.boot_us.load(Ordering::SeqCst),
            },
        }
    }

    fn boot_us(&self) -> u64 {
        match &*self.0 {
            Source::System => system_boot_us(),
            Source::Manual(manual) => manual.boot_us.load(Ordering::SeqCst),
        }
    }
}

impl Manual {
    fn tell(&self) {
        for listener in self.listeners.lock().iter() {
            listener();
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_manual() {
            "Clock::manual"
        } else {
            "Clock::system"
        })
    }
}

/// The store's time: `max(wall, highest time on disk)` at opening, advanced by boot time ever since. Clones are set together.
#[derive(Clone, Debug)]
pub(crate) struct StoreClock {
    source: Clock,
    /// What the store's time is ahead of boot time.
    ahead_us: Arc<AtomicU64>,
}

impl StoreClock {
    pub(crate) fn anchored(source: Clock, highest_on_disk_us: u64) -> Self {
        let reading = source.read();
        let anchor_us = reading.wall_us.max(highest_on_disk_us);
        Self {
            ahead_us: Arc::new(AtomicU64::new(anchor_us.saturating_sub(reading.boot_us))),
            source,
        }
    }

    /// Goes by what the process that holds the store says.
    #[cfg(unix)]
    pub(crate) fn set(&self, now_us: u64) {
        let ahead_us = now_us.saturating_sub(self.source.boot_us());
        self.ahead_us.store(ahead_us, Ordering::Relaxed);
    }

    /// Microseconds since the Unix epoch, in store time.
    pub(crate) fn now_us(&self) -> u64 {
        self.ahead_us.load(Ordering::Relaxed) + self.source.boot_us()
    }

    pub(crate) fn source(&self) -> &Clock {
        &self.source
    }
}

/// Measures how long something took, for statistics and time-outs; judges no deadline of a record.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts measuring.
    #[allow(clippy::disallowed_methods)]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start.
    #[allow(clippy::disallowed_methods)]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[allow(clippy::disallowed_methods)]
fn system_wall_us() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, micros)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn system_boot_us() -> u64 {
    let mut spec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `spec` is a valid timespec for the call to fill; CLOCK_BOOTTIME cannot fail on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut spec) };
    spec.tv_sec as u64 * 1_000_000 + spec.tv_nsec as u64 / 1000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::disallowed_methods)]
fn system_boot_us() -> u64 {
    // Elsewhere the monotonic clock stands in; it may stop while the machine sleeps.
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    micros(START.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_moves_no_store_time() {
        let wall = Duration::from_secs(2_000_000_000);
        let clock = Clock::manual(wall);
        let store = StoreClock::anchored(clock.clone(), 0);
        let start = store.now_us();
        for step in [
            wall + Duration::from_secs(31_536_000),
            wall - Duration::from_secs(3600),
        ] {
            clock.step_wall(step);
            assert_eq!(store.now_us(), start);
        }
        clock.advance(Duration::from_secs(30));
        assert_eq!(store.now_us(), start + 30_000_000);
    }

    #[test]
    fn the_anchor_is_never_before_what_is_on_disk() {
        let clock = Clock::manual(Duration::from_secs(1_000));
        assert_eq!(
            StoreClock::anchored(clock.clone(), 5_000_000_000).now_us(),
            5_000_000_000
        );
        assert_eq!(StoreClock::anchored(clock, 5).now_us(), 1_000_000_000);
    }

    #[test]
    fn a_positive_duration_is_never_zero_microseconds() {
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::MAX), NEVER_US);
        assert_eq!(after(5, NEVER_US), NEVER_US);
    }
}
