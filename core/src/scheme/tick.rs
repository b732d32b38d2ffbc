//! Periodic work: a job that fires on every node runs once in its period.
//!
//! Stops: the schedule that fires on two nodes, or twice on one whose clock was set back. Does not stop: work that outlasts
//! its period (hold a lock as well), nor the period whose node crashes after it has asked (claim the work, too). Choose it
//! for jobs that every node's scheduler starts. It deduplicates: who comes second is told no, and gets no result.
//!
//! ```
//! use std::time::Duration;
//!
//! let store = semel::Store::open("memory:")?;
//! let daily = Duration::from_secs(24 * 3600);
//! assert!(store.tick("report", daily)?); // this node runs it
//! assert!(!store.tick("report", daily)?); // no other does
//! # Ok::<(), semel::Error>(())
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Durability;
use crate::error::{Error, Result};
use crate::key::{Key, Namespace};
use crate::store::Store;
use crate::time::{NEVER_US, micros};

/// The shortest period.
pub const SHORTEST_PERIOD: Duration = Duration::from_millis(10);
/// The part of a period within which a second firing is refused.
const REFUSED_PART: u64 = 10;

/// What asking for a period came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// Whether the period is the caller's, who is the first to ask in it.
    pub due: bool,
    /// When the period begins that was fired last, now or before: microseconds since the Unix epoch.
    pub period_us: u64,
}

#[derive(Serialize, Deserialize)]
struct Last {
    fired_us: u64,
}

impl Store {
    /// Claims the present period of periodic work: `true` for the first who asks in it. Periods are aligned to the Unix
    /// epoch, so that a day begins at midnight UTC; a second firing within a tenth of the period is refused, whatever the
    /// node's clock says. Another period than before is aligned anew, and counts from the last firing. On disk before it
    /// returns, whatever the store's durability.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be used or a period that is too short; store errors, which never mean that the
    /// period is free.
    pub fn tick(&self, name: &str, every: Duration) -> Result<bool> {
        Ok(self.tick_period(name, every)?.due)
    }

    /// [`tick`](Store::tick), with the period that the last firing belongs to: a key for the work of that period.
    ///
    /// # Errors
    /// As [`tick`](Store::tick).
    pub fn tick_period(&self, name: &str, every: Duration) -> Result<Tick> {
        if every < SHORTEST_PERIOD {
            return Err(Error::invalid(format!(
                "every is {every:?}; a period is at least {SHORTEST_PERIOD:?} long"
            )));
        }
        let key = Key::row(Namespace::Tick, ("periodic work", "tick"), ("name", name))?;
        let every_us = micros(every);
        self.transact().durability(Durability::Sync).run(|tx| {
            let last = tx.get::<Last>(&key)?;
            let now_us = tx.now_us();
            if let Some(Last { fired_us }) = last
                && (now_us / every_us <= fired_us / every_us
                    || now_us - fired_us < every_us / REFUSED_PART)
            {
                let period_us = fired_us - fired_us % every_us;
                return Ok(Tick {
                    due: false,
                    period_us,
                });
            }
            tx.set(&key, &Last { fired_us: now_us }, NEVER_US)?;
            Ok(Tick {
                due: true,
                period_us: now_us - now_us % every_us,
            })
        })
    }
}
