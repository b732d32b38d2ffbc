//! Message inbox: each message of a broker is handled once, in one step with what its handling writes.
//!
//! Stops: the message that is delivered again, to whichever worker, at the same time or later. Does not stop: effects outside
//! of the store, which a crash can leave behind: claim those by themselves, or emit a message. Choose it for whatever takes
//! messages from a broker. It deduplicates: who comes second is told to acknowledge, and gets no result. A poison message is
//! rejected when its attempts are used up, and never blocks others.
//!
//! ```
//! use semel::{Consumed, Store};
//!
//! let store = Store::open("memory:")?;
//! let handle = |tx: &mut semel::Tx<'_>| tx.ledger("wallet").post("anna", "pay:777", 100, None).map(drop);
//! assert!(matches!(store.consume("billing", "pay:777", handle)?, Consumed::Done(())));
//! assert!(matches!(store.consume("billing", "pay:777", handle)?, Consumed::Duplicate)); // acknowledge it
//! # Ok::<(), semel::Error>(())
//! ```

use std::time::Duration;

use crate::answer::{Busy, Claim};
use crate::backend::{Durability, wait};
use crate::caller::Caller;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Namespace};
use crate::record::Policy;
use crate::request::{Lease, Request, Retain};
use crate::store::{Resolution, Resolved, Store};
use crate::ticket::Ticket;
use crate::tx::{Tx, kept_until_us};
use crate::value::{ATTEMPTS_EXHAUSTED, Failure};

/// How often a message is tried when nothing is said.
pub const DEFAULT_ATTEMPTS: u32 = 5;
/// How long marks of handled messages are kept when nothing is said.
pub const DEFAULT_MARK_RETAIN: Duration = Duration::from_secs(7 * 24 * 3600);
/// How much of the last error is kept with a message that is rejected, in characters.
const MAX_ERROR_CHARS: usize = 4_000;
/// How often a message is looked at whose last worker comes back meanwhile.
const MAX_LOOKS: u32 = 8;

/// What consuming a message came to.
#[derive(Debug)]
pub enum Consumed<T> {
    /// Handled now; what the work returned. Acknowledge the message.
    Done(T),
    /// Handled before. Acknowledge the message.
    Duplicate,
    /// Another worker handles it. Requeue the message.
    Busy(Busy),
    /// Its attempts are used up; the last error. Send the message to the dead letters.
    Rejected(Failure),
}

impl<T> Consumed<T> {
    /// The answer's word, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Duplicate => "duplicate",
            Self::Busy(_) => "busy",
            Self::Rejected(_) => "rejected",
        }
    }
}

/// A message that is to be consumed.
#[derive(Clone, Debug)]
pub struct Consume<'a> {
    store: &'a Store,
    consumer: &'a str,
    message: &'a str,
    max_attempts: u32,
    lease: Lease,
    retain: Retain,
    wait: Duration,
    durability: Durability,
}

impl Store {
    /// Handles a message once: the work's writes and the mark that it was handled are committed together. An error of the
    /// work rolls back, releases the message at once, and is returned; at the last attempt it is kept, and the message
    /// is rejected from then on.
    ///
    /// # Errors
    /// The work's, and store errors.
    pub fn consume<T, E>(
        &self,
        consumer: &str,
        message: &str,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Consumed<T>, E>
    where
        E: From<Error> + std::fmt::Display,
    {
        self.message(consumer, message).consume(work)
    }

    /// A message of a consumer, with options.
    pub fn message<'a>(&'a self, consumer: &'a str, message: &'a str) -> Consume<'a> {
        Consume {
            store: self,
            consumer,
            message,
            max_attempts: DEFAULT_ATTEMPTS,
            lease: Lease::For(crate::request::DEFAULT_LEASE),
            retain: Retain::For(DEFAULT_MARK_RETAIN),
            wait: Duration::ZERO,
            durability: self.0.durability(),
        }
    }
}

impl Consume<'_> {
    /// How often the message is tried: 5 times by default.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// How long a worker may give no sign of life.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Lease::For(lease);
        self
    }

    /// How long the mark is kept: 7 days by default. A message that is delivered later is handled again.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// When the mark and the work are on disk; as the store by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long to wait for another worker.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// As [`Store::consume`].
    ///
    /// # Errors
    /// As [`Store::consume`].
    pub fn consume<T, E>(
        &self,
        mut work: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Consumed<T>, E>
    where
        E: From<Error> + std::fmt::Display,
    {
        let key = Key::row(
            Namespace::Inbox,
            ("consumer", self.consumer),
            ("message key", self.message),
        )?;
        let request = Request::new("consume", self.message)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed)
            .max_attempts(self.max_attempts)
            .lease(self.lease)
            .wait(self.wait)
            .retain(self.retain);
        let ticket = match self.take(&key, &request)? {
            Ok(ticket) => ticket,
            Err(known) => return Ok(known),
        };
        let transaction = self.store.transact().durability(self.durability);
        let handled: Result<T, E> = transaction.run(|tx| {
            let value = work(tx)?;
            tx.complete(&ticket, &())?;
            Ok(value)
        });
        match handled {
            Ok(value) => Ok(Consumed::Done(value)),
            Err(error) => {
                let last = ticket.is_last() || ticket.attempt() >= self.max_attempts;
                let told = match last {
                    true => {
                        let why: String = error.to_string().chars().take(MAX_ERROR_CHARS).collect();
                        ticket.fail(Failure::new(ATTEMPTS_EXHAUSTED, why))
                    }
                    false => ticket.release(),
                };
                // The work's own error comes first; a ticket that cannot be released ends with its lease.
                drop(told);
                Err(error)
            }
        }
    }

    /// The ticket of the message, or what is known of it.
    fn take<T>(&self, key: &Key, request: &Request<'_>) -> Result<Result<Ticket, Consumed<T>>> {
        let engine = &self.store.0;
        for _ in 0..MAX_LOOKS {
            return Ok(
                match wait(engine.claim_at(key.clone(), request, Caller::Thread))? {
                    Claim::Execute(ticket) => Ok(ticket),
                    Claim::Replay(_) | Claim::Gone(_) => Err(Consumed::Duplicate),
                    Claim::Failed(failed) => Err(Consumed::Rejected(failed.failure)),
                    Claim::Busy(busy) => Err(Consumed::Busy(busy)),
                    Claim::InDoubt(doubt) => {
                        // The work was not committed, whatever ended its attempts: it is rejected, and no longer in doubt; unless
                        // its last worker lives and was quicker.
                        let failure = Failure::new(
                            ATTEMPTS_EXHAUSTED,
                            format!(
                                "all {} attempts ended without a word; the last worker may have crashed",
                                doubt.attempt
                            ),
                        );
                        let rejection = Resolution::Failure(failure.clone());
                        match engine.resolve_at(key, rejection)? {
                            Resolved::Resolved => Err(Consumed::Rejected(failure)),
                            Resolved::NotInDoubt | Resolved::Absent => continue,
                        }
                    }
                    other => {
                        return Err(Error::corrupt(format!(
                            "a message was answered {}; report this",
                            other.name()
                        )));
                    }
                },
            );
        }
        Err(Error::new(
            ErrorKind::TransactionConflict,
            format!(
                "{} went from hand to hand while it was looked at {MAX_LOOKS} times; try again",
                key.describe()
            ),
        ))
    }
}

impl Tx<'_> {
    /// Marks a message as handled by a consumer; whether this is the first time. For those who bring their own attempts.
    /// The mark is kept for 7 days.
    ///
    /// # Errors
    /// `InvalidInput` for names that cannot be used; store errors.
    pub fn mark(&mut self, consumer: &str, message: &str) -> Result<bool> {
        self.mark_for(consumer, message, DEFAULT_MARK_RETAIN)
    }

    /// [`mark`](Tx::mark) with a time for which the mark is kept.
    ///
    /// # Errors
    /// As [`mark`](Tx::mark).
    pub fn mark_for(
        &mut self,
        consumer: &str,
        message: &str,
        retain: impl Into<Retain>,
    ) -> Result<bool> {
        let key = Key::row(
            Namespace::Mark,
            ("consumer", consumer),
            ("message key", message),
        )?;
        if self.get::<u64>(&key)?.is_some() {
            return Ok(false);
        }
        let now_us = self.now_us();
        self.set(&key, &now_us, kept_until_us(now_us, retain.into())?)?;
        Ok(true)
    }
}
