//! Ids for keys: numbers and names that no other process makes.
//!
//! An id made anew for every try makes every try another operation: make it once, where the intent begins, and send it with
//! every retry. Choose [`segment`](Ids::segment) for small numbers that people read, [`snowflake`](Ids::snowflake) for
//! numbers by time that are made fast, [`uuid7`](Ids::uuid7) where the store is not at hand.

pub mod segment;
pub mod snowflake;

use std::sync::Arc;

use crate::engine::Engine;
use crate::error::Result;
use crate::nonce;
use crate::store::Store;

/// Makers of ids.
#[derive(Clone, Copy, Debug)]
pub struct Ids<'a> {
    pub(crate) store: &'a Store,
}

impl Store {
    /// Ids that no other process of this store makes.
    ///
    /// ```
    /// let store = semel::Store::open("memory:")?;
    /// let ids = store.ids();
    /// assert!(ids.snowflake()? < ids.snowflake()?); // 63 bits, by time
    /// assert_eq!((ids.segment("orders")?, ids.segment("orders")?), (1, 2)); // small numbers
    /// assert!(ids.uuid7()? < ids.uuid7()?); // names, by time
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn ids(&self) -> Ids<'_> {
        Ids { store: self }
    }
}

impl Ids<'_> {
    /// A UUID of version 7 (RFC 9562): by time, and unique without the store's help.
    ///
    /// # Errors
    /// `Unavailable` when the system gives no random bytes.
    pub fn uuid7(&self) -> Result<String> {
        self.engine().check_here()?;
        let mut random = nonce::random_bytes::<10>()?;
        // The stamp rises with every call: its microseconds beyond the millisecond go first into the random part, so that
        // the ids of one process are in order.
        let stamp = self.engine().backend().stamp()?;
        let beyond = ((stamp % 1000) as u16) << 2;
        random[..2].copy_from_slice(&beyond.to_be_bytes());
        let id = uuid::Builder::from_unix_timestamp_millis(stamp / 1000, &random).into_uuid();
        Ok(id.hyphenated().to_string())
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.store.0
    }
}
