//! Ids for keys: numbers and names that no other process makes.

pub mod segment;
pub mod snowflake;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::store::{Engine, Store};

/// What a store remembers between ids.
#[derive(Default)]
pub(crate) struct IdMemory {
    pub(crate) snowflake: parking_lot::Mutex<Option<snowflake::Worker>>,
    pub(crate) segments: parking_lot::Mutex<std::collections::BTreeMap<String, segment::Segment>>,
}

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
        let mut random = [0; 10];
        getrandom::fill(&mut random)
            .map_err(|e| Error::unavailable(format!("the system gave no random bytes: {e}")))?;
        // The stamp rises with every call: its microseconds beyond the millisecond go first into the random part, so that
        // the ids of one process are in order.
        let stamp = self.engine().backend().stamp();
        let beyond = ((stamp % 1000) as u16) << 2;
        random[..2].copy_from_slice(&beyond.to_be_bytes());
        let id = uuid::Builder::from_unix_timestamp_millis(stamp / 1000, &random).into_uuid();
        Ok(id.hyphenated().to_string())
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.store.0
    }
}
