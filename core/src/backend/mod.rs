//! What makes a decision atomic. A backend runs [`decide`](crate::lifecycle::decide) and never judges by itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::codec::{Content, KeyHash, Row};
use crate::error::Result;
use crate::key::Key;
use crate::lifecycle::{Answer, Event, Told};
use crate::record::Record;

#[cfg(not(unix))]
pub(crate) mod alone;
#[cfg(unix)]
pub(crate) mod attached;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod local;
mod op;
mod turn;

pub(crate) use op::{Op, wait, wait_unless};
#[cfg(unix)]
pub(crate) use op::{is_nobody, is_parked};
pub(crate) use turn::Turn;

/// When a call returns: the promise a store or an operation makes about its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Durability {
    /// After the change is on disk: power may fail at any moment.
    #[default]
    Sync,
    /// At once; a crash loses at most the last 50 ms plus the sync in progress. A first execution under
    /// [`Policy::Hold`](crate::Policy::Hold) or [`Policy::Ask`](crate::Policy::Ask) is on disk all the same before it
    /// begins.
    Relaxed,
}

/// What an event came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Decided {
    pub(crate) answer: Answer,
    /// The record as it stands after the event; `None` when the key is absent.
    pub(crate) record: Option<Arc<Record>>,
}

/// What a key holds, or `None`; the version of an absent key is 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) content: Option<Content>,
    /// When it was read, in the backend's time.
    pub(crate) now_us: u64,
    /// Whether the process that holds the record is known to be dead.
    pub(crate) holder_gone: bool,
}

impl Seen {
    pub(crate) fn version(&self) -> u64 {
        self.content.as_ref().map_or(0, Content::version)
    }

    pub(crate) fn record(&self) -> Option<&Arc<Record>> {
        match &self.content {
            Some(Content::Record(record)) => Some(record),
            _ => None,
        }
    }

    pub(crate) fn row(&self) -> Option<&Arc<Row>> {
        match &self.content {
            Some(Content::Row(row)) => Some(row),
            _ => None,
        }
    }
}

/// A row whose order is this or above gets, with its commit, a place behind all others of its space; among those of one
/// commit the lower comes first.
pub(crate) const LAST_PLACE: u64 = 1 << 63;

/// What becomes of one key in a commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Write {
    /// The record, with its version still to be given.
    Record(Record),
    /// The row, with its version still to be given.
    Row(Row),
    /// The key is absent from then on.
    Remove,
}

/// A key of a commit: the version that was read, and what is written, if anything.
#[derive(Clone, Debug)]
pub(crate) struct Touched<'a> {
    pub(crate) key: &'a Key,
    pub(crate) version: u64,
    pub(crate) write: Option<Write>,
}

/// Many keys, all or nothing.
pub(crate) struct Commit<'a> {
    pub(crate) keys: Vec<Touched<'a>>,
    /// Kept with all that is written: the same commit again answers as the first time.
    pub(crate) nonce: u64,
    pub(crate) durability: Durability,
    /// Whether the commit starts something new, and is refused first when the store is full.
    pub(crate) admission: Admission,
}

/// How a change is treated when the store is short of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Admission {
    /// New work: it waits, then is refused.
    Claim,
    /// The end of work that has begun: it still passes.
    Finish,
}

/// What a commit came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Committed {
    /// All writes were made; the records and rows as they stand.
    Written(Vec<Content>),
    /// A key, by its place in the reads, had another version than the one that was read; nothing was written.
    Conflict(usize),
}

/// Bounds and particulars of a backend.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// Live records and rows.
    pub(crate) entries: u64,
    pub(crate) swept: u64,
    /// Changes waiting for the disk, in bytes.
    pub(crate) queued_bytes: usize,
    pub(crate) log_bytes: u64,
    pub(crate) live_bytes: u64,
    /// Reads of the log that a call had to wait for.
    pub(crate) cold_reads: u64,
    /// Batches written, each with one sync.
    pub(crate) commits: u64,
}

/// A place in a scan: after this key in the scan's own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    pub(crate) shard: usize,
    pub(crate) hash: Option<KeyHash>,
}

/// One entry met by a scan: its encoded key and content.
pub(crate) type Scanned = (Box<[u8]>, Content);

/// Atomicity, durability and waiting, for keys that mean nothing to it.
pub(crate) trait Backend: Send + Sync {
    /// One key, atomically. A claim that was promoted brings its turn.
    fn update<'a>(
        &'a self,
        key: &'a Key,
        event: &'a Event,
        turn: Option<Turn>,
        durability: Durability,
    ) -> Op<'a, Result<Decided>>;
    /// The record of a key, if it is in memory, as durable as was promised, and to be had without waiting for anybody.
    /// `None` says nothing of the key.
    fn glance(&self, key: &Key) -> Option<Told>;
    /// Many keys, all or nothing.
    fn commit<'a>(&'a self, commit: &'a Commit<'a>) -> Op<'a, Result<Committed>>;
    /// Takes a claim back that nobody will run, and with it the row that its commit has noted it in, without waiting for
    /// anything. If it cannot be said, the lease ends the claim.
    fn withdraw(&self, key: &Key, withdrawal: &Event, noted: Option<&Key>);
    /// What the keys hold, no earlier than it is as durable as was promised.
    fn load<'a>(&'a self, keys: &'a [&'a Key]) -> Op<'a, Result<Vec<Seen>>>;
    /// Waits until the key has another version than `seen`, it is the caller's turn, or `until_us` has come.
    fn changed<'a>(&'a self, key: &'a Key, seen: u64, until_us: u64) -> Op<'a, Result<Turn>>;
    /// Some of what is stored, from a cursor on, in no order that means anything; `None` ends it.
    fn scan(&self, from: Cursor) -> Result<(Vec<Scanned>, Option<Cursor>)>;
    /// Records whose attempt has not ended, by the time from which they are to be watched, earliest first.
    fn open_records(&self, until_us: u64, limit: usize) -> Result<Vec<Scanned>>;
    /// Rows of a space that are kept in order and are on disk, the first of them.
    fn ordered(&self, space: &str, limit: usize) -> Result<Vec<Scanned>>;
    /// A new stamp: higher than all before, and a time when the clock allows it.
    fn stamp(&self) -> Result<u64>;
    /// Frees what is forgotten; how many.
    fn sweep(&self) -> Result<u64>;
    /// Waits until all that was written before is on disk.
    fn barrier<'a>(&'a self) -> Op<'a, Result<()>>;
    /// Takes no more claims, writes what is queued, and lets go of the store.
    fn close(&self) -> Result<()>;
    fn facts(&self) -> Facts;
}
