//! Snowflake ids: 41 bits of milliseconds, 10 bits of worker, 12 bits of sequence, in rising order per process.
//!
//! A worker number is leased by time itself: the store keeps, per worker, the time up to which its ids may be given out. Who
//! takes the number over begins after it. So two processes never give out the same id, whatever their clocks say.
//!
//! When the clock goes back, ids go on from the highest time seen, which is the store's time: it never falls, also not from
//! one opening to the next. When ids are made faster than there is time for them (4096 in a millisecond), they run ahead of
//! the clock by up to a second, and from there on each 4096 wait a millisecond. Neither wait is longer than that.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Durability;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::Ids;
use crate::key::{Key, Namespace};
use crate::nonce;
use crate::reserve::Worker;
use crate::store::Store;
use crate::time::NEVER_US;

/// Milliseconds from the Unix epoch to 2024-01-01, when the ids' time begins.
pub const SNOWFLAKE_EPOCH_MS: u64 = 1_704_067_200_000;
/// How many workers there are.
pub const WORKERS: u64 = 1 << WORKER_BITS;
const TIME_BITS: u32 = 41;
const WORKER_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
/// For how long a worker's ids are reserved at a time.
const WINDOW_MS: u64 = 10_000;
/// How far ids may run ahead of the clock before they wait for it.
const AHEAD_MS: u64 = 1_000;

#[derive(Serialize, Deserialize)]
struct Reserved {
    owner: u64,
    until_ms: u64,
}

impl Ids<'_> {
    /// A number of 63 bits that no other process of this store gives out, higher than all this process gave out before.
    ///
    /// # Errors
    /// Store errors; `Unavailable` when all workers are taken.
    pub fn snowflake(&self) -> Result<i64> {
        let engine = self.engine();
        // A forked child has a copy of what its parent gives out.
        engine.check_here()?;
        let mut memory = engine.reserve().worker.lock();
        let now_ms = (engine.now_us() / 1000).max(SNOWFLAKE_EPOCH_MS);
        let mut worker = match memory.take() {
            Some(worker) => worker,
            None => lease(self.store, now_ms)?,
        };
        if now_ms > worker.ms {
            (worker.ms, worker.sequence) = (now_ms, 0);
        }
        if worker.ms >= worker.until_ms {
            worker = extend(self.store, worker, now_ms)?;
        }
        if worker.ms > now_ms + AHEAD_MS {
            // Ids are asked for faster than there is time for them; the wait is as long as one millisecond of ids.
            std::thread::sleep(Duration::from_millis(1));
        }
        let since_epoch_ms = worker.ms - SNOWFLAKE_EPOCH_MS;
        if since_epoch_ms >> TIME_BITS != 0 {
            return Err(Error::invalid(
                "the clock is beyond the year 2093, where snowflake ids end",
            ));
        }
        let id = (since_epoch_ms << (WORKER_BITS + SEQUENCE_BITS))
            | (worker.number << SEQUENCE_BITS)
            | worker.sequence;
        worker.sequence += 1;
        if worker.sequence == 1 << SEQUENCE_BITS {
            (worker.ms, worker.sequence) = (worker.ms + 1, 0);
        }
        *memory = Some(worker);
        Ok(id as i64)
    }
}

/// Takes a worker number whose reserved time is over.
fn lease(store: &Store, now_ms: u64) -> Result<Worker> {
    let owner = nonce::fresh();
    let first = owner % WORKERS;
    for number in (first..WORKERS).chain(0..first) {
        if let Some(worker) = take(store, number, owner, now_ms)? {
            return Ok(worker);
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("all {WORKERS} snowflake workers are taken; use segments, or fewer processes"),
    ))
}

fn take(store: &Store, number: u64, owner: u64, now_ms: u64) -> Result<Option<Worker>> {
    reserve(store, number, |reserved| match reserved {
        Some(reserved) if reserved.until_ms > now_ms && reserved.owner != owner => None,
        reserved => {
            let ms = now_ms.max(reserved.map_or(0, |reserved| reserved.until_ms));
            Some(Worker {
                number,
                owner,
                ms,
                sequence: 0,
                until_ms: ms + WINDOW_MS,
            })
        }
    })
}

/// Reserves more time for a worker; another worker when somebody has taken the number over.
fn extend(store: &Store, worker: Worker, now_ms: u64) -> Result<Worker> {
    let (number, owner, ms, sequence) = (worker.number, worker.owner, worker.ms, worker.sequence);
    let extended = reserve(store, number, |reserved| match reserved {
        Some(reserved) if reserved.owner == owner => Some(Worker {
            number,
            owner,
            ms,
            sequence,
            until_ms: ms + WINDOW_MS,
        }),
        _ => None,
    })?;
    match extended {
        Some(worker) => Ok(worker),
        None => lease(store, now_ms.max(ms)),
    }
}

/// Reads and writes a worker's reservation in one step, on disk before it is used.
fn reserve(
    store: &Store,
    number: u64,
    decide: impl Fn(Option<Reserved>) -> Option<Worker>,
) -> Result<Option<Worker>> {
    let key = Key::row(
        Namespace::Worker,
        ("worker", "snowflake"),
        ("number", &number.to_string()),
    )?;
    store.transact().durability(Durability::Sync).run(|tx| {
        let worker = decide(tx.get::<Reserved>(&key)?);
        if let Some(Worker {
            owner, until_ms, ..
        }) = worker
        {
            tx.set(&key, &Reserved { owner, until_ms }, NEVER_US)?;
        }
        Ok(worker)
    })
}
