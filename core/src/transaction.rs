//! The optimistic transaction: reads and writes of one store that take effect together or not at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::{Admission, Commit, Committed, Durability, Seen, Touched, Write, wait};
use crate::codec::Row;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::lifecycle::{Answer, Change, Event, Moment, Verb, decide};
use crate::nonce;
use crate::store::{Engine, Store};
use crate::ticket::Ticket;
use crate::time::{NEVER_US, Stopwatch};
use crate::value::{Failure, Value};

/// How often a transaction may meet a conflict.
const MAX_CONFLICTS: u32 = 64;
/// The most keys that one transaction may read and write.
pub const MAX_TRANSACTION_KEYS: usize = 10_000;
/// How long a writer waits for a row that somebody has locked, when nothing is said.
pub const DEFAULT_ROW_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads and writes of one store, committed together. See [`Store::transaction`].
///
/// What is read is remembered: at the commit every key must still have the version that was read, or the closure runs
/// again. What is written is seen by later reads of the same transaction and by nobody else before the commit.
pub struct Tx<'s> {
    pub(crate) store: &'s Store,
    parts: BTreeMap<Box<[u8]>, Part>,
    pub(crate) durability: Durability,
    /// Tickets that end with the commit.
    tickets: Vec<Ticket>,
    /// Row locks that this transaction was given by their holder.
    pub(crate) holds: Vec<Key>,
    row_timeout: Duration,
}

/// One key of a transaction.
struct Part {
    key: Key,
    seen: Seen,
    write: Option<Write>,
}

/// Why a transaction did not commit.
enum Setback {
    /// A key had changed since it was read.
    Conflict(Key),
    /// Somebody has locked a row that was to be written.
    Locked(Key, u64),
}

impl Store {
    /// Runs a closure whose reads and writes of this store are committed together: all of them, or none.
    ///
    /// When a key that was read has changed by the time of the commit, the closure runs again, so that effects outside of
    /// the store do not belong in it. An error of the closure rolls back, and is returned as it is.
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
    pub fn transaction<T, E>(
        &self,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<Error>,
    {
        self.transact(self.0.durability(), DEFAULT_ROW_TIMEOUT, &[], &mut work)
    }

    /// A transaction with a durability of its own, a bound on the wait for locked rows, and row locks that it holds.
    pub(crate) fn transact<T, E>(
        &self,
        durability: Durability,
        row_timeout: Duration,
        holds: &[Key],
        work: &mut dyn FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<Error>,
    {
        let mut contended: Vec<Key> = Vec::new();
        let waiting = Stopwatch::start();
        for attempt in 0..MAX_CONFLICTS {
            // After its first conflict a transaction queues for the keys it lost: a hot key makes progress in order.
            let _lane = self.0.lanes().enter(&contended);
            let mut tx = Tx {
                store: self,
                parts: BTreeMap::new(),
                durability,
                tickets: Vec::new(),
                holds: holds.to_vec(),
                row_timeout,
            };
            let value = work(&mut tx)?;
            match tx.commit()? {
                Ok(()) => return Ok(value),
                Err(Setback::Conflict(key)) => {
                    if !contended
                        .iter()
                        .any(|known| known.as_bytes() == key.as_bytes())
                    {
                        contended.push(key);
                    }
                    drop(_lane);
                    back_off(attempt);
                }
                Err(Setback::Locked(key, version)) => {
                    drop(_lane);
                    let left = row_timeout
                        .checked_sub(waiting.elapsed())
                        .filter(|left| !left.is_zero());
                    let Some(left) = left else {
                        return Err(Error::new(
                            ErrorKind::Timeout,
                            format!(
                                "{} stayed locked for {row_timeout:?}; try again, or wait longer",
                                key.describe()
                            ),
                        )
                        .into());
                    };
                    let until_us = self.0.now_us().saturating_add(crate::time::micros(left));
                    drop(wait(self.0.backend().changed(&key, version, until_us))?);
                }
            }
        }
        let names: Vec<String> = contended.iter().map(Key::describe).collect();
        Err(Error::new(
            ErrorKind::TransactionConflict,
            format!(
                "the transaction met {MAX_CONFLICTS} conflicts in a row on {}; do less in one transaction, or spread the load",
                names.join(", ")
            ),
        )
        .into())
    }
}

/// Waits a little before the next try: longer after each, and never as long as another that lost at the same time.
fn back_off(attempt: u32) {
    if attempt > 1 {
        let most_us = 20u64 << attempt.min(8);
        std::thread::sleep(Duration::from_micros(nonce::fresh() % most_us));
    }
}

impl Tx<'_> {
    /// When the transaction looks at the clock, it sees this: microseconds since the Unix epoch.
    pub fn now_us(&self) -> u64 {
        self.store.0.now_us()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.store.0
    }

    /// How long the commit waits for rows that others have locked: 5 s by default.
    pub fn row_timeout(&self) -> Duration {
        self.row_timeout
    }

    /// The key as this transaction has it: read, or written by it.
    fn part(&mut self, key: &Key) -> Result<&mut Part> {
        if !self.parts.contains_key(key.as_bytes()) {
            if self.parts.len() >= MAX_TRANSACTION_KEYS {
                return Err(Error::invalid(format!(
                    "a transaction may touch at most {MAX_TRANSACTION_KEYS} keys; split it"
                )));
            }
            let seen = wait(self.store.0.backend().load(&[key]))?
                .pop()
                .ok_or_else(|| {
                    Error::corrupt(
                        "the store read another number of keys than it was asked; report this",
                    )
                })?;
            self.parts.insert(
                key.as_bytes().into(),
                Part {
                    key: key.clone(),
                    seen,
                    write: None,
                },
            );
        }
        self.parts
            .get_mut(key.as_bytes())
            .ok_or_else(|| Error::corrupt("a key of the transaction is missing; report this"))
    }

    /// The row of a key, as bytes with the version it has; forgotten rows are absent.
    pub(crate) fn row(&mut self, key: &Key) -> Result<Option<Row>> {
        let now_us = self.now_us();
        let part = self.part(key)?;
        let row = match &part.write {
            Some(Write::Row(row)) => Some(row.clone()),
            Some(Write::Remove) => None,
            Some(Write::Record(_)) => None,
            None => part.seen.row().map(|row| Row::clone(row)),
        };
        Ok(row.filter(|row| now_us < row.forgotten_at_us))
    }

    /// The row decoded.
    pub(crate) fn get<T: DeserializeOwned>(&mut self, key: &Key) -> Result<Option<T>> {
        match self.row(key)? {
            Some(row) => ciborium::from_reader(&row.bytes[..])
                .map(Some)
                .map_err(|e| Error::corrupt(format!("{} cannot be read: {e}", key.describe()))),
            None => Ok(None),
        }
    }

    /// Writes a row that is kept until `forgotten_at_us`.
    pub(crate) fn set<T: Serialize>(
        &mut self,
        key: &Key,
        value: &T,
        forgotten_at_us: u64,
    ) -> Result<()> {
        let mut bytes = Vec::with_capacity(64);
        ciborium::into_writer(value, &mut bytes)
            .map_err(|e| Error::invalid(format!("{} cannot be encoded: {e}", key.describe())))?;
        let limit = self.engine().max_result_bytes();
        if bytes.len() > limit {
            return Err(Error::invalid(format!(
                "{} is {} bytes long, and the store keeps {limit}: keep a reference instead",
                key.describe(),
                bytes.len()
            )));
        }
        let part = self.part(key)?;
        // A row that has a place among others keeps it.
        let order = part.seen.row().map_or(0, |row| row.order);
        part.write = Some(Write::Row(Row {
            version: 0,
            nonce: 0,
            forgotten_at_us,
            order,
            bytes,
        }));
        Ok(())
    }

    /// Gives the row that was just written the last place in its space.
    pub(crate) fn put_last(&mut self, key: &Key) -> Result<()> {
        let last = self.engine().backend().stamp();
        if let Some(Write::Row(row)) = &mut self.part(key)?.write {
            row.order = last;
        }
        Ok(())
    }

    /// Fails when somebody else holds a lock by the time of the commit.
    pub(crate) fn check_held(&mut self, lock: &Key, fence: u64) -> Result<()> {
        match self.part(lock)?.seen.record() {
            Some(record) if record.fence == fence => Ok(()),
            _ => Err(Error::lost(
                "the lock of a row was lost; nothing was written",
            )),
        }
    }

    /// Removes a row; whether there was one.
    pub(crate) fn remove(&mut self, key: &Key) -> Result<bool> {
        let there = self.row(key)?.is_some();
        let part = self.part(key)?;
        part.write = if part.seen.content.is_some() {
            Some(Write::Remove)
        } else {
            None
        };
        Ok(there)
    }

    /// Completes a ticket with the commit: the result is kept if, and only if, everything else is.
    ///
    /// # Errors
    /// `Lost` when another holds the key now; `InvalidInput` when the result cannot be kept.
    pub fn complete<T: Serialize + ?Sized>(&mut self, ticket: &Ticket, result: &T) -> Result<()> {
        let value = Value::of(result)?;
        self.complete_value(ticket, value)
    }

    /// [`complete`](Tx::complete) with a result that is encoded already.
    ///
    /// # Errors
    /// As [`complete`](Tx::complete).
    pub fn complete_value(&mut self, ticket: &Ticket, value: Value) -> Result<()> {
        let limit = self.engine().max_result_bytes();
        if value.as_bytes().len() > limit {
            return Err(Error::invalid(format!(
                "the result is {} bytes long, and the store keeps {limit}: keep a reference instead",
                value.as_bytes().len()
            )));
        }
        let verb = Verb::Complete {
            fence: ticket.fence(),
            value: Some(value),
        };
        self.end_ticket(ticket, verb)
    }

    /// Fails a ticket with the commit: the error is its result.
    ///
    /// # Errors
    /// `Lost` when another holds the key now.
    pub fn fail(&mut self, ticket: &Ticket, failure: impl Into<Failure>) -> Result<()> {
        let verb = Verb::Fail {
            fence: ticket.fence(),
            failure: failure.into(),
        };
        self.end_ticket(ticket, verb)
    }

    fn end_ticket(&mut self, ticket: &Ticket, verb: Verb) -> Result<()> {
        let now_us = self.now_us();
        let key = ticket.key().clone();
        let part = self.part(&key)?;
        let record = match &part.write {
            Some(Write::Record(record)) => Some(record.clone()),
            Some(_) => None,
            None => part.seen.record().map(|record| (**record).clone()),
        };
        let event = Event {
            nonce: nonce::fresh(),
            verb,
        };
        let moment = Moment {
            now_us,
            holder_gone: part.seen.holder_gone,
            turn_until_us: 0,
        };
        let step = decide(record.as_ref(), &event, moment);
        match (step.answer, step.change) {
            (Answer::Done { .. }, Change::Put(record)) => {
                part.write = Some(Write::Record(record));
                self.tickets.push(ticket.clone());
                Ok(())
            }
            _ => Err(Error::lost(
                "the ticket is no longer the holder of its key; the transaction was rolled back",
            )),
        }
    }

    /// Another transaction with the same closure starts from nothing; this one is over.
    fn commit(self) -> Result<Result<(), Setback>> {
        let mut parts: Vec<Part> = self.parts.into_values().collect();
        if parts.iter().all(|part| part.write.is_none()) {
            return Ok(Ok(()));
        }
        let locks: Vec<Key> = parts
            .iter()
            .filter(|part| part.write.is_some())
            .filter_map(|part| part.key.row_lock())
            .filter(|lock| {
                !self
                    .holds
                    .iter()
                    .any(|held| held.as_bytes() == lock.as_bytes())
            })
            .collect();
        if !locks.is_empty() {
            let keys: Vec<&Key> = locks.iter().collect();
            let seen = wait(self.store.0.backend().load(&keys))?;
            for (key, seen) in locks.iter().zip(seen) {
                let taken = seen.record().is_some_and(|record| {
                    !record.forgotten(seen.now_us)
                        && record.doubt(seen.now_us, seen.holder_gone).is_none()
                });
                if taken {
                    return Ok(Err(Setback::Locked(key.clone(), seen.version())));
                }
                parts.push(Part {
                    key: key.clone(),
                    seen,
                    write: None,
                });
            }
        }
        let writes: Vec<Option<Write>> = parts.iter_mut().map(|part| part.write.take()).collect();
        let keys = parts
            .iter()
            .zip(writes)
            .map(|(part, write)| Touched {
                key: &part.key,
                version: part.seen.version(),
                write,
            })
            .collect();
        let commit = Commit {
            keys,
            nonce: nonce::fresh(),
            durability: self.durability,
            admission: if self.tickets.is_empty() {
                Admission::Claim
            } else {
                Admission::Finish
            },
        };
        match wait(self.store.0.backend().commit(&commit))? {
            Committed::Written(_) => {
                self.tickets.iter().for_each(Ticket::ended_elsewhere);
                Ok(Ok(()))
            }
            Committed::Conflict(at) => {
                let key = commit.keys.get(at).map(|touched| touched.key.clone());
                key.map(|key| Err(Setback::Conflict(key))).ok_or_else(|| {
                    Error::corrupt("the store named no key of a conflict; report this")
                })
            }
        }
    }
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx")
            .field("keys", &self.parts.len())
            .finish_non_exhaustive()
    }
}

/// When something that is kept for `retain` is forgotten; `None` is for ever.
pub(crate) fn kept_until_us(now_us: u64, retain: Option<Duration>) -> u64 {
    retain.map_or(NEVER_US, |retain| {
        now_us.saturating_add(crate::time::micros(retain))
    })
}
