//! How a store is opened: its place and its options.

use std::path::PathBuf;
use std::time::Duration;

use crate::backend::Durability;
#[cfg(not(unix))]
use crate::backend::alone::{Hub, OWNER_SILENCE};
#[cfg(unix)]
use crate::backend::attached::{Hub, OWNER_SILENCE};
use crate::backend::local::{Options, Terms, Tuning, settled};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::record::Policy;
use crate::store::Store;
use crate::time::Clock;

/// Whether other processes may use a store that this one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Shared {
    /// They may, where the platform has Unix sockets: whoever opens the store first holds it, and the others send it
    /// their calls over a socket in the store's directory. When it ends, one of them holds the store.
    #[default]
    Auto,
    /// They may not: they get `StoreLocked`, and a process that is forked from this one gets `ForkedProcess`.
    Never,
    /// This process uses a store that another holds, and never holds it itself.
    Only,
}

/// The longest result that any store keeps, in bytes.
const LARGEST_RESULT_BYTES: usize = 4 << 20;
/// The least memory that a store works with, in bytes.
const LEAST_CACHE_BYTES: usize = 1 << 20;

/// Opens a [`Store`] with options.
///
/// ```
/// use semel::{Durability, Policy, Store};
///
/// let store = Store::builder("memory:").in_doubt(Policy::Rerun).durability(Durability::Relaxed).open()?;
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoreBuilder {
    url: String,
    durability: Durability,
    in_doubt: Policy,
    shared: Shared,
    clock: Clock,
    options: Options,
    owner_silence: Duration,
}

enum Place {
    Memory,
    Directory(PathBuf),
}

impl Place {
    /// What a command in another directory can call it.
    fn name(&self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Directory(path) => std::path::absolute(path)
                .unwrap_or_else(|_| path.clone())
                .display()
                .to_string(),
        }
    }
}

impl StoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            durability: Durability::Sync,
            in_doubt: Policy::Hold,
            shared: Shared::Auto,
            clock: Clock::system(),
            owner_silence: OWNER_SILENCE,
            options: Options {
                commit_interval: Duration::from_millis(5),
                cache_bytes: 64 << 20,
                max_records: u64::MAX,
                max_result_bytes: 1 << 20,
                sweep_interval: Some(Duration::from_secs(1)),
                archive: None,
                accept_rollback: false,
                accept_clock: false,
                lock_timeout: None,
                tuning: Tuning::default(),
            },
        }
    }

    /// When calls return, unless an operation says otherwise: [`Durability::Sync`] by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What happens after an attempt with unknown effect, unless an operation says otherwise: [`Policy::Hold`] by default.
    pub fn in_doubt(mut self, policy: Policy) -> Self {
        self.in_doubt = policy;
        self
    }

    /// Whether other processes may use the store: [`Shared::Auto`] by default.
    pub fn shared(mut self, shared: Shared) -> Self {
        self.shared = shared;
        self
    }

    /// How long relaxed changes gather before they are written: 5 ms by default, at most 50 ms.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.options.commit_interval = interval;
        self
    }

    /// Memory for what is read and written often, in bytes: 64 MiB by default, at least 1 MiB. The index is not in it.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.options.cache_bytes = bytes;
        self
    }

    /// How many records may be stored, 60 to 90 bytes of memory each: without end by default. Beyond it new claims are
    /// refused as `Unavailable`.
    pub fn max_records(mut self, records: u64) -> Self {
        self.options.max_records = records;
        self
    }

    /// The longest result that is kept, in bytes: 1 MiB by default, at most 4 MiB. A longer one is recorded as executed
    /// without a result.
    pub fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.options.max_result_bytes = bytes;
        self
    }

    /// How often what is forgotten is swept in the background: every second by default.
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.options.sweep_interval = Some(interval);
        self
    }

    /// Sweeps on [`Store::sweep`] alone.
    pub fn sweep_by_hand(mut self) -> Self {
        self.options.sweep_interval = None;
        self
    }

    /// A file to which every record is appended as a line of JSON before it is swept.
    pub fn archive(mut self, file: impl Into<PathBuf>) -> Self {
        self.options.archive = Some(file.into());
        self
    }

    /// Opens a store whose log is shorter than it was: what is missing will run again.
    pub fn accept_rollback(mut self) -> Self {
        self.options.accept_rollback = true;
        self
    }

    /// Opens a store although the wall clock is more than 366 days past the last time it was written.
    pub fn accept_clock(mut self) -> Self {
        self.options.accept_clock = true;
        self
    }

    /// Where time is read; for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How long to wait for another process that holds the store. By default a moment, or 10 s for one that is closing.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.options.lock_timeout = Some(timeout);
        self
    }

    /// How long the process that holds the store may say nothing before a call of this one is given up: 5 s; for tests.
    #[doc(hidden)]
    pub fn owner_silence(mut self, silence: Duration) -> Self {
        self.owner_silence = silence;
        self
    }

    /// How long the disk may take over one batch before the store gives it up: 60 s; for tests.
    #[doc(hidden)]
    pub fn disk_timeout(mut self, timeout: Duration) -> Self {
        self.options.tuning.batch_timeout_us = crate::time::micros(timeout);
        self
    }

    /// Opens the store, made if there is none.
    ///
    /// # Errors
    /// `InvalidInput` for options or a place that cannot be used; `StoreLocked` when another process holds it and one of the
    /// two does not share; `Corrupt` when what is on disk is not what was written; `Unavailable` when the disk, the clock or
    /// the process that holds the store does not serve.
    pub fn open(self) -> Result<Store> {
        let place = self.place()?;
        self.check()?;
        let named = place.name();
        let max_result_bytes = self.options.max_result_bytes;
        let (hub, terms) = match place {
            Place::Memory => (Hub::in_memory(self.options, self.clock)?, None),
            Place::Directory(path) => {
                let terms = Terms {
                    place: settled(&path),
                    options: self.options,
                    clock: self.clock,
                    may_own: self.shared != Shared::Only,
                    silence: self.owner_silence,
                };
                match self.shared {
                    Shared::Never => (Hub::alone(&terms)?, None),
                    _ => (Hub::shared(terms.clone())?, Some(terms)),
                }
            }
        };
        Ok(Store::of(Engine::new(
            hub,
            terms,
            self.durability,
            self.in_doubt,
            named,
            max_result_bytes,
        )))
    }

    fn place(&self) -> Result<Place> {
        let url = self.url.as_str();
        if url.trim().is_empty() {
            return Err(Error::invalid(
                "the store's place is blank; name a directory, or memory: for one that keeps nothing",
            ));
        }
        if url.contains('\0') {
            return Err(Error::invalid(
                "the store's place has a NUL character; name a directory",
            ));
        }
        if let Some(rest) = url.strip_prefix("memory:") {
            return match rest {
                "" => Ok(Place::Memory),
                _ => Err(Error::invalid(format!(
                    "memory: takes nothing behind it, but there is {rest:?}; a store in memory has no name"
                ))),
            };
        }
        if let Some(path) = url.strip_prefix("sled:") {
            return match path {
                "" => Err(Error::invalid("sled: lacks the directory; write sled:PATH")),
                path => Ok(Place::Directory(path.into())),
            };
        }
        match scheme(url) {
            Some("redis" | "rediss" | "redis+sentinel" | "redis+cluster") => Err(Error::new(
                ErrorKind::Unsupported,
                "this build of semel has no Redis backend; use a directory",
            )),
            Some(unknown) => Err(Error::invalid(format!(
                "the scheme {unknown}: is unknown; use a directory, sled:PATH or memory:"
            ))),
            None => Ok(Place::Directory(url.into())),
        }
    }

    fn check(&self) -> Result<()> {
        let options = &self.options;
        if self.shared == Shared::Only && !cfg!(unix) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "on this system no process can use a store that another one holds; open it with shared = auto",
            ));
        }
        if options.commit_interval > Duration::from_millis(50) {
            return Err(Error::invalid(
                "commit_interval is above 50 ms, which is all that a crash may lose of relaxed work",
            ));
        }
        if options.cache_bytes < LEAST_CACHE_BYTES {
            return Err(Error::invalid(format!(
                "cache_bytes is {}; a store needs at least {LEAST_CACHE_BYTES}",
                options.cache_bytes
            )));
        }
        if options.max_records == 0 {
            return Err(Error::invalid(
                "max_records is zero; the store could keep nothing",
            ));
        }
        if options.max_result_bytes > LARGEST_RESULT_BYTES {
            return Err(Error::invalid(format!(
                "max_result_bytes is {}; at most {LARGEST_RESULT_BYTES} are allowed: keep a reference to what is larger",
                options.max_result_bytes
            )));
        }
        match options.sweep_interval {
            Some(Duration::ZERO) => Err(Error::invalid(
                "sweep_interval is zero; use sweep_by_hand to sweep on call alone",
            )),
            _ => Ok(()),
        }
    }
}

/// The scheme of a URL: letters, digits, `+`, `-` and `.` before a colon. One letter is a drive, and `./a:b` a path.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    let named = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    named.then_some(scheme)
}
