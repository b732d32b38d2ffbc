//! `semel run --every`: the run of the present period is an operation of its own.

use std::time::Duration;

use crate::cli::argument::KeyArgs;
use crate::cli::run::Run;
use crate::{Result, Retain, Store, rfc3339};

/// A run is kept for so many periods, since a firing near a period's end belongs to it for a while longer.
const KEPT_PERIODS: u32 = 2;

impl Run {
    /// This run, as that of the present period: the key has the period's beginning behind it, and is kept beyond its end.
    pub(super) fn of_period(&self, store: &Store, every: Duration) -> Result<Self> {
        // A digest of whose, what and which: a name has less room than they have.
        let tick = store.tick_period(&self.key.identity().digest()?, every)?;
        let kept = every.saturating_mul(KEPT_PERIODS);
        let retain = match self.retain {
            None => Retain::For(kept.max(crate::DEFAULT_RETAIN)),
            Some(retain) => retain,
        };
        Ok(Self {
            key: KeyArgs {
                key: format!("{}@{}", self.key.key, rfc3339(tick.period_us)),
                ..self.key.clone()
            },
            every: None,
            retain: Some(retain),
            remember: self.remember.max(kept),
            ..self.clone()
        })
    }
}
