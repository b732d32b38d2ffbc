//! Periodic work: a job that fires on every node runs once in its period.
//!
//! Stops: the schedule that fires on two nodes, or twice on one whose clock was set back. Does not stop: work that outlasts
//! its period: hold a lock as well.
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

use crate::error::{Error, Result};
use crate::key::{Key, Namespace};
use crate::store::Store;
use crate::time::{NEVER_US, micros};

/// The shortest period.
pub const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

#[derive(Serialize, Deserialize)]
struct Last {
    every_us: u64,
    period: u64,
    fired_us: u64,
}

impl Store {
    /// Claims the present period of periodic work: `true` for the first who asks in it. Periods are aligned to the Unix
    /// epoch, so that a day begins at midnight UTC; a second firing within a tenth of the period is refused, whatever the
    /// node's clock says.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be used, a period that is too short, or another one than before; store errors.
    pub fn tick(&self, name: &str, every: Duration) -> Result<bool> {
        if every < SHORTEST_PERIOD {
            return Err(Error::invalid(format!(
                "every is {every:?}; a period is at least {SHORTEST_PERIOD:?} long"
            )));
        }
        let key = Key::row(Namespace::Tick, ("periodic work", "tick"), ("name", name))?;
        let every_us = micros(every);
        self.transaction(|tx| {
            let now_us = tx.now_us();
            let period = now_us / every_us;
            if let Some(last) = tx.get::<Last>(&key)?
                && last.every_us == every_us
                && (period <= last.period || now_us < last.fired_us.saturating_add(every_us / 10))
            {
                return Ok(false);
            }
            tx.set(
                &key,
                &Last {
                    every_us,
                    period,
                    fired_us: now_us,
                },
                NEVER_US,
            )?;
            Ok(true)
        })
    }
}
