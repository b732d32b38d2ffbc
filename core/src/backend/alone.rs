//! The backend of a store where processes cannot share one: the one that this process holds, and no other.

use std::path::Path;
use std::time::Duration;

use super::Backend;
use super::local::{Accounts, BackupFacts, Local, Options, Tenancy, Terms, Verification};
use crate::backend::Scanned;
use crate::error::Result;
use crate::time::{Clock, StoreClock};
use crate::timer::Timers;

/// How long a process may say nothing that holds a store; there is none but this.
pub(crate) const OWNER_SILENCE: Duration = Duration::from_secs(5);

/// The backend of a store.
pub(crate) struct Hub(Local);

impl Hub {
    pub(crate) fn in_memory(options: Options, clock: Clock) -> Result<Self> {
        Local::in_memory(options, clock).map(Self)
    }

    pub(crate) fn alone(terms: &Terms) -> Result<Self> {
        let (options, clock) = (terms.options.clone(), terms.clock.clone());
        Local::open(&terms.place, options, clock, Tenancy::alone()).map(Self)
    }

    pub(crate) fn shared(terms: Terms) -> Result<Self> {
        Self::alone(&terms)
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &self.0
    }

    pub(crate) fn clock(&self) -> &StoreClock {
        self.0.clock()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn timers(&self) -> &Timers {
        self.0.timers()
    }

    pub(crate) fn session(&self) -> u64 {
        self.0.session()
    }

    pub(crate) fn fingerprint_secret(&self) -> &[u8; 32] {
        self.0.fingerprint_secret()
    }

    pub(crate) fn is_remote(&self) -> bool {
        false
    }

    pub(crate) fn is_gone(&self, session: u64) -> bool {
        session != self.session()
    }

    pub(crate) fn accounts(&self) -> Accounts {
        self.0.accounts()
    }

    pub(crate) fn first_rows(&self, limit: usize) -> Result<Vec<(String, Scanned)>> {
        self.0.first_rows(limit)
    }

    pub(crate) fn others(&self) -> usize {
        0
    }

    pub(crate) fn leave(&self) -> Result<()> {
        self.0.close()
    }

    pub(crate) fn verify(&self) -> Result<Verification> {
        self.0.verify()
    }

    pub(crate) fn backup(&self, file: &Path) -> Result<BackupFacts> {
        self.0.backup(file)
    }
}
