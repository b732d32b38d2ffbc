//! Unique index: insert first, look after.
//!
//! Stops: the same thing created twice under one business number, by whomever, at the same time or a year apart. Does not
//! stop: the same thing under two numbers. Choose it for creation: orders, payments, registrations. It deduplicates, and
//! shows the row that was first; it does not keep the answer of the work around it, which a claim does.
//!
//! ```
//! use semel::{Insert, Store};
//!
//! let store = Store::open("memory:")?;
//! let orders = store.unique("orders");
//! assert_eq!(orders.insert("ORDER_1", &100)?, Insert::Inserted);
//! assert_eq!(orders.insert("ORDER_1", &100)?, Insert::Exists(100)); // the same request again
//! assert_eq!(orders.insert("ORDER_1", &200)?, Insert::Conflict(100)); // another one's number
//! # Ok::<(), semel::Error>(())
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::key::{Key, Namespace};
use crate::request::Retain;
use crate::store::Store;
use crate::tx::{Tx, kept_until_us};
use crate::value::Value;

/// What inserting a row came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert<T> {
    /// The id was free; the row is in.
    Inserted,
    /// This very row is there: the same request again.
    Exists(T),
    /// Another row holds the id; this one.
    Conflict(T),
}

impl<T> Insert<T> {
    /// The answer's word, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Exists(_) => "exists",
            Self::Conflict(_) => "conflict",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Kept {
    value: Value,
}

/// A unique index of a store.
#[derive(Clone, Debug)]
pub struct Unique<'a> {
    store: &'a Store,
    name: &'a str,
    retain: Retain,
}

impl Store {
    /// The unique index `name`. Rows are kept for ever, unless [`Unique::retain`] says otherwise.
    pub fn unique<'a>(&'a self, name: &'a str) -> Unique<'a> {
        Unique {
            store: self,
            name,
            retain: Retain::Forever,
        }
    }
}

impl Unique<'_> {
    /// How long rows that are inserted from now on are kept: for ever by default. Then their ids are free again.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// Inserts a row, or shows the one that was first.
    ///
    /// # Errors
    /// `InvalidInput` for a name or row that cannot be kept, and when the row that is there is of another type; store errors.
    pub fn insert<T: Serialize + DeserializeOwned>(&self, id: &str, row: &T) -> Result<Insert<T>> {
        self.store
            .transaction(|tx| tx.unique(self.name).retain(self.retain).insert(id, row))
    }

    /// The row of an id.
    ///
    /// # Errors
    /// `InvalidInput` when the row is of another type; store errors.
    pub fn get<T: DeserializeOwned>(&self, id: &str) -> Result<Option<T>> {
        self.store.transaction(|tx| tx.unique(self.name).get(id))
    }
}

/// A unique index within a transaction.
#[derive(Debug)]
pub struct TxUnique<'t, 's> {
    tx: &'t mut Tx<'s>,
    name: &'t str,
    retain: Retain,
}

impl<'s> Tx<'s> {
    /// The unique index `name`.
    pub fn unique<'t>(&'t mut self, name: &'t str) -> TxUnique<'t, 's> {
        TxUnique {
            tx: self,
            name,
            retain: Retain::Forever,
        }
    }
}

impl TxUnique<'_, '_> {
    /// As [`Unique::retain`].
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// As [`Unique::insert`].
    ///
    /// # Errors
    /// As [`Unique::insert`].
    pub fn insert<T: Serialize + DeserializeOwned>(self, id: &str, row: &T) -> Result<Insert<T>> {
        match self.insert_value(id, Value::of(row)?)? {
            Insert::Inserted => Ok(Insert::Inserted),
            Insert::Exists(kept) => kept.decode().map(Insert::Exists),
            Insert::Conflict(kept) => kept.decode().map(Insert::Conflict),
        }
    }

    /// [`insert`](TxUnique::insert) of a row that is encoded already.
    ///
    /// # Errors
    /// As [`Unique::insert`].
    pub fn insert_value(self, id: &str, value: Value) -> Result<Insert<Value>> {
        let key = key(self.name, id)?;
        self.tx.check_length(&key, &value)?;
        if let Some(kept) = self.tx.get::<Kept>(&key)? {
            return Ok(match kept.value.is_same(&value) {
                true => Insert::Exists(kept.value),
                false => Insert::Conflict(kept.value),
            });
        }
        let until_us = kept_until_us(self.tx.now_us(), self.retain)?;
        self.tx.set(&key, &Kept { value }, until_us)?;
        Ok(Insert::Inserted)
    }

    /// As [`Unique::get`].
    ///
    /// # Errors
    /// As [`Unique::get`].
    pub fn get<T: DeserializeOwned>(self, id: &str) -> Result<Option<T>> {
        self.tx
            .get::<Kept>(&key(self.name, id)?)?
            .map(|kept| kept.value.decode())
            .transpose()
    }
}

fn key(name: &str, id: &str) -> Result<Key> {
    Key::row(Namespace::Unique, ("unique index", name), ("id", id))
}
