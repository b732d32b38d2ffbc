//! The right to run an operation once: what the caller holds between a claim and its end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::backend::{Decided, Durability, wait};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::lifecycle::{Answer, Verb};
use crate::nonce;
use crate::record::{Doubt, Record};
use crate::request::{DEFAULT_RENEW_LIMIT, OnLost, Renew, Request};
use crate::stats::Counters;
use crate::store::Engine;
use crate::time::{NEVER_US, micros};
use crate::value::{Failure, Value};
use crate::watchdog::{Entry, Renewed, renewal_us, retry_us};

/// The right to run an operation, until it is finished or lost. Clones are the same right.
///
/// Finish it with [`complete`](Ticket::complete), [`fail`](Ticket::fail) or [`release`](Ticket::release). When the last
/// clone is dropped unfinished, the operation is in doubt: it may have taken effect.
#[derive(Clone)]
pub struct Ticket(pub(crate) Arc<Held>);

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
    /// How many calls are about to finish it: what the watchdog then finds lost may be their doing.
    ending: AtomicU32,
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
            ending: AtomicU32::new(0),
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

impl Held {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn fence(&self) -> u64 {
        self.fence
    }

    pub(crate) fn check_unfinished(&self) -> Result<()> {
        match self.finished.load(Ordering::Acquire) {
            true => Err(Error::lost(
                "the ticket is finished already; nothing was changed",
            )),
            false => Ok(()),
        }
    }

    pub(crate) async fn tell(&self, nonce: u64, verb: Verb) -> Result<Decided> {
        self.engine
            .told(&self.key, nonce, verb, self.durability)
            .await
    }

    fn tell_at_once(&self, nonce: u64, verb: Verb) -> Option<Result<Decided>> {
        self.engine
            .tell_at_once(&self.key, nonce, verb, self.durability)
    }

    /// The nonce of a way to end the ticket: the same way again is the same event.
    fn nonce_of(&self, verb_number: u64) -> u64 {
        self.nonce.rotate_left(8) ^ verb_number
    }

    /// Ends the ticket. `verb_number` distinguishes the ways to end it, so that each can be tried again.
    async fn finish(&self, verb_number: u64, verb: Verb) -> Result<()> {
        self.check_unfinished()?;
        let completes = matches!(verb, Verb::Complete { .. });
        let _ending = Ending::begun(self);
        let told = self.tell(self.nonce_of(verb_number), verb).await?;
        let work_us = self.engine.now_us().saturating_sub(self.claimed_us);
        match told.answer {
            Answer::Done { late } => {
                self.end();
                self.counters.finished(work_us, completes && late);
                Ok(())
            }
            _ => {
                let error = self.not_the_holder(&told);
                if completes && self.lost.load(Ordering::Acquire) {
                    // The work was done, and somebody else was let in meanwhile.
                    self.counters.finished(work_us, true);
                }
                self.end();
                Err(error)
            }
        }
    }

    /// Why an event of this ticket changed nothing: the ticket has ended itself, or has lost its key.
    pub(crate) fn not_the_holder(&self, told: &Decided) -> Error {
        let ended_by_itself = |record: &Record| {
            record.fence == self.fence && (1..=5).any(|verb| record.nonce == self.nonce_of(verb))
        };
        if told.record.as_deref().is_some_and(ended_by_itself) {
            self.end();
        }
        match self.check_unfinished() {
            Err(finished) => finished,
            Ok(()) => {
                self.tell_lost("another attempt holds it, or somebody has ended the operation")
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
    fn end_at_once(&self, verb_number: u64, verb: Verb) {
        if !self.engine.is_foreign() && !self.finished.swap(true, Ordering::AcqRel) {
            let _ = self.tell_at_once(self.nonce_of(verb_number), verb);
            self.end();
        }
    }

    fn end(&self) {
        self.finished.store(true, Ordering::Release);
        if let Some(entry) = self.watched.lock().take() {
            self.engine.watchdog().leave(entry);
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

    pub(crate) fn store_closed(&self) {
        let _ = self.tell_lost("the store was closed, so that its lease is no longer renewed");
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
        match self.tell_at_once(nonce::fresh(), Verb::Renew { fence: self.fence }) {
            Some(Ok(told)) if matches!(told.answer, Answer::Done { .. }) => {
                self.lease_until_us
                    .store(now_us.saturating_add(self.lease_us), Ordering::Release);
                Renewed::Until(renewal_us(now_us, self.lease_us))
            }
            Some(Ok(_)) if self.ending.load(Ordering::Acquire) != 0 => {
                Renewed::Until(retry_us(now_us, self.lease_us))
            }
            Some(Ok(told)) => {
                let _ = self.not_the_holder(&told);
                Renewed::Over
            }
            Some(Err(error))
                if matches!(error.kind(), ErrorKind::Closed | ErrorKind::ForkedProcess) =>
            {
                self.store_closed();
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

/// While it lives, a call is about to finish the ticket.
struct Ending<'a>(&'a Held);

impl<'a> Ending<'a> {
    fn begun(held: &'a Held) -> Self {
        held.ending.fetch_add(1, Ordering::AcqRel);
        Self(held)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ending.fetch_sub(1, Ordering::AcqRel);
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
            let verb = Verb::Doubt {
                fence: self.fence,
                doubt,
            };
            let _ = self.tell_at_once(nonce::fresh(), verb);
        }
    }
}
