//! Optimistic lock: rows with versions; an update names the version it was made from.
//!
//! Stops: the lost update, and, with an event, the same update twice. Does not stop: two different updates one after the
//! other; the same update without an event, once it is read anew. Choose it for rows that people or services edit, where
//! conflicts are rare: who loses looks again and decides anew. With an event it is idempotence, of the row alone; without one
//! it does no more than keep two writers apart.
//!
//! ```
//! use semel::{Store, Update};
//!
//! let store = Store::open("memory:")?;
//! let stock = store.table("stock");
//! stock.put("cup", &10)?;
//! let row = stock.get::<i32>("cup")?.expect("there");
//! assert!(matches!(stock.update(&row, &9, Some("order-1"))?, Update::Updated(_)));
//! assert!(matches!(stock.update(&row, &9, Some("order-1"))?, Update::Already(_))); // asked again
//! assert!(matches!(stock.update(&row, &8, Some("order-2"))?, Update::Stale(Some(now)) if now.value == 9));
//! # Ok::<(), semel::Error>(())
//! ```

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::key::{Key, MAX_ID_BYTES, Namespace, check_name};
use crate::request::Retain;
use crate::store::Store;
use crate::transaction::DEFAULT_ROW_TIMEOUT;
use crate::tx::{Tx, kept_until_us};
use crate::value::Value;

/// How many of the last events a row remembers.
pub const MAX_ROW_EVENTS: usize = 16;

/// A row as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<T> {
    /// Which row.
    pub id: String,
    /// What it holds.
    pub value: T,
    /// Rises with every write of the row.
    pub version: u64,
}

/// What an update came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update<T> {
    /// The row has the new value: the row as it is now, from which the next update can be made.
    Updated(Row<T>),
    /// This very event has updated the row before; nothing was changed. The event.
    Already(String),
    /// The row has changed since it was read; nothing was changed. The row as it is, or `None` when it is gone.
    Stale(Option<Row<T>>),
}

impl<T> Update<T> {
    /// The answer's word, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Updated(_) => "updated",
            Self::Already(_) => "already",
            Self::Stale(_) => "stale",
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    value: Value,
    /// The row's own count of writes: a transaction sees the version it will have.
    version: u64,
    events: Vec<String>,
}

/// A table of a store.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    store: &'a Store,
    name: &'a str,
    retain: Retain,
    timeout: Duration,
}

impl Store {
    /// The table `name`. Rows are kept for ever, unless [`Table::retain`] says otherwise.
    pub fn table<'a>(&'a self, name: &'a str) -> Table<'a> {
        Table {
            store: self,
            name,
            retain: Retain::Forever,
            timeout: DEFAULT_ROW_TIMEOUT,
        }
    }
}

impl Table<'_> {
    /// How long rows that are written from now on are kept: for ever by default.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// How long writes wait for a row that somebody has locked: 5 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn transaction<T>(&self, work: impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        self.store.transact().timeout(self.timeout).run(work)
    }

    /// Writes a row, whatever was there; its version.
    ///
    /// # Errors
    /// `InvalidInput`, `Timeout` when somebody has locked the row, and store errors.
    pub fn put<T: Serialize>(&self, id: &str, value: &T) -> Result<u64> {
        self.transaction(|tx| self.within(tx).put(id, value))
    }

    /// Reads a row.
    ///
    /// # Errors
    /// `InvalidInput` when it is of another type; store errors.
    pub fn get<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Row<T>>> {
        self.transaction(|tx| self.within(tx).get(id))
    }

    /// Writes a row if it is as it was read, and this event has not written it before.
    ///
    /// # Errors
    /// As [`put`](Table::put).
    pub fn update<T: Serialize + DeserializeOwned + Clone>(
        &self,
        row: &Row<T>,
        new: &T,
        event: Option<&str>,
    ) -> Result<Update<T>> {
        self.transaction(|tx| self.within(tx).update(row, new, event))
    }

    /// Changes a row by a function of what it holds, run again when somebody else was first; the new value.
    ///
    /// # Errors
    /// As [`put`](Table::put), and `TransactionConflict`.
    pub fn modify<T: Serialize + DeserializeOwned>(
        &self,
        id: &str,
        mut change: impl FnMut(Option<T>) -> T,
    ) -> Result<T> {
        self.transaction(|tx| {
            let row = self.within(tx).get::<T>(id)?;
            let new = change(row.map(|row| row.value));
            self.within(tx).put(id, &new)?;
            Ok(new)
        })
    }

    /// Removes a row; whether there was one. Removing an absent row is no error.
    ///
    /// # Errors
    /// As [`put`](Table::put).
    pub fn delete(&self, id: &str) -> Result<bool> {
        self.transaction(|tx| self.within(tx).delete(id))
    }

    fn within<'t, 's>(&'t self, tx: &'t mut Tx<'s>) -> TxTable<'t, 's> {
        TxTable {
            tx,
            name: self.name,
            retain: self.retain,
        }
    }
}

/// A table within a transaction.
#[derive(Debug)]
pub struct TxTable<'t, 's> {
    tx: &'t mut Tx<'s>,
    name: &'t str,
    retain: Retain,
}

impl<'s> Tx<'s> {
    /// The table `name`.
    pub fn table<'t>(&'t mut self, name: &'t str) -> TxTable<'t, 's> {
        TxTable {
            tx: self,
            name,
            retain: Retain::Forever,
        }
    }
}

impl TxTable<'_, '_> {
    /// As [`Table::retain`].
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// As [`Table::put`].
    ///
    /// # Errors
    /// As [`Table::put`].
    pub fn put<T: Serialize>(self, id: &str, value: &T) -> Result<u64> {
        self.put_value(id, Value::of(value)?)
    }

    /// [`put`](TxTable::put) of a value that is encoded already.
    ///
    /// # Errors
    /// As [`Table::put`].
    pub fn put_value(self, id: &str, value: Value) -> Result<u64> {
        let key = self.key(id)?;
        self.tx.check_length(&key, &value)?;
        let events = self
            .tx
            .get::<Kept>(&key)?
            .map_or_else(Vec::new, |kept| kept.events);
        let version = next_version(self.tx)?;
        let until_us = kept_until_us(self.tx.now_us(), self.retain)?;
        self.tx.set(
            &key,
            &Kept {
                value,
                version,
                events,
            },
            until_us,
        )?;
        Ok(version)
    }

    /// As [`Table::get`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get<T: DeserializeOwned>(self, id: &str) -> Result<Option<Row<T>>> {
        let key = self.key(id)?;
        match self.tx.get::<Kept>(&key)? {
            Some(kept) => Ok(Some(Row {
                id: id.to_owned(),
                value: kept.value.decode()?,
                version: kept.version,
            })),
            None => Ok(None),
        }
    }

    /// As [`Table::update`].
    ///
    /// # Errors
    /// As [`Table::update`].
    pub fn update<T: Serialize + DeserializeOwned + Clone>(
        self,
        row: &Row<T>,
        new: &T,
        event: Option<&str>,
    ) -> Result<Update<T>> {
        if let Some(event) = event {
            check_name("event", event, MAX_ID_BYTES)?;
        }
        let key = self.key(&row.id)?;
        let Some(kept) = self.tx.get::<Kept>(&key)? else {
            return Ok(Update::Stale(None));
        };
        if let Some(event) = event
            && kept.events.iter().any(|known| known == event)
        {
            return Ok(Update::Already(event.to_owned()));
        }
        if kept.version != row.version {
            let now = Row {
                id: row.id.clone(),
                value: kept.value.decode()?,
                version: kept.version,
            };
            return Ok(Update::Stale(Some(now)));
        }
        let value = Value::of(new)?;
        self.tx.check_length(&key, &value)?;
        let mut events = kept.events;
        events.extend(event.map(str::to_owned));
        if events.len() > MAX_ROW_EVENTS {
            events.remove(0);
        }
        let version = next_version(self.tx)?;
        let until_us = kept_until_us(self.tx.now_us(), self.retain)?;
        self.tx.set(
            &key,
            &Kept {
                value,
                version,
                events,
            },
            until_us,
        )?;
        Ok(Update::Updated(Row {
            id: row.id.clone(),
            value: new.clone(),
            version,
        }))
    }

    /// As [`Table::delete`].
    ///
    /// # Errors
    /// As [`Table::delete`].
    pub fn delete(self, id: &str) -> Result<bool> {
        let key = self.key(id)?;
        self.tx.remove(&key)
    }

    fn key(&self, id: &str) -> Result<Key> {
        key(self.name, id)
    }
}

pub(crate) fn key(name: &str, id: &str) -> Result<Key> {
    Key::row(Namespace::Table, ("table", name), ("row id", id))
}

/// Versions rise also when a row is deleted and made again, and however the clock stands: they are stamps, like fences.
fn next_version(tx: &Tx<'_>) -> Result<u64> {
    tx.engine().backend().stamp()
}
