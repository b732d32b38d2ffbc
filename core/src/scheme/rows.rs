//! Pessimistic lock: rows of a table, locked as `SELECT ... FOR UPDATE` does, changed together at the end.
//!
//! Stops: another writer between a read and a write, for work that is too dear to run twice. Does not stop: the repeated
//! request, which locks the row again when its turn comes: claim it, or give it an event. It is mutual exclusion. Choose it
//! for rows that many want at the same time. Rows are locked in one order whatever the caller's, so that no two callers wait
//! for each other.
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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Claim;
use crate::backend::{Durability, wait};
use crate::caller::Caller;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::record::Policy;
use crate::request::{Request, Retain};
use crate::scheme::table;
use crate::store::Store;
use crate::sync::thread_local;
use crate::ticket::Ticket;
use crate::time::micros;
use crate::transaction::DEFAULT_ROW_TIMEOUT;
use crate::tx::Tx;

/// The most rows that one call locks.
pub const MAX_LOCKED_ROWS: usize = 1000;
/// How long the rows of a process that died stay locked; renewed while it lives.
const LEASE: Duration = Duration::from_secs(5);
/// How long the record of a lock that was left behind is kept beyond its lease.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

thread_local! {
    /// Whether this thread has locked rows that are not let go; that is how nesting is found out.
    static HOLDS_ROWS: Arc<AtomicBool> = Arc::default();
}

/// Rows that are to be locked.
#[derive(Clone, Debug)]
pub struct RowsRequest<'a> {
    store: &'a Store,
    table: &'a str,
    ids: Vec<String>,
    timeout: Duration,
    retain: Retain,
}

/// Rows that are locked, with what is to be written to them. Dropping it writes nothing and lets go.
#[derive(Debug)]
pub struct Rows<T> {
    store: Store,
    table: String,
    retain: Retain,
    rows: BTreeMap<String, Locked<T>>,
    /// Of the thread that has locked them, wherever they are let go.
    held: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Locked<T> {
    lock: Key,
    ticket: Ticket,
    /// The version of the row when it was locked, and what it held.
    version: u64,
    value: Option<T>,
    changed: bool,
}

impl Store {
    /// Rows of a table, to be locked together; waits up to 5 s unless it is told otherwise.
    pub fn lock_rows<'a>(&'a self, table: &'a str, ids: &[impl AsRef<str>]) -> RowsRequest<'a> {
        RowsRequest {
            store: self,
            table,
            ids: ids.iter().map(|id| id.as_ref().to_owned()).collect(),
            timeout: DEFAULT_ROW_TIMEOUT,
            retain: Retain::Forever,
        }
    }
}

impl RowsRequest<'_> {
    /// How long to wait for all of the rows together.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long the rows that are written at the commit are kept: for ever by default, as those of a
    /// [`table`](Store::table).
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// Locks the rows, and reads them.
    ///
    /// # Errors
    /// `Timeout` when a row stayed locked for too long; `InvalidInput` for names that cannot be used, for too many rows or
    /// none, for a row of another type, and when this thread holds rows already (lock them all in one call); store errors.
    /// Whatever the error, no row stays locked.
    pub fn lock<T: DeserializeOwned>(mut self) -> Result<Rows<T>> {
        let held = HOLDS_ROWS.with(Arc::clone);
        if held.load(Ordering::Acquire) {
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
        let deadline_us = self.store.0.now_us().saturating_add(micros(self.timeout));
        let mut tickets = Tickets(Vec::with_capacity(keys.len()));
        for (key, id) in keys.iter().zip(&self.ids) {
            tickets.0.push(self.lock_one(key, id, deadline_us)?);
        }
        // Read under all locks: nobody changes a row from here on.
        let found = self.store.transaction(|tx| {
            keys.iter()
                .zip(&self.ids)
                .map(|(key, id)| {
                    let value = tx.table(self.table).get::<T>(id)?.map(|row| row.value);
                    Ok((tx.version(key)?, value))
                })
                .collect::<Result<Vec<(u64, Option<T>)>>>()
        })?;
        let locked = std::mem::take(&mut tickets.0).into_iter().zip(found).map(
            |((lock, ticket), (version, value))| Locked {
                lock,
                ticket,
                version,
                value,
                changed: false,
            },
        );
        let rows = self.ids.into_iter().zip(locked).collect();
        held.store(true, Ordering::Release);
        Ok(Rows {
            store: self.store.clone(),
            table: self.table.to_owned(),
            retain: self.retain,
            rows,
            held,
        })
    }

    fn lock_one(&self, key: &Key, id: &str, deadline_us: u64) -> Result<(Key, Ticket)> {
        let lock = key
            .row_lock()
            .ok_or_else(|| Error::corrupt("a row has no lock; report this"))?;
        let left_us = deadline_us.saturating_sub(self.store.0.now_us());
        let request = Request::new("row", id)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed)
            .lease(LEASE)
            .retain(LEFT_BEHIND)
            .wait(Duration::from_micros(left_us));
        let engine = &self.store.0;
        match wait(engine.claim_at(lock.clone(), &request, Caller::Thread))? {
            Claim::Execute(ticket) => Ok((lock, ticket)),
            Claim::Busy(_) => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "{} stayed locked for {:?}; try again, or wait longer",
                    key.describe(),
                    self.timeout
                ),
            )),
            other => Err(Error::corrupt(format!(
                "the lock of a row was answered {}; report this",
                other.name()
            ))),
        }
    }
}

impl<T> Rows<T> {
    /// What a locked row holds, with what was set here.
    ///
    /// # Errors
    /// `InvalidInput` when the row is not one of those locked.
    pub fn get(&self, id: &str) -> Result<Option<T>>
    where
        T: Clone,
    {
        self.rows
            .get(id)
            .map(|row| row.value.clone())
            .ok_or_else(|| not_locked(id))
    }

    /// What a locked row is to hold after the commit.
    ///
    /// # Errors
    /// `InvalidInput` when the row is not one of those locked.
    pub fn set(&mut self, id: &str, value: T) -> Result<()> {
        self.change(id, Some(value))
    }

    /// Removes a locked row at the commit.
    ///
    /// # Errors
    /// `InvalidInput` when the row is not one of those locked.
    pub fn remove(&mut self, id: &str) -> Result<()> {
        self.change(id, None)
    }

    fn change(&mut self, id: &str, value: Option<T>) -> Result<()> {
        let row = self.rows.get_mut(id).ok_or_else(|| not_locked(id))?;
        (row.value, row.changed) = (value, true);
        Ok(())
    }

    /// The ids of the locked rows, in the order in which they were locked.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// Writes what was set, all or nothing, and lets go of the rows.
    ///
    /// # Errors
    /// `Lost` when a lock was lost meanwhile: nothing was written; store errors.
    pub fn commit(self) -> Result<()>
    where
        T: Serialize,
    {
        self.commit_with(|_| Ok(()))
    }

    /// [`commit`](Rows::commit) together with more work in the same transaction: a posting, a message, a result.
    ///
    /// # Errors
    /// As [`commit`](Rows::commit), and those of the work.
    pub fn commit_with<R, E>(
        self,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<R, E>,
    ) -> Result<R, E>
    where
        T: Serialize,
        E: From<Error>,
    {
        let holds = self.rows.values().map(|row| row.lock.clone()).collect();
        self.store.transact().holding(holds).run(|tx| {
            for (id, row) in &self.rows {
                self.write(tx, id, row)?;
            }
            work(tx)
        })
    }

    fn write(&self, tx: &mut Tx<'_>, id: &str, row: &Locked<T>) -> Result<()>
    where
        T: Serialize,
    {
        // A lock whose lease ended may have let in another locker, or a writer who saw it free.
        let holder = tx.record(&row.lock)?.map(|record| record.fence);
        if holder != Some(row.ticket.fence())
            || tx.version(&table::key(&self.table, id)?)? != row.version
        {
            return Err(Error::lost(format!(
                "the lock of row {id:?} of table {:?} was lost; nothing was written",
                self.table
            )));
        }
        match &row.value {
            _ if !row.changed => Ok(()),
            Some(value) => {
                let table = tx.table(&self.table).retain(self.retain);
                table.put(id, value).map(drop)
            }
            None => tx.table(&self.table).delete(id).map(drop),
        }
    }
}

fn not_locked(id: &str) -> Error {
    Error::invalid(format!(
        "row {id:?} is not one of those that were locked; name it in lock_rows"
    ))
}

impl<T> Drop for Rows<T> {
    fn drop(&mut self) {
        self.held.store(false, Ordering::Release);
        self.rows
            .values()
            .for_each(|row| row.ticket.unlock_at_once());
    }
}

/// Locks that were taken on the way to all of them; let go when the way ends early.
struct Tickets(Vec<(Key, Ticket)>);

impl Drop for Tickets {
    fn drop(&mut self) {
        self.0
            .iter()
            .for_each(|(_, ticket)| ticket.unlock_at_once());
    }
}
