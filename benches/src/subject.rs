//! What is measured of every store alike: claim a key once, keep its result.

use std::path::Path;

use crate::key::Key;
use crate::outcome::Outcome;

/// What an acknowledged change is worth.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The quickest that the store offers while it still writes to disk.
    Relaxed,
    /// On disk before it is acknowledged.
    Synced,
}

/// How long a finished record is kept. Rivals keep everything: they have no such notion.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// A day.
    Long,
    /// Two seconds.
    Short,
}

/// What the request says beside its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    None,
    /// An order, whose fingerprint is kept and compared. Rivals ignore it.
    Order,
}

/// A store in which a key can be claimed once and its result kept.
pub trait Subject: Send + Sync + Sized {
    /// What a claim hands to its complete.
    type Held: Send;

    /// The name in the table.
    const NAME: &'static str;

    /// Opens a new store in a directory.
    fn open(dir: &Path, promise: Promise, payload: Payload) -> Outcome<Self>;

    /// Claims a key that is new.
    fn claim(&self, key: &Key, keep: Keep) -> Outcome<Self::Held>;

    /// Keeps the result of a claim.
    fn complete(&self, key: &Key, held: Self::Held, result: &[u8]) -> Outcome<()>;

    /// Writes what is not on disk yet, and closes.
    fn close(self) -> Outcome<()>;

    /// What a crash costs at this promise.
    fn crash_costs(promise: Promise) -> &'static str;
}
