//! The store: the only place that knows both the rules of a claim and the backend that makes them atomic.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::answer::Claim;
#[cfg(doc)]
use crate::answer::InDoubt;
use crate::backend::{Cursor, Durability, wait};
use crate::builder::StoreBuilder;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::Result;
use crate::info::Info;
use crate::lifecycle::{Answer, Verb};
use crate::nonce;
use crate::request::{Identity, Request};
use crate::stats::Stats;
use crate::value::{Failure, Value};

/// A store of what was executed. Cloning gives the same store; it is closed when the last clone is dropped.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Engine>);

/// How somebody who knows ends a doubt.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// The operation took effect, with this result.
    Value(Value),
    /// It took effect, and its result is not known.
    Executed,
    /// It ended with this error.
    Failure(Failure),
    /// It took no effect and may run again, once more if its attempts were used up.
    Rerun,
}

/// What a resolution came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The doubt is ended.
    Resolved,
    /// There was no doubt: somebody ended it before, or the operation runs. Nothing was changed.
    NotInDoubt,
    /// There is no such record.
    Absent,
}

/// What forgetting came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// The key is absent now: the operation would run again.
    Forgotten,
    /// There was no record.
    Absent,
    /// The operation runs under a live lease. Nothing was changed.
    Busy,
}

/// What a verification has read, and what is wrong.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Blocks of the log.
    pub blocks: u64,
    /// Entries in them.
    pub entries: u64,
    /// Entries that are the newest of their key.
    pub live: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What is wrong; empty when all is well.
    pub problems: Vec<String>,
}

/// What a backup or a restore has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Blocks of the log.
    pub blocks: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Store {
    /// Opens the store at a place, made if there is none: a directory, `sled:PATH`, or `memory:`. A directory that another
    /// process holds is used through that process, and held by this one when that one ends: see [`Shared`](crate::Shared).
    ///
    /// # Errors
    /// As [`StoreBuilder::open`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("data");
    /// let store = semel::Store::open(path.to_str().unwrap())?;
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn open(place: impl AsRef<str>) -> Result<Self> {
        Self::builder(place).open()
    }

    /// Opens a store with options.
    pub fn builder(place: impl AsRef<str>) -> StoreBuilder {
        StoreBuilder::new(place.as_ref())
    }

    pub(crate) fn of(engine: Engine) -> Self {
        Self(Arc::new(engine))
    }

    /// Claims an operation: may I run it, or has it been done?
    ///
    /// # Errors
    /// `InvalidInput` before anything is touched; store errors, which never mean that the operation may run.
    ///
    /// ```
    /// use semel::{Claim, Request, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let request = Request::new("order.create", "ORDER_1").payload(&100)?;
    /// match store.claim(&request)? {
    ///     Claim::Execute(ticket) => ticket.complete("created")?,
    ///     other => panic!("{}", other.name()),
    /// }
    /// let Claim::Replay(replay) = store.claim(&request)? else { panic!() };
    /// assert_eq!(replay.decode::<String>()?, "created");
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn claim(&self, request: &Request<'_>) -> Result<Claim> {
        self.0.claim_here(request)
    }

    /// [`claim`](Store::claim) for callers that await; any runtime will do. Dropping the future before it is ready takes
    /// the claim back. A claim made this way does not know its task, so that one made again by the same task waits.
    pub async fn claim_async(&self, request: &Request<'_>) -> Result<Claim> {
        self.0.claim(request, Caller::Unknown).await
    }

    /// What is known of an operation; `None` when it is absent or forgotten.
    ///
    /// # Errors
    /// `InvalidInput`, and store errors, which never mean that it is absent.
    pub fn lookup(&self, identity: &Identity<'_>) -> Result<Option<Info>> {
        let key = identity.key()?;
        let seen = wait(self.0.backend().load(&[&key]))?;
        Ok(seen.first().and_then(|seen| {
            Info::of(
                key.as_bytes(),
                seen.content.as_ref()?,
                seen.now_us,
                seen.holder_gone,
            )
        }))
    }

    /// Drops what is known of an operation, so that it may run again.
    ///
    /// # Errors
    /// `InvalidInput`, and store errors.
    pub fn forget(&self, identity: &Identity<'_>) -> Result<Forgotten> {
        let key = identity.key()?;
        let seen = wait(self.0.backend().load(&[&key]))?;
        let Some(record) = seen.first().and_then(|seen| seen.record()) else {
            return Ok(Forgotten::Absent);
        };
        // What is forgotten is what was seen, and nothing that came after it, however often this is sent.
        let verb = Verb::Forget {
            fence: record.fence,
        };
        let expired = seen
            .first()
            .is_some_and(|seen| record.forgotten(seen.now_us));
        match wait(self.0.tell(&key, nonce::fresh(), verb, Durability::Sync))? {
            Answer::Busy { .. } => Ok(Forgotten::Busy),
            _ if expired => Ok(Forgotten::Absent),
            _ => Ok(Forgotten::Forgotten),
        }
    }

    /// Ends a doubt: says what came of an operation whose effect is unknown. It is the doubt that stands now; to end the
    /// one that somebody has looked into, and no later one, use [`resolve_attempt`](Store::resolve_attempt).
    ///
    /// # Errors
    /// `InvalidInput`, also for a result that is longer than the store keeps; store errors.
    ///
    /// ```
    /// use semel::{Claim, Request, Resolution, Store, Value};
    ///
    /// let store = Store::open("memory:")?;
    /// let request = Request::new("order.create", "ORDER_1");
    /// drop(store.claim(&request)?); // nobody says how it ended
    /// assert_eq!(store.claim(&request)?.name(), "in_doubt");
    /// store.resolve(&(&request).into(), Resolution::Value(Value::of("created")?))?;
    /// assert_eq!(store.claim(&request)?.name(), "replay");
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn resolve(&self, identity: &Identity<'_>, resolution: Resolution) -> Result<Resolved> {
        self.0.resolve_at(&identity.key()?, resolution)
    }

    /// [`resolve`](Store::resolve), if the doubt is still about the attempt of this fence: [`InDoubt`] and [`Info`] tell
    /// it.
    ///
    /// # Errors
    /// As [`resolve`](Store::resolve).
    pub fn resolve_attempt(
        &self,
        identity: &Identity<'_>,
        fence: u64,
        resolution: Resolution,
    ) -> Result<Resolved> {
        self.0.resolve(&identity.key()?, fence, resolution)
    }

    /// Operations that somebody must resolve, longest in doubt first; at most `limit`, and of the 100,000 that wait longest.
    ///
    /// # Errors
    /// Store errors.
    pub fn unresolved(&self, limit: usize) -> Result<Vec<Info>> {
        let mut found = self.0.unresolved()?;
        found.truncate(limit);
        Ok(found)
    }

    /// All records, in no order that means anything. What changes meanwhile is met in one of its states, or not at all.
    pub fn list(&self) -> Listing {
        Listing {
            engine: Arc::clone(&self.0),
            next: Some(Cursor {
                shard: 0,
                hash: None,
            }),
            met: Vec::new().into_iter(),
        }
    }

    /// Frees what is forgotten, as is done in the background; how many records.
    ///
    /// # Errors
    /// Store errors, among them those of the archive.
    pub fn sweep(&self) -> Result<u64> {
        self.0.backend().sweep()
    }

    /// What was counted since the store was opened, and how it stands.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// [`stats`](Store::stats) as Prometheus text.
    pub fn metrics(&self) -> String {
        crate::metrics::text(&self.0.stats())
    }

    /// Reads everything that is stored, to know that it can be read.
    ///
    /// # Errors
    /// Store errors that keep it from reading at all; what is wrong with what was read is in the answer.
    pub fn verify(&self) -> Result<Verified> {
        let found = self.0.hub().verify()?;
        Ok(Verified {
            blocks: found.blocks,
            entries: found.entries,
            live: found.live,
            bytes: found.bytes,
            problems: found.problems,
        })
    }

    /// Copies all that is on disk into a new file, while the store goes on working. See [`restore`].
    ///
    /// # Errors
    /// Store errors, and those of the file.
    pub fn backup(&self, file: impl AsRef<Path>) -> Result<Copied> {
        let facts = self.0.hub().backup(file.as_ref())?;
        Ok(Copied {
            blocks: facts.blocks,
            bytes: facts.bytes,
        })
    }

    /// Waits until everything that was written before is on disk, whatever its durability.
    ///
    /// # Errors
    /// Store errors.
    pub fn sync(&self) -> Result<()> {
        wait(self.0.backend().barrier())
    }

    /// Takes no more calls, writes what is queued, and lets go of the store. Who waits for a key is told that it is closed;
    /// tickets that still run are left to their leases, and their holders are told that they are lost. Closing twice is no
    /// error.
    ///
    /// # Errors
    /// Store errors: what was relaxed and not yet written may be lost.
    pub fn close(&self) -> Result<()> {
        self.0.check_here()?;
        let closed = self.0.hub().leave();
        self.0.watchdog().dismiss();
        closed
    }

    /// Whether this process holds the store. If not, another one does, and answers the calls of this one.
    pub fn is_owner(&self) -> bool {
        !self.0.is_remote()
    }

    /// How many other processes use the store now.
    pub fn other_processes(&self) -> usize {
        match self.0.is_foreign() {
            true => 0,
            false => self.0.hub().others(),
        }
    }

    /// How many records are stored.
    pub fn len(&self) -> u64 {
        match self.0.is_foreign() {
            true => 0,
            false => self.0.hub().accounts().facts.entries,
        }
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("place", &self.0.place())
            .finish_non_exhaustive()
    }
}

/// Makes a store in a new directory from a backup. Operations that finished after the backup are unknown to it and would
/// run again; its fences start above now.
///
/// # Errors
/// `InvalidInput` when the directory is a store or holds other files; `Corrupt` when the backup is damaged.
pub fn restore(file: impl AsRef<Path>, into: impl AsRef<Path>) -> Result<Copied> {
    let facts = crate::backend::local::restore(file.as_ref(), into.as_ref())?;
    Ok(Copied {
        blocks: facts.blocks,
        bytes: facts.bytes,
    })
}

/// Whether there is a store in this directory.
pub fn is_store(directory: impl AsRef<Path>) -> bool {
    crate::backend::local::is_store(directory.as_ref())
}

/// All records of a store, read piece by piece.
pub struct Listing {
    engine: Arc<Engine>,
    next: Option<Cursor>,
    met: std::vec::IntoIter<Info>,
}

impl Iterator for Listing {
    type Item = Result<Info>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(info) = self.met.next() {
                return Some(Ok(info));
            }
            let from = self.next.take()?;
            match self.engine.backend().scan(from) {
                Ok((met, next)) => {
                    self.next = next;
                    let now_us = self.engine.now_us();
                    let infos: Vec<Info> = met
                        .iter()
                        .filter_map(|(key, content)| self.engine.info(key, content, now_us))
                        .collect();
                    self.met = infos.into_iter();
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
