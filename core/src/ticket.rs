//! The right to run an operation once: what the caller holds between a claim and its end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::{Durability, wait};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, check_name};
use crate::lifecycle::{Answer, Verb};
use crate::nonce;
use crate::record::{Doubt, MAX_STEPS, Record};
use crate::request::{DEFAULT_RENEW_LIMIT, OnLost, Renew, Request};
use crate::stats::Counters;
use crate::store::Engine;
use crate::time::{NEVER_US, micros};
use crate::value::{Failure, Value};
use crate::watchdog::{Entry, Renewed, renewal_us, retry_us};
use crate::work::{Classify, WorkError};

/// The longest name of a step, in bytes of UTF-8.
pub const MAX_STEP_NAME_BYTES: usize = 128;

/// The right to run an operation, until it is finished or lost. Clones are the same right.
///
/// Finish it with [`complete`](Ticket::complete), [`fail`](Ticket::fail) or [`release`](Ticket::release). When the last
/// clone is dropped unfinished, the operation is in doubt: it may have taken effect.
#[derive(Clone)]
pub struct Ticket(Arc<Held>);

/// What all clones of a ticket share.
pub(crate) struct Held {
    engine: Arc<Engine>,
    key: Key,
    fence: u64,
    attempt: u32,
    first_us: u64,
    claimed_us: u64,
    takeover: bool,
    twin: Option<String>,
    lease_us: u64,
    durability: Durability,
    counters: Arc<Counters>,
    /// Of the events that finish the ticket: the same verb again is the same event.
    nonce: u64,
    finished: AtomicBool,
    lost: AtomicBool,
    on_lost: Option<OnLost>,
    /// When the lease ends, as far as the holder knows.
    lease_until_us: AtomicU64,
    renew_until_us: u64,
    watched: Mutex<Option<Entry>>,
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
            key,
            fence: record.fence,
            attempt: record.attempt,
            first_us: record.first_us,
            claimed_us: record.claimed_us,
            takeover,
            twin,
            lease_us,
            durability: request.durability.unwrap_or(engine.durability()),
            counters,
            nonce: nonce::fresh(),
            finished: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            on_lost: request.on_lost.clone(),
            lease_until_us: AtomicU64::new(record.claimed_us.saturating_add(lease_us)),
            renew_until_us: record.claimed_us.saturating_add(limit_us),
            watched: Mutex::new(None),
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
        let value = self.0.engine.fitting(value, &self.0.counters);
        self.0
            .finish(
                1,
                Verb::Complete {
                    fence: self.0.fence,
                    value,
                },
            )
            .await
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
        let held = &*self.0;
        held.check_unfinished()?;
        match wait(held.engine.tell(
            &held.key,
            nonce::fresh(),
            Verb::Renew { fence: held.fence },
            held.durability,
        ))? {
            Answer::Done { .. } => {
                held.lease_until_us.store(
                    held.engine.now_us().saturating_add(held.lease_us),
                    Ordering::Release,
                );
                Ok(())
            }
            _ => Err(held.tell_lost("another attempt holds the key")),
        }
    }

    /// Runs a named step of the work, once: an attempt that follows skips steps that are done and gets their results.
    /// At most 64 names; a step must not be nested in itself.
    ///
    /// # Errors
    /// [`WorkError`] of the step: `retryable` and `terminal` say that it took no effect; any other error leaves the step,
    /// and under [`Policy::Hold`](crate::Policy::Hold) the operation, in doubt.
    pub fn step<T, E, F>(&self, name: &str, work: F) -> Result<T, StepError<E::Error>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce() -> Result<T, E>,
    {
        let held = &*self.0;
        if let Some(value) = wait(held.begin_step(name))? {
            return value.decode().map_err(StepError::Store);
        }
        match work() {
            Ok(result) => {
                let value = Value::of(&result).map_err(StepError::Store)?;
                wait(held.end_step(name, Some(value)))?;
                Ok(result)
            }
            Err(error) => {
                let error = error.classify();
                if !matches!(error, WorkError::Unknown(_)) {
                    wait(held.end_step(name, None))?;
                }
                Err(StepError::Work(error))
            }
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
        self.0.end_at_once(Verb::Unlock {
            fence: self.0.fence,
        });
    }

    /// The ticket ended with the commit of a transaction.
    pub(crate) fn ended_elsewhere(&self) {
        self.0.end();
        let held = &*self.0;
        held.counters
            .finished(held.engine.now_us().saturating_sub(held.claimed_us), false);
    }

    pub(crate) fn key(&self) -> &Key {
        &self.0.key
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
        self.0.end_at_once(Verb::Doubt {
            fence: self.0.fence,
            doubt,
        });
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

/// Why a step gave no result.
#[derive(Debug)]
pub enum StepError<E> {
    /// The step's own error.
    Work(WorkError<E>),
    /// The store, or the ticket: nothing is known of the step's effect if it ran.
    Store(Error),
}

impl<E> From<Error> for StepError<E> {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for StepError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl Held {
    fn check_unfinished(&self) -> Result<()> {
        match self.finished.load(Ordering::Acquire) {
            true => Err(Error::lost(
                "the ticket is finished already; nothing was changed",
            )),
            false => Ok(()),
        }
    }

    /// Ends the ticket. `verb_number` distinguishes the ways to end it, so that each can be tried again.
    async fn finish(&self, verb_number: u64, verb: Verb) -> Result<()> {
        self.check_unfinished()?;
        let completes = matches!(verb, Verb::Complete { .. });
        let nonce = self.nonce.rotate_left(8) ^ verb_number;
        match self
            .engine
            .tell(&self.key, nonce, verb, self.durability)
            .await?
        {
            Answer::Done { late } => {
                self.end();
                self.counters.finished(
                    self.engine.now_us().saturating_sub(self.claimed_us),
                    completes && late,
                );
                Ok(())
            }
            _ => {
                self.end();
                if completes {
                    // The work was done, and somebody else was let in meanwhile.
                    self.counters
                        .finished(self.engine.now_us().saturating_sub(self.claimed_us), true);
                }
                Err(self.tell_lost(
                    "another attempt, or somebody who resolved it, has ended the operation",
                ))
            }
        }
    }

    async fn doubt(&self, doubt: Doubt) -> Result<()> {
        self.finish(
            4,
            Verb::Doubt {
                fence: self.fence,
                doubt,
            },
        )
        .await
    }

    /// Ends the ticket without waiting for anything; nothing happens when it is finished.
    fn end_at_once(&self, verb: Verb) {
        if !self.engine.is_foreign() && !self.finished.swap(true, Ordering::AcqRel) {
            let _ = self
                .engine
                .tell_at_once(&self.key, nonce::fresh(), verb, self.durability);
            self.end();
        }
    }

    fn end(&self) {
        self.finished.store(true, Ordering::Release);
        if let Some(entry) = self.watched.lock().take() {
            self.engine.watchdog().leave(entry);
        }
    }

    async fn begin_step(&self, name: &str) -> Result<Option<Value>> {
        check_name("step name", name, MAX_STEP_NAME_BYTES)?;
        self.check_unfinished()?;
        let verb = Verb::BeginStep {
            fence: self.fence,
            name: name.to_owned(),
        };
        match self
            .engine
            .tell(&self.key, nonce::fresh(), verb, self.durability)
            .await?
        {
            Answer::StepDone(value) => Ok(Some(value)),
            Answer::Done { .. } => Ok(None),
            Answer::StepsFull => Err(Error::invalid(format!(
                "a ticket keeps at most {MAX_STEPS} steps; use fewer names"
            ))),
            _ => Err(self.tell_lost("another attempt holds the key")),
        }
    }

    async fn end_step(&self, name: &str, value: Option<Value>) -> Result<()> {
        if let Some(value) = &value
            && value.as_bytes().len() > self.engine.max_result_bytes()
        {
            return Err(Error::invalid(format!(
                "the result of the step is {} bytes long, and the store keeps {}: return something smaller from a step",
                value.as_bytes().len(),
                self.engine.max_result_bytes()
            )));
        }
        let verb = Verb::EndStep {
            fence: self.fence,
            name: name.to_owned(),
            value,
        };
        match self
            .engine
            .tell(&self.key, nonce::fresh(), verb, self.durability)
            .await?
        {
            Answer::Done { .. } => Ok(()),
            _ => Err(self.tell_lost("another attempt holds the key")),
        }
    }

    /// Tells the holder, once, that the key is lost; gives the error that says so.
    fn tell_lost(&self, why: &'static str) -> Error {
        if !self.lost.swap(true, Ordering::AcqRel) {
            self.counters.lost_lease();
            if let Some(on_lost) = self.on_lost.clone() {
                // The holder's callback may block: it has a thread of its own.
                let _ = std::thread::Builder::new()
                    .name("semel-lost".into())
                    .spawn(move || on_lost(why));
            }
        }
        Error::lost(format!(
            "the ticket is no longer the holder of its key: {why}; nothing was changed"
        ))
    }

    /// Renews the lease if it can be done without waiting.
    pub(crate) fn renew_by_watchdog(&self, now_us: u64) -> Renewed {
        if self.finished.load(Ordering::Acquire) {
            return Renewed::Over;
        }
        if now_us >= self.renew_until_us {
            if now_us >= self.lease_until_us.load(Ordering::Acquire) {
                let _ = self.tell_lost("it was renewed up to its limit, and its lease is over");
                return Renewed::Over;
            }
            return Renewed::Until(self.lease_until_us.load(Ordering::Acquire));
        }
        let told = self.engine.tell_at_once(
            &self.key,
            nonce::fresh(),
            Verb::Renew { fence: self.fence },
            self.durability,
        );
        match told {
            Some(Ok(Answer::Done { .. })) => {
                self.lease_until_us
                    .store(now_us.saturating_add(self.lease_us), Ordering::Release);
                Renewed::Until(renewal_us(now_us, self.lease_us))
            }
            Some(Ok(_)) => {
                if !self.finished.load(Ordering::Acquire) {
                    let _ = self.tell_lost("another attempt holds the key");
                }
                Renewed::Over
            }
            Some(Err(error))
                if matches!(error.kind(), ErrorKind::Closed | ErrorKind::ForkedProcess) =>
            {
                let _ =
                    self.tell_lost("the store was closed, so that its lease is no longer renewed");
                Renewed::Over
            }
            Some(Err(_)) | None => {
                if now_us >= self.lease_until_us.load(Ordering::Acquire) {
                    let _ = self.tell_lost("the store could not renew its lease, which is over");
                }
                Renewed::Until(retry_us(now_us, self.lease_us))
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.engine.is_foreign() {
            return;
        }
        if let Some(entry) = self.watched.get_mut().take() {
            self.engine.watchdog().leave(entry);
        }
        if !*self.finished.get_mut() && !*self.lost.get_mut() {
            let doubt = Doubt::Dropped;
            // Not waited for: lost in a crash, it leaves a record whose lease ends.
            let _ = self.engine.tell_at_once(
                &self.key,
                nonce::fresh(),
                Verb::Doubt {
                    fence: self.fence,
                    doubt,
                },
                self.durability,
            );
        }
    }
}
