//! The right to run an operation once: what the caller holds between a claim and its end.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::backend::{Durability, wait};
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::fork::Origin;
use crate::key::Key;
use crate::lifecycle::{Answer, Verb};
use crate::nonce;
use crate::record::{Doubt, Record};
use crate::request::{DEFAULT_RENEW_LIMIT, OnLost, Renew, Request};
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::plain::Mutex;
use crate::time::{NEVER_US, micros};
use crate::value::{Failure, Value};
use crate::watchdog::{Entry, renewal_us};

use self::held::Ending;
pub(crate) use self::held::Stepping;

mod held;

/// The right to run an operation, until it is finished or lost. Clones are the same right.
///
/// Finish it with [`complete`](Ticket::complete), [`fail`](Ticket::fail) or [`release`](Ticket::release). When the last
/// clone is dropped unfinished, the operation is in doubt: it may have taken effect.
#[derive(Clone)]
pub struct Ticket(pub(crate) Arc<Held>);

/// What all clones of a ticket share.
pub(crate) struct Held {
    engine: Arc<Engine>,
    /// Where it was claimed: a copy that a fork has made ends nothing by being dropped.
    origin: Origin,
    key: Key,
    fence: u64,
    attempt: u32,
    first_us: u64,
    claimed_us: u64,
    takeover: bool,
    last: bool,
    twin: Option<String>,
    lease_us: u64,
    durability: Durability,
    counters: Arc<Counters>,
    /// Of the events that finish the ticket: the same verb again is the same event.
    nonce: u64,
    finished: AtomicBool,
    /// How many calls are about to finish it: what the watchdog then finds lost may be their doing.
    ending: AtomicU32,
    lost: AtomicBool,
    on_lost: Option<OnLost>,
    /// When the lease ends, as far as the holder knows.
    lease_until_us: AtomicU64,
    renew_until_us: u64,
    watched: Mutex<Option<Entry>>,
    /// Names of the steps that run.
    steps: Mutex<Vec<String>>,
}

impl Ticket {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        key: Key,
        record: &Record,
        takeover: bool,
        twin: Option<String>,
        request: &Request<'_>,
        counters: Arc<Counters>,
    ) -> Self {
        let lease_us = record.terms.lease_us;
        let limit_us = micros(request.renew_limit.unwrap_or(DEFAULT_RENEW_LIMIT));
        let held = Arc::new(Held {
            engine: Arc::clone(engine),
            origin: Origin::here(),
            key,
            fence: record.fence,
            attempt: record.attempt,
            first_us: record.first_us,
            claimed_us: record.claimed_us,
            takeover,
            last: record.exhausted(),
            twin,
            lease_us,
            durability: request.durability.unwrap_or(engine.durability()),
            counters,
            nonce: nonce::fresh(),
            finished: AtomicBool::new(false),
            ending: AtomicU32::new(0),
            lost: AtomicBool::new(false),
            on_lost: request.on_lost.clone(),
            lease_until_us: AtomicU64::new(record.claimed_us.saturating_add(lease_us)),
            renew_until_us: record.claimed_us.saturating_add(limit_us),
            watched: Mutex::new(None),
            steps: Mutex::default(),
        });
        if request.renew == Renew::On && lease_us != NEVER_US {
            let due_us = renewal_us(record.claimed_us, lease_us);
            *held.watched.lock() = Some(engine.watchdog().enter(
                engine,
                due_us,
                Arc::downgrade(&held),
            ));
        }
        Self(held)
    }

    /// Keeps the result; every repeat gets it. A result that cannot be encoded, or is larger than the store keeps, is
    /// recorded as executed without a result (repeats are answered [`Claim::Gone`](crate::Claim::Gone)).
    ///
    /// # Errors
    /// `Lost` when another holds the key now, or the ticket is finished: nothing was changed. `Unavailable` when the
    /// store cannot keep it now: the key is not freed, the lease goes on, and `complete` may be called again.
    pub fn complete<T: Serialize + ?Sized>(&self, result: &T) -> Result<()> {
        wait(self.complete_async(result))
    }

    /// Keeps a result that is encoded already.
    ///
    /// # Errors
    /// As [`complete`](Ticket::complete).
    pub fn complete_value(&self, value: Value) -> Result<()> {
        wait(self.complete_value_async(value))
    }

    /// Records that the operation was executed, without a result.
    ///
    /// # Errors
    /// As [`complete`](Ticket::complete).
    pub fn complete_without_result(&self) -> Result<()> {
        wait(self.complete_nothing_async())
    }

    /// Keeps an error as the result; every repeat gets it.
    ///
    /// # Errors
    /// As [`complete`](Ticket::complete).
    pub fn fail(&self, failure: impl Into<Failure>) -> Result<()> {
        wait(self.fail_async(failure))
    }

    /// Says that the operation took no effect and may run again.
    ///
    /// # Errors
    /// As [`complete`](Ticket::complete).
    pub fn release(&self) -> Result<()> {
        wait(self.release_async())
    }

    /// Says that nobody knows whether the operation took effect, and why.
    ///
    /// # Errors
    /// As [`complete`](Ticket::complete).
    pub fn doubt(&self, why: &str) -> Result<()> {
        wait(self.0.doubt(Doubt::Stated(why.to_owned())))
    }

    /// [`complete`](Ticket::complete) for callers that await. Dropping the future does not take the result back.
    pub async fn complete_async<T: Serialize + ?Sized>(&self, result: &T) -> Result<()> {
        match Value::of(result) {
            Ok(value) => self.complete_value_async(value).await,
            Err(error) => {
                self.0.counters.result_not_kept(error.message());
                self.complete_nothing_async().await
            }
        }
    }

    /// [`complete_value`](Ticket::complete_value) for callers that await.
    pub async fn complete_value_async(&self, value: Value) -> Result<()> {
        let held = &*self.0;
        let value = held.engine.fitting(value, &held.counters);
        let fence = held.fence;
        match held.finish(1, Verb::Complete { fence, value }).await {
            // Beside the results of the steps the record has no room for it.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                held.counters.result_not_kept(error.message());
                self.complete_nothing_async().await
            }
            finished => finished,
        }
    }

    /// [`fail`](Ticket::fail) for callers that await.
    pub async fn fail_async(&self, failure: impl Into<Failure>) -> Result<()> {
        let failure = failure.into();
        self.0
            .finish(
                2,
                Verb::Fail {
                    fence: self.0.fence,
                    failure,
                },
            )
            .await
    }

    /// [`release`](Ticket::release) for callers that await.
    pub async fn release_async(&self) -> Result<()> {
        self.0
            .finish(
                3,
                Verb::Release {
                    fence: self.0.fence,
                },
            )
            .await
    }

    /// Starts the lease anew, as the watchdog does by itself.
    ///
    /// # Errors
    /// `Lost` when another holds the key now.
    pub fn renew(&self) -> Result<()> {
        wait(self.renew_async())
    }

    /// [`renew`](Ticket::renew) for callers that await.
    pub async fn renew_async(&self) -> Result<()> {
        let held = &*self.0;
        held.check_unfinished()?;
        let verb = Verb::Renew { fence: held.fence };
        let told = held.tell(nonce::fresh(), verb).await?;
        match told.answer {
            Answer::Done { .. } => {
                let until_us = held.engine.now_us().saturating_add(held.lease_us);
                held.lease_until_us.store(until_us, Ordering::Release);
                Ok(())
            }
            _ => Err(held.not_the_holder(&told)),
        }
    }

    /// A key for another service that is the same in every attempt: 32 hexadecimal digits that tell nothing of this key.
    pub fn derive_key(&self, name: &str) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("semel derived key 1");
        hasher.update(&(self.0.key.as_bytes().len() as u64).to_le_bytes());
        hasher.update(self.0.key.as_bytes());
        hasher.update(name.as_bytes());
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// A number that is higher for every attempt of the key; hand it to services that can refuse a lower one.
    pub fn fence(&self) -> u64 {
        self.0.fence
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// When the first attempt began: microseconds since the Unix epoch.
    pub fn first_executed_us(&self) -> u64 {
        self.0.first_us
    }

    /// Whether an earlier attempt ended with unknown effect, so that this one may be the second to take it.
    pub fn is_takeover(&self) -> bool {
        self.0.takeover
    }

    /// The id under which the same request came before, when twins are looked for.
    pub fn twin(&self) -> Option<&str> {
        self.0.twin.as_deref()
    }

    /// Whether the key is known to be lost to another.
    pub fn lost(&self) -> bool {
        self.0.lost.load(Ordering::Acquire)
    }

    /// Lets go of the key; nothing of it is remembered.
    pub(crate) fn unlock(&self) -> Result<()> {
        wait(self.0.finish(
            5,
            Verb::Unlock {
                fence: self.0.fence,
            },
        ))
    }

    /// [`unlock`](Ticket::unlock) without waiting for anything; nothing happens when the ticket is finished.
    pub(crate) fn unlock_at_once(&self) {
        let verb = Verb::Unlock {
            fence: self.0.fence,
        };
        self.0.end_at_once(5, verb);
    }

    /// [`release`](Ticket::release) without waiting for anything; nothing happens when the ticket is finished.
    pub(crate) fn release_at_once(&self) {
        let verb = Verb::Release {
            fence: self.0.fence,
        };
        self.0.end_at_once(3, verb);
    }

    /// Until this is dropped the ticket is about to be finished.
    pub(crate) fn ending(&self) -> Ending<'_> {
        Ending::begun(&self.0)
    }

    /// The ticket ended with the commit of a transaction; `late`: completed after its lease.
    pub(crate) fn ended_elsewhere(&self, late: bool) {
        self.0.end();
        let held = &*self.0;
        held.counters
            .finished(held.engine.now_us().saturating_sub(held.claimed_us), late);
    }

    /// Whether no further attempt may start after this one.
    pub(crate) fn is_last(&self) -> bool {
        self.0.last
    }

    pub(crate) fn key(&self) -> &Key {
        &self.0.key
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    pub(crate) async fn complete_nothing_async(&self) -> Result<()> {
        self.0
            .finish(
                1,
                Verb::Complete {
                    fence: self.0.fence,
                    value: None,
                },
            )
            .await
    }

    /// Leaves word without waiting for anything.
    pub(crate) fn doubt_at_once(&self, doubt: Doubt) {
        let verb = Verb::Doubt {
            fence: self.0.fence,
            doubt,
        };
        self.0.end_at_once(4, verb);
    }

    pub(crate) async fn doubt_async(&self, doubt: Doubt) -> Result<()> {
        self.0.doubt(doubt).await
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.0.counters
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("fence", &self.0.fence)
            .field("attempt", &self.0.attempt)
            .finish_non_exhaustive()
    }
}
