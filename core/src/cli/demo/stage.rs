//! Where one pass over the sources plays: a store or none, a ledger, and keys of its own.

use crate::Store;
use crate::cli::demo::guard::Guard;
use crate::cli::demo::ledger::Ledger;
use crate::cli::exit::{self, Stop};

/// One pass, with semel or without.
pub(super) struct Stage {
    /// The store's URL; `None` without semel.
    pub(super) store: Option<String>,
    pub(super) ledger: Ledger,
    /// Part of every key, so that passes over one store do not meet.
    pub(super) pass: String,
}

impl Stage {
    /// Opens what stands before the effects. The store is closed when the guard is dropped.
    pub(super) fn guard(&self) -> Result<Guard, Stop> {
        Ok(match &self.store {
            Some(url) => Guard::On(Store::open(url)?),
            None => Guard::Off,
        })
    }

    /// The key of an intent.
    pub(super) fn key(&self, intent: &str) -> String {
        format!("{intent}-{}", self.pass)
    }

    /// The effect of an operation: one line in the ledger.
    pub(super) fn charge(&self, operation: &str, key: &str) -> Result<String, Stop> {
        self.ledger
            .charge(operation, key)
            .map_err(|error| broken("the ledger cannot be written", error))
    }
}

/// The demo itself broke, which says nothing of semel.
pub(super) fn broken(what: &str, why: impl std::fmt::Display) -> Stop {
    Stop::new(
        exit::INPUT_OUTPUT,
        format!("the demo cannot go on: {what}: {why}"),
    )
}

/// The same for a thread that panicked.
pub(super) fn panicked<T>(_: T) -> Stop {
    broken("a thread of it panicked", "this is a fault of the demo")
}
