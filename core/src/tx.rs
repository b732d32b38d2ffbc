//! What a transaction has read and is to write, and its commit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::{
    Admission, Commit, Committed, Durability, LAST_PLACE, Seen, Touched, Write, wait,
};
use crate::caller::Caller;
use crate::codec::{self, Row};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::lifecycle::{Answer, Change, Event, Moment, Verb, decide};
use crate::nonce;
use crate::record::Record;
use crate::request::Retain;
use crate::store::Store;
use crate::ticket::Ticket;
use crate::time::{NEVER_US, micros};
use crate::value::{Failure, Value};

/// The most keys that one transaction may read and write.
pub const MAX_TRANSACTION_KEYS: usize = 10_000;
/// The most keys of a transaction that lets others go first.
const MAX_POLITE_KEYS: usize = 256;

/// Reads and writes of one store, committed together. See [`Store::transaction`].
///
/// What is read is remembered: at the commit every key must still have the version that was read, or the closure runs
/// again. What is written is seen by later reads of the same transaction and by nobody else before the commit.
pub struct Tx<'s> {
    store: &'s Store,
    parts: BTreeMap<Box<[u8]>, Part>,
    durability: Durability,
    /// Of the commit: sent again, it answers as the first time.
    nonce: u64,
    now_us: u64,
    /// Tickets that end with the commit, and whether after their lease.
    tickets: Vec<(Ticket, bool)>,
    /// Row locks that this transaction was given by their holder.
    holds: &'s [Key],
    /// How many rows have asked for the last place in their space.
    last_places: u64,
}

/// One key of a transaction.
struct Part {
    key: Key,
    seen: Seen,
    write: Option<Write>,
}

/// Why a transaction did not commit.
pub(crate) enum Setback {
    /// A key had changed since it was read.
    Conflict(Key),
    /// Others queue for a key.
    Queued(Key),
    /// Somebody has locked a row that was to be written; the lock and its version.
    Locked(Key, u64),
}

impl<'s> Tx<'s> {
    pub(crate) fn new(store: &'s Store, durability: Durability, holds: &'s [Key]) -> Self {
        Self {
            store,
            parts: BTreeMap::new(),
            durability,
            nonce: nonce::fresh(),
            now_us: store.0.now_us(),
            tickets: Vec::new(),
            holds,
            last_places: 0,
        }
    }
}

impl Tx<'_> {
    /// The store's time, as this transaction has last seen it: microseconds since the Unix epoch.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.store.0
    }

    /// The key as this transaction has it: read, or written by it.
    fn part(&mut self, key: &Key) -> Result<&mut Part> {
        if !self.parts.contains_key(key.as_bytes()) {
            if self.parts.len() >= MAX_TRANSACTION_KEYS {
                return Err(Error::invalid(format!(
                    "a transaction may touch at most {MAX_TRANSACTION_KEYS} keys; split it"
                )));
            }
            let seen = load_one(self.store, key)?;
            self.now_us = self.now_us.max(seen.now_us);
            let part = Part {
                key: key.clone(),
                seen,
                write: None,
            };
            self.parts.insert(key.as_bytes().into(), part);
        }
        self.parts
            .get_mut(key.as_bytes())
            .ok_or_else(|| Error::corrupt("a key of the transaction is missing; report this"))
    }

    /// The row of a key, as bytes with the version it has; forgotten rows are absent.
    pub(crate) fn row(&mut self, key: &Key) -> Result<Option<Row>> {
        let part = self.part(key)?;
        let row = match &part.write {
            Some(Write::Row(row)) => Some(row.clone()),
            Some(Write::Remove | Write::Record(_)) => None,
            None => part.seen.row().map(|row| Row::clone(row)),
        };
        let now_us = self.now_us;
        Ok(row.filter(|row| now_us < row.forgotten_at_us))
    }

    /// The row decoded.
    pub(crate) fn get<T: DeserializeOwned>(&mut self, key: &Key) -> Result<Option<T>> {
        let part = self.part(key)?;
        let row = match &part.write {
            Some(Write::Row(row)) => Some(row),
            Some(Write::Remove | Write::Record(_)) => None,
            None => part.seen.row().map(|row| &**row),
        };
        let Some((bytes, forgotten_at_us)) = row.map(|row| (&row.bytes, row.forgotten_at_us))
        else {
            return Ok(None);
        };
        let decoded = codec::decode_row(bytes)
            .map_err(|e| Error::corrupt(format!("{} cannot be read: {e}", key.describe())))?;
        Ok((self.now_us < forgotten_at_us).then_some(decoded))
    }

    /// The version of a key as this transaction has read it; 0 when it is absent.
    pub(crate) fn version(&mut self, key: &Key) -> Result<u64> {
        Ok(self.part(key)?.seen.version())
    }

    /// The record of a key as this transaction has read it.
    pub(crate) fn record(&mut self, key: &Key) -> Result<Option<Arc<Record>>> {
        Ok(self.part(key)?.seen.record().cloned())
    }

    /// Refuses a value that is longer than the store keeps. What a scheme notes beside it has bounds of its own.
    pub(crate) fn check_length(&self, key: &Key, value: &Value) -> Result<()> {
        let (bytes, limit) = (value.as_bytes().len(), self.engine().max_result_bytes());
        match bytes <= limit {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "{} is {bytes} bytes long, and the store keeps {limit}: keep a reference instead",
                key.describe()
            ))),
        }
    }

    /// Writes a row that is kept until `forgotten_at_us`.
    pub(crate) fn set<T: Serialize>(
        &mut self,
        key: &Key,
        value: &T,
        forgotten_at_us: u64,
    ) -> Result<()> {
        let bytes = codec::encode_row(value)
            .map_err(|e| Error::invalid(format!("{} cannot be encoded: {e}", key.describe())))?;
        let part = self.part(key)?;
        // A row that has a place among others keeps it.
        let order = match &part.write {
            Some(Write::Row(row)) => row.order,
            _ => part.seen.row().map_or(0, |row| row.order),
        };
        part.write = Some(Write::Row(Row {
            version: 0,
            nonce: 0,
            forgotten_at_us,
            order,
            bytes,
        }));
        Ok(())
    }

    /// Gives the row that was just written the last place in its space, as of the commit.
    pub(crate) fn put_last(&mut self, key: &Key) -> Result<()> {
        let place = LAST_PLACE + self.last_places;
        self.last_places += 1;
        if let Some(Write::Row(row)) = &mut self.part(key)?.write {
            row.order = place;
        }
        Ok(())
    }

    /// Removes a row; whether there was one.
    pub(crate) fn remove(&mut self, key: &Key) -> Result<bool> {
        let there = self.row(key)?.is_some();
        let part = self.part(key)?;
        part.write = part.seen.content.is_some().then_some(Write::Remove);
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
        if !Arc::ptr_eq(ticket.engine(), self.engine()) {
            return Err(Error::invalid(
                "the ticket is of another store; a transaction is of one store",
            ));
        }
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
            now_us: part.seen.now_us,
            holder_gone: part.seen.holder_gone,
            turn_until_us: 0,
        };
        let step = decide(record.as_ref(), &event, moment);
        match (step.answer, step.change) {
            (Answer::Done { late }, Change::Put(record)) => {
                let late = late && matches!(event.verb, Verb::Complete { .. });
                part.write = Some(Write::Record(record));
                self.tickets.push((ticket.clone(), late));
                Ok(())
            }
            _ => Err(Error::lost(
                "the ticket is no longer the holder of its key; the transaction was rolled back",
            )),
        }
    }

    /// A key whose version is another by now than the one that was read. One key alone is of one moment.
    pub(crate) fn stale(&self) -> Result<Option<Key>> {
        if self.parts.len() < 2 {
            return Ok(None);
        }
        // Versions do not come again, but absence does: of two keys that were absent at each look, one may have been there at
        // any time between. They are compared under their locks.
        let absent = self.parts.values().filter(|part| part.seen.version() == 0);
        if absent.count() > 1 {
            return self.stale_under_locks();
        }
        let keys: Vec<&Key> = self.parts.values().map(|part| &part.key).collect();
        let now = wait(self.store.0.backend().load(&keys))?;
        let stale = self
            .parts
            .values()
            .zip(now)
            .find(|(part, now)| part.seen.version() != now.version());
        Ok(stale.map(|(part, _)| part.key.clone()))
    }

    fn stale_under_locks(&self) -> Result<Option<Key>> {
        let keys = self.parts.values().map(|part| Touched {
            key: &part.key,
            version: part.seen.version(),
            write: None,
        });
        let commit = Commit {
            keys: keys.collect(),
            nonce: self.nonce,
            durability: self.durability,
            admission: Admission::Finish,
        };
        match wait(self.store.0.backend().commit(&commit))? {
            Committed::Written(_) => Ok(None),
            Committed::Conflict(at) => Ok(commit.keys.get(at).map(|touched| touched.key.clone())),
        }
    }

    /// Commits; what stood in the way, if anything. Another transaction with the same closure starts from nothing.
    pub(crate) fn commit(
        mut self,
        stands_back: impl Fn(&mut dyn Iterator<Item = &Key>) -> Option<Key>,
    ) -> Result<Option<Setback>> {
        if self.parts.values().all(|part| part.write.is_none()) {
            return Ok(self.stale()?.map(Setback::Conflict));
        }
        if self.parts.len() <= MAX_POLITE_KEYS {
            let mut keys = self.parts.values().map(|part| &part.key);
            if let Some(key) = stands_back(&mut keys) {
                return Ok(Some(Setback::Queued(key)));
            }
        }
        let mut parts: Vec<Part> = std::mem::take(&mut self.parts).into_values().collect();
        if let Some(locked) = self.look_at_locks(&mut parts)? {
            return Ok(Some(locked));
        }
        let writes: Vec<Option<Write>> = parts.iter_mut().map(|part| part.write.take()).collect();
        let keys = parts.iter().zip(writes).map(|(part, write)| Touched {
            key: &part.key,
            version: part.seen.version(),
            write,
        });
        let commit = Commit {
            keys: keys.collect(),
            nonce: self.nonce,
            durability: self.durability,
            admission: match self.tickets.is_empty() {
                true => Admission::Claim,
                false => Admission::Finish,
            },
        };
        let endings = self.tickets.iter().map(|(ticket, _)| ticket.ending());
        let _endings: Vec<_> = endings.collect();
        match wait(self.store.0.backend().commit(&commit))? {
            Committed::Written(_) => {
                for (ticket, late) in &self.tickets {
                    ticket.ended_elsewhere(*late);
                }
                Ok(None)
            }
            Committed::Conflict(at) => match commit.keys.get(at) {
                Some(touched) => Ok(Some(Setback::Conflict(touched.key.clone()))),
                None => Err(Error::corrupt(
                    "the store named no key of a conflict; report this",
                )),
            },
        }
    }

    /// Takes the locks of the rows that are written into the commit, so that none is taken in between.
    fn look_at_locks(&self, parts: &mut Vec<Part>) -> Result<Option<Setback>> {
        let held = |lock: &Key| {
            self.holds
                .iter()
                .any(|held| held.as_bytes() == lock.as_bytes())
        };
        let locks: Vec<Key> = parts
            .iter()
            .filter(|part| part.write.is_some())
            .filter_map(|part| part.key.row_lock())
            .filter(|lock| !held(lock))
            .collect();
        if locks.is_empty() {
            return Ok(None);
        }
        let keys: Vec<&Key> = locks.iter().collect();
        let seen = wait(self.store.0.backend().load(&keys))?;
        for (key, seen) in locks.into_iter().zip(seen) {
            if let Some(record) = seen.record()
                && !seen.holder_gone
                && !record.forgotten(seen.now_us)
                && record.doubt(seen.now_us, seen.holder_gone).is_none()
            {
                if record.holder.session == self.store.0.session()
                    && Caller::Thread.is(record.holder.caller)
                {
                    return Err(Error::invalid(format!(
                        "{} is locked by this very thread, which would wait for itself; change it through the guard",
                        key.describe()
                    )));
                }
                return Ok(Some(Setback::Locked(key, seen.version())));
            }
            parts.push(Part {
                key,
                seen,
                write: None,
            });
        }
        Ok(None)
    }
}

fn load_one(store: &Store, key: &Key) -> Result<Seen> {
    wait(store.0.backend().load(&[key]))?.pop().ok_or_else(|| {
        Error::corrupt("the store read another number of keys than it was asked; report this")
    })
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx")
            .field("keys", &self.parts.len())
            .finish_non_exhaustive()
    }
}

/// When something that is kept for `retain` is forgotten.
pub(crate) fn kept_until_us(now_us: u64, retain: Retain) -> Result<u64> {
    match retain {
        Retain::Forever => Ok(NEVER_US),
        Retain::For(retain) if retain.is_zero() => Err(Error::invalid(
            "retain is zero; it would be forgotten at once: give the time in which repeats can come",
        )),
        Retain::For(retain) => Ok(now_us.saturating_add(micros(retain))),
    }
}
