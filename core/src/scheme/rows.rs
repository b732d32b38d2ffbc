//! Pessimistic lock: rows of a table, locked as `SELECT ... FOR UPDATE` does, changed together at the end.
//!
//! Stops: another writer between a read and a write, for work that is too dear to run twice. Does not stop: the repeated
//! request. Rows are locked in one order whatever the caller's, so that no two callers wait for each other.
//!
//! ```
//! use semel::Store;
//!
//! let store = Store::open("memory:")?;
//! let accounts = store.table("account");
//! accounts.put("a", &100)?;
//! accounts.put("b", &0)?;
//! let mut rows = store.lock_rows("account", &["b", "a"]).lock::<i64>()?;
//! let (a, b) = (rows.get("a")?.unwrap_or(0), rows.get("b")?.unwrap_or(0));
//! rows.set("a", a - 30)?;
//! rows.set("b", b + 30)?;
//! rows.commit()?; // both, or neither
//! assert_eq!(accounts.get::<i64>("b")?.map(|row| row.value), Some(30));
//! # Ok::<(), semel::Error>(())
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Claim;
use crate::backend::{Durability, wait};
use crate::caller::Caller;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::record::Policy;
use crate::request::Request;
use crate::scheme::table;
use crate::store::Store;
use crate::ticket::Ticket;
use crate::time::Stopwatch;
use crate::transaction::DEFAULT_ROW_TIMEOUT;

/// The most rows that one call locks.
pub const MAX_LOCKED_ROWS: usize = 1000;
/// How long the record of a lock that was left behind is kept beyond its lease.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

thread_local! {
    static HOLDS_ROWS: Cell<bool> = const { Cell::new(false) };
}

/// Rows that are to be locked.
#[derive(Clone, Debug)]
pub struct RowsRequest<'a> {
    store: &'a Store,
    table: &'a str,
    ids: Vec<&'a str>,
    timeout: Duration,
}

/// Rows that are locked, with what is to be written to them. Dropping it writes nothing and lets go.
#[derive(Debug)]
pub struct Rows<'a, T> {
    store: &'a Store,
    table: &'a str,
    tickets: Vec<(Key, Ticket)>,
    ids: Vec<&'a str>,
    changes: BTreeMap<&'a str, Option<T>>,
    /// A guard stays on its thread: that is how nesting is found out.
    _here: PhantomData<*const ()>,
}

impl Store {
    /// Rows of a table, to be locked together; waits up to 5 s unless it is told otherwise.
    pub fn lock_rows<'a>(&'a self, table: &'a str, ids: &[&'a str]) -> RowsRequest<'a> {
        RowsRequest {
            store: self,
            table,
            ids: ids.to_vec(),
            timeout: DEFAULT_ROW_TIMEOUT,
        }
    }
}

impl<'a> RowsRequest<'a> {
    /// How long to wait for all of the rows together.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Locks the rows.
    ///
    /// # Errors
    /// `Timeout` when a row stayed locked for too long; `InvalidInput` for names that cannot be used, for too many rows,
    /// and when this thread holds rows already (lock them all in one call); store errors.
    pub fn lock<T>(mut self) -> Result<Rows<'a, T>> {
        if HOLDS_ROWS.get() {
            return Err(Error::invalid(
                "this thread holds rows already; lock all rows in one call, so that no two callers wait for each other",
            ));
        }
        self.ids.sort_unstable();
        self.ids.dedup();
        if self.ids.is_empty() || self.ids.len() > MAX_LOCKED_ROWS {
            return Err(Error::invalid(format!(
                "between 1 and {MAX_LOCKED_ROWS} rows can be locked, not {}",
                self.ids.len()
            )));
        }
        let keys = self
            .ids
            .iter()
            .map(|id| table::key(self.table, id))
            .collect::<Result<Vec<Key>>>()?;
        let waiting = Stopwatch::start();
        let mut tickets = Vec::with_capacity(keys.len());
        for (key, id) in keys.iter().zip(&self.ids) {
            let Some(lock) = key.row_lock() else { continue };
            let left = self.timeout.saturating_sub(waiting.elapsed());
            let request = Request::new("row", *id)
                .in_doubt(Policy::Rerun)
                .durability(Durability::Relaxed)
                .retain(LEFT_BEHIND)
                .wait(left);
            match wait(
                self.store
                    .0
                    .claim_at(lock.clone(), &request, Caller::Thread),
            )? {
                Claim::Execute(ticket) => tickets.push((lock, ticket)),
                Claim::Busy(_) => {
                    release(&tickets);
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!(
                            "{} stayed locked for {:?}; try again, or wait longer",
                            key.describe(),
                            self.timeout
                        ),
                    ));
                }
                other => {
                    release(&tickets);
                    return Err(Error::corrupt(format!(
                        "the lock of a row was answered {}; report this",
                        other.name()
                    )));
                }
            }
        }
        HOLDS_ROWS.set(true);
        Ok(Rows {
            store: self.store,
            table: self.table,
            tickets,
            ids: self.ids,
            changes: BTreeMap::new(),
            _here: PhantomData,
        })
    }
}

impl<T: Serialize + DeserializeOwned + Clone> Rows<'_, T> {
    /// What a locked row holds, with what was set here.
    ///
    /// # Errors
    /// `InvalidInput` when the row is not one of those locked, or of another type; store errors.
    pub fn get(&self, id: &str) -> Result<Option<T>> {
        self.check(id)?;
        match self.changes.get(id) {
            Some(change) => Ok(change.clone()),
            None => Ok(self
                .store
                .table(self.table)
                .get::<T>(id)?
                .map(|row| row.value)),
        }
    }

    /// What a locked row is to hold after the commit.
    ///
    /// # Errors
    /// `InvalidInput` when the row is not one of those locked.
    pub fn set(&mut self, id: &str, value: T) -> Result<()> {
        let id = self.check(id)?;
        self.changes.insert(id, Some(value));
        Ok(())
    }

    /// Removes a locked row at the commit.
    ///
    /// # Errors
    /// `InvalidInput` when the row is not one of those locked.
    pub fn remove(&mut self, id: &str) -> Result<()> {
        let id = self.check(id)?;
        self.changes.insert(id, None);
        Ok(())
    }

    /// Writes what was set, all or nothing, and lets go of the rows.
    ///
    /// # Errors
    /// `Lost` when a lock was lost meanwhile: nothing was written; store errors.
    pub fn commit(mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        let holds: Vec<Key> = self.tickets.iter().map(|(key, _)| key.clone()).collect();
        let (table, tickets) = (self.table, &self.tickets);
        self.store.transact(
            self.store.0.durability(),
            DEFAULT_ROW_TIMEOUT,
            &holds,
            &mut |tx| {
                for (key, ticket) in tickets {
                    tx.check_held(key, ticket.fence())?;
                }
                for (id, change) in &changes {
                    match change {
                        Some(value) => drop(tx.table(table).put(id, value)?),
                        None => drop(tx.table(table).delete(id)?),
                    }
                }
                Ok::<(), Error>(())
            },
        )
    }
}

impl<'a, T> Rows<'a, T> {
    fn check(&self, id: &str) -> Result<&'a str> {
        let at = self.ids.iter().find(|locked| **locked == id);
        at.copied().ok_or_else(|| {
            Error::invalid(format!(
                "row {id:?} is not one of those that were locked; name it in lock_rows"
            ))
        })
    }
}

impl<T> Drop for Rows<'_, T> {
    fn drop(&mut self) {
        HOLDS_ROWS.set(false);
        release(&self.tickets);
    }
}

fn release(tickets: &[(Key, Ticket)]) {
    tickets
        .iter()
        .for_each(|(_, ticket)| ticket.unlock_at_once());
}
