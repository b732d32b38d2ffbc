//! The schemes: every answer of the contract, on a store in memory and on one in a directory.

mod batch;
mod cycles;
mod ids;
mod inbox;
mod killed;
mod ledger;
mod lock;
mod lock_races;
mod machine;
mod model;
mod outbox;
mod rows;
mod rows_lost;
mod table;
mod tick;
mod token;
mod transaction;
mod unique;

use std::time::Duration;

use semel::{Clock, ErrorKind, Result, Store, StoreBuilder};
use tempfile::TempDir;

/// When the clocks of these tests begin: a day's beginning in UTC, in seconds since the Unix epoch.
pub(crate) const START_S: u64 = 20_000 * 86_400;

/// Where a store is, and the clock it goes by.
pub(crate) struct Place {
    dir: Option<TempDir>,
    pub(crate) clock: Clock,
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self {
            dir: None,
            clock: Clock::manual(Duration::from_secs(START_S)),
        }
    }

    pub(crate) fn directory() -> Self {
        Self {
            dir: Some(tempfile::tempdir().expect("a temporary directory")),
            ..Self::memory()
        }
    }

    pub(crate) fn url(&self) -> String {
        match &self.dir {
            None => "memory:".to_owned(),
            Some(dir) => dir.path().join("store").to_str().expect("UTF-8").to_owned(),
        }
    }

    pub(crate) fn builder(&self) -> StoreBuilder {
        Store::builder(self.url()).clock(self.clock.clone())
    }

    /// A store that goes by the place's clock.
    pub(crate) fn open(&self) -> Store {
        self.builder().open().expect("opens")
    }

    /// A store that goes by the machine's clock.
    pub(crate) fn open_live(&self) -> Store {
        Store::open(self.url()).expect("opens")
    }
}

/// Plays a test on both places.
pub(crate) fn on_each(test: impl Fn(&Place)) {
    test(&Place::memory());
    test(&Place::directory());
}

/// Runs `work` on so many threads, and gives what each came to.
pub(crate) fn threads<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..count)
            .map(|at| {
                let (work, start) = (&work, &start);
                scope.spawn(move || {
                    start.wait();
                    work(at)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

/// How many records and rows there are, once what was removed is off the disk, too.
pub(crate) fn stored(store: &Store) -> u64 {
    store.sync().expect("on disk");
    store.len()
}

/// The kind of an error, for a table.
pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("an error").kind()
}

/// A second, in the durations of these tests.
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// The smallest step of a store's time.
pub(crate) const TICK: Duration = Duration::from_micros(1);
