//! The optimistic transaction: reads and writes of one store that take effect together or not at all.

use std::cell::Cell;
use std::time::Duration;

use crate::backend::{Durability, Turn, wait};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::lanes::Lane;
use crate::nonce;
use crate::store::Store;
use crate::sync::{thread, thread_local};
use crate::time::micros;
use crate::tx::{Setback, Tx};

/// How often a transaction may meet a conflict.
pub const MAX_CONFLICTS: u32 = 64;
/// How long a writer waits for a row that somebody has locked, when nothing is said.
pub const DEFAULT_ROW_TIMEOUT: Duration = Duration::from_secs(5);

thread_local! {
    /// How many transactions of this thread are under way: one that runs within another must not queue behind it.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A transaction that is to be run, with options. See [`Store::transact`].
#[derive(Clone, Debug)]
pub struct Transaction<'s> {
    store: &'s Store,
    durability: Durability,
    timeout: Duration,
    /// Row locks that this transaction was given by their holder.
    holds: Vec<Key>,
}

impl Store {
    /// Runs a closure whose reads and writes of this store are committed together: all of them, or none.
    ///
    /// When a key that was read has changed by the time of the commit, the closure runs again, so that effects outside of
    /// the store do not belong in it. An error of the closure rolls back, and is returned as it is. What the closure reads
    /// may be of different moments while it runs; what it returns never rests on such a mixture.
    ///
    /// # Errors
    /// The closure's; `TransactionConflict`, naming the contended key, when it met too many conflicts; `Timeout` when a
    /// row that it writes was locked for too long; store errors.
    ///
    /// ```
    /// use semel::{Claim, Request, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let Claim::Execute(ticket) = store.claim(&Request::new("order.pay", "ORDER_1"))? else { panic!() };
    /// store.transaction(|tx| {
    ///     tx.table("orders").put("ORDER_1", &"PAID")?;
    ///     tx.emit("orders.paid", "ORDER_1", &"ORDER_1")?;
    ///     tx.complete(&ticket, &"paid") // the row, the message and the result: all or nothing
    /// })?;
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn transaction<T, E>(&self, work: impl FnMut(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        self.transact().run(work)
    }

    /// A transaction with options.
    ///
    /// ```
    /// use std::time::Duration;
    /// use semel::{Durability, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let views = store
    ///     .transact()
    ///     .durability(Durability::Relaxed) // a crash may lose it
    ///     .timeout(Duration::from_millis(100)) // for a row that somebody has locked
    ///     .run(|tx| {
    ///         let views = tx.table("views").get::<u64>("front")?.map_or(0, |row| row.value) + 1;
    ///         tx.table("views").put("front", &views)?;
    ///         Ok::<_, semel::Error>(views)
    ///     })?;
    /// assert_eq!(views, 1);
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn transact(&self) -> Transaction<'_> {
        Transaction {
            store: self,
            durability: self.0.durability(),
            timeout: DEFAULT_ROW_TIMEOUT,
            holds: Vec::new(),
        }
    }
}

impl Transaction<'_> {
    /// When the transaction returns; as the store by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long to wait for rows that somebody has locked: 5 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn holding(mut self, holds: Vec<Key>) -> Self {
        self.holds = holds;
        self
    }

    /// Runs the closure. See [`Store::transaction`].
    ///
    /// # Errors
    /// As [`Store::transaction`].
    pub fn run<T, E>(self, mut work: impl FnMut(&mut Tx<'_>) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let engine = &self.store.0;
        engine.check_here()?;
        let _under_way = UnderWay::begun();
        let mut race = Race {
            contended: Vec::new(),
            conflicts: 0,
            lane: None,
            turn: None,
            deadline_us: engine.now_us().saturating_add(micros(self.timeout)),
        };
        loop {
            let mut tx = Tx::new(self.store, self.durability, &self.holds);
            let setback = match work(&mut tx) {
                Ok(value) => match tx.commit(|keys| race.stands_back(self.store, keys))? {
                    None => return Ok(value),
                    Some(setback) => setback,
                },
                // An error that rests on reads of different moments may be of no moment at all: try again.
                Err(error) => match tx.stale()? {
                    None => return Err(error),
                    Some(key) => Setback::Conflict(key),
                },
            };
            match setback {
                Setback::Conflict(key) => race.lost(self.store, key, self.timeout)?,
                Setback::Queued(key) => race.queue(self.store, key, self.timeout),
                Setback::Locked(key, version) => {
                    race.wait_for(self.store, &key, version, self.timeout)?
                }
            }
        }
    }
}

/// What a transaction has been through.
struct Race<'s> {
    contended: Vec<Key>,
    conflicts: u32,
    lane: Option<Lane<'s>>,
    /// The turn at a locked row, kept until the next commit, so that no other locker takes it first.
    turn: Option<Turn>,
    deadline_us: u64,
}

impl<'s> Race<'s> {
    /// Whether to let those commit first who queue for one of these keys. Not within another transaction of this thread,
    /// which may be the one that they wait for.
    fn stands_back<'k>(&self, store: &Store, keys: impl Iterator<Item = &'k Key>) -> Option<Key> {
        match UnderWay::is_nested() {
            true => None,
            false => store.0.lanes().wanted(self.lane.as_ref(), keys),
        }
    }

    /// A conflict: from the first on a transaction queues for the keys it lost, so that a hot key makes progress in order.
    fn lost(&mut self, store: &'s Store, key: Key, patience: Duration) -> Result<()> {
        self.conflicts += 1;
        if self.conflicts >= MAX_CONFLICTS {
            return Err(self.exhausted(&key));
        }
        if UnderWay::is_nested() || (self.lane.is_some() && self.queues_for(&key)) {
            back_off(self.conflicts);
        } else {
            self.queue(store, key, patience);
        }
        Ok(())
    }

    fn queues_for(&self, key: &Key) -> bool {
        let same = |known: &Key| known.as_bytes() == key.as_bytes();
        self.contended.iter().any(same)
    }

    /// Takes a place behind those who want the same keys. Who waits holds nothing.
    fn queue(&mut self, store: &'s Store, key: Key, patience: Duration) {
        (self.turn, self.lane) = (None, None);
        if !self.queues_for(&key) {
            self.contended.push(key);
        }
        self.lane = Some(store.0.lanes().enter(&self.contended, patience));
    }

    /// A row is locked: wait for it without holding up others.
    fn wait_for(
        &mut self,
        store: &Store,
        key: &Key,
        version: u64,
        timeout: Duration,
    ) -> Result<()> {
        self.lane = None;
        self.turn = None;
        if store.0.now_us() >= self.deadline_us {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "{} stayed locked for {timeout:?}; try again, or wait longer",
                    key.describe()
                ),
            ));
        }
        self.turn = Some(wait(store.0.backend().changed(
            key,
            version,
            self.deadline_us,
        ))?);
        Ok(())
    }

    fn exhausted(&self, last: &Key) -> Error {
        let mut names: Vec<String> = self.contended.iter().map(Key::describe).collect();
        if !self.queues_for(last) {
            names.push(last.describe());
        }
        Error::new(
            ErrorKind::TransactionConflict,
            format!(
                "the transaction met {MAX_CONFLICTS} conflicts in a row on {}; do less in one transaction, or spread the load",
                names.join(", ")
            ),
        )
    }
}

/// Waits a little before the next try: longer after each, and never as long as another that lost at the same time.
fn back_off(conflicts: u32) {
    if conflicts > 1 {
        let most_us = 20u64 << conflicts.min(8);
        thread::sleep(Duration::from_micros(nonce::fresh() % most_us));
    }
}

/// While it lives, this thread is within a transaction.
struct UnderWay(());

impl UnderWay {
    fn begun() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self(())
    }

    fn is_nested() -> bool {
        DEPTH.with(Cell::get) > 1
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}
