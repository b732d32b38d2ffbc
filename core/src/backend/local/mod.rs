//! The embedded backend: the live index in memory, decisions under a cell's lock, and a log of packed blocks on disk.
//!
//! `memory:` is the same without the log.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use siphasher::sip128::SipHasher13;

use self::durable::Durable;
use self::expiry::ExpiryIndex;
use self::index::Index;
use self::log::Log;
use self::queue::Queue;
use self::stamps::Stamps;
use self::watchlist::Watchlist;
use crate::codec::KeyHash;
use crate::error::{Error, Result};
use crate::fork::Origin;
use crate::histogram::Recorder;
use crate::time::StoreClock;
use crate::timer::Timers;

mod accounts;
mod arrival;
mod backup;
mod batch;
mod cell;
mod cleaner;
mod commits;
mod committer;
mod company;
mod directory;
#[cfg(feature = "sled")]
mod disk;
#[cfg(not(feature = "sled"))]
#[path = "no_disk.rs"]
mod disk;
mod durable;
mod expiry;
mod files;
mod index;
mod line;
mod lines;
mod loc;
mod log;
mod memory;
mod opening;
mod ordered;
mod parcels;
mod promises;
mod queue;
mod reading;
mod scan;
mod slot;
mod stamps;
mod start;
mod sweep;
#[cfg(feature = "sled")]
mod synced;
#[cfg(all(test, feature = "sled"))]
mod tests;
mod updates;
mod upkeep;
mod verify;
mod waits;
mod watchlist;
mod watermark;

pub(crate) use accounts::Accounts;
pub(crate) use backup::{BackupFacts, restore};
#[cfg(unix)]
pub(crate) use company::Company;
pub(crate) use company::{Tenancy, Terms};
pub(crate) use directory::is_store;
#[cfg(unix)]
pub(crate) use directory::{
    ANY_HOLDER, CLOSING_HOLDER, Doing, SESSIONS, SOCKET, SOCKET_DRAFT, doing,
};
pub(crate) use files::settled;
pub(crate) use verify::Verification;

/// How a local store is opened.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) commit_interval: Duration,
    pub(crate) cache_bytes: usize,
    pub(crate) max_records: u64,
    pub(crate) max_result_bytes: usize,
    /// `None`: swept on call alone.
    pub(crate) sweep_interval: Option<Duration>,
    pub(crate) archive: Option<PathBuf>,
    pub(crate) accept_rollback: bool,
    pub(crate) accept_clock: bool,
    /// How long an opening waits for another holder; `None`: as long as it says that it is closing.
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) tuning: Tuning,
}

/// Bounds that only a test makes other than they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The log is left alone below this, whatever is dead in it.
    pub(crate) slack_bytes: u64,
    /// How long a batch may take before the store gives the disk up.
    pub(crate) batch_timeout_us: u64,
}

impl Tuning {
    fn disk_timeout(&self) -> Duration {
        Duration::from_micros(self.batch_timeout_us)
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            slack_bytes: 64 << 20,
            batch_timeout_us: 60_000_000,
        }
    }
}

/// The embedded backend.
pub(crate) struct Local {
    shared: Arc<Shared>,
    origin: Origin,
    /// The threads and the directory; gone when the store is closed.
    running: Mutex<Option<Running>>,
    identity: directory::Identity,
    /// The session of the last holder, if it wrote everything before it let go; 0 is none.
    #[cfg_attr(not(unix), expect(dead_code))]
    predecessor: u64,
}

/// What lives from opening to closing.
struct Running {
    committer: Option<std::thread::JoinHandle<()>>,
    upkeep: Option<upkeep::Upkeep>,
    directory: Option<directory::Directory>,
}

/// What callers, the committer and the keepers share.
struct Shared {
    origin: Origin,
    options: Options,
    clock: StoreClock,
    /// For time-outs of the machine, which a test's clock does not move.
    alarm_clock: StoreClock,
    timers: Timers,
    alarms: Arc<Timers>,
    /// This process, as the store counts processes.
    session: u64,
    /// The other processes; none when the store is not shared.
    company: Option<Arc<dyn company::Company>>,
    hash_secret: (u64, u64),
    index: Index,
    queue: Queue,
    durable: Durable,
    stamps: Stamps,
    watchlist: Watchlist,
    ordered: ordered::OrderedRows,
    /// Blocks in which something is forgotten, by the second.
    expiry: ExpiryIndex<u64>,
    /// The same for a store without a log, by key.
    unlogged_expiry: ExpiryIndex<KeyHash>,
    log: Option<Arc<Log>>,
    next_waiter: AtomicU64,
    swept: AtomicU64,
    swept_by_operation: Mutex<std::collections::BTreeMap<String, u64>>,
    /// One sweep at a time; whether something was swept of which the log does not know yet.
    sweeping: Mutex<bool>,
    commits: AtomicU64,
    commit_times: Recorder,
    closed: std::sync::atomic::AtomicBool,
}

impl Shared {
    fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The keyed hash of a key: no caller can aim at another's slot.
    fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = SipHasher13::new_with_keys(self.hash_secret.0, self.hash_secret.1).hash(key);
        [hash.h1, hash.h2]
    }

    /// Ends all writing. The first fault stands.
    fn fail(&self, fault: Error) {
        self.durable.fail(fault);
        self.queue.call_waiting();
    }

    /// Does something with the disk, which is given up when it does not answer in time.
    fn watched<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let weak = Arc::downgrade(self);
        let due_us = crate::time::after(
            self.alarm_clock.now_us(),
            self.options.tuning.batch_timeout_us,
        );
        let alarm = self.alarms.at(due_us, move || {
            if let Some(shared) = weak.upgrade() {
                shared.hang();
            }
        });
        let done = work();
        self.alarms.call_off(alarm);
        done
    }

    /// The disk does not answer.
    fn hang(&self) {
        self.fail(Error::unavailable(format!(
            "the disk has not answered a sync for {:?}; see to it, then reopen the store: everything acknowledged as durable is there",
            self.options.tuning.disk_timeout()
        )));
        self.durable.give_up();
    }

    /// Whether the store takes calls at all.
    fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(queue::closed()),
            false => Ok(()),
        }
    }
}

impl Local {
    /// Keys the fingerprints of payloads.
    pub(crate) fn fingerprint_secret(&self) -> &[u8; 32] {
        &self.identity.fingerprint_secret
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.shared.timers
    }

    pub(crate) fn clock(&self) -> &StoreClock {
        &self.shared.clock
    }

    /// Whether the store takes no calls any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.check_open().is_err()
    }

    /// The session of the last holder, if it wrote everything before it let go; 0 is none.
    #[cfg(unix)]
    pub(crate) fn predecessor(&self) -> u64 {
        self.predecessor
    }

    pub(crate) fn session(&self) -> u64 {
        self.shared.session
    }

    /// The first of the rows that are kept in order, of each space.
    pub(crate) fn first_rows(
        &self,
        limit: usize,
    ) -> Result<Vec<(String, crate::backend::Scanned)>> {
        self.shared.first_rows(limit)
    }
}
