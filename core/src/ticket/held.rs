//! What all clones of a ticket do: how it ends, how it is renewed, and how it is lost.

use std::sync::Arc;

use crate::sync::atomic::Ordering;

use super::Held;
use crate::backend::{Decided, wait};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::lifecycle::{Answer, Verb};
use crate::nonce;
use crate::record::{Doubt, Record};
use crate::watchdog::{Renewed, renewal_us, retry_us};

/// The part of a nonce that tells the ends of one ticket from each other.
const END_MASK: u64 = (1 << 24) - 1;

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

    pub(super) fn tell_at_once(&self, nonce: u64, verb: Verb) -> Option<Result<Decided>> {
        self.engine
            .tell_at_once(&self.key, nonce, verb, self.durability)
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Enters a step as one that runs, until the result is dropped; `None` when it runs already.
    pub(crate) fn stepping(self: &Arc<Self>, name: &str) -> Option<Stepping> {
        let mut steps = self.steps.lock();
        let free = !steps.iter().any(|step| step == name);
        free.then(|| {
            steps.push(name.to_owned());
            Stepping {
                held: Arc::clone(self),
                name: name.to_owned(),
            }
        })
    }

    /// The nonce of an end of the ticket: the same end with the same result is the same event again, and with another
    /// result it is another.
    fn nonce_of(&self, verb_number: u64, verb: &Verb) -> u64 {
        let parts: [&[u8]; 3] = match verb {
            Verb::Complete {
                value: Some(value), ..
            } => [&[value.content() as u8 + 1], value.as_bytes(), &[]],
            Verb::Fail { failure, .. } => [
                failure.code.as_bytes(),
                failure.kind.as_bytes(),
                failure.message.as_bytes(),
            ],
            _ => [&[]; 3],
        };
        let mut check = verb_number as u32;
        for part in parts {
            check = crc32c::crc32c_append(check, &(part.len() as u64).to_le_bytes());
            check = crc32c::crc32c_append(check, part);
        }
        self.nonce & !END_MASK | u64::from(check) & END_MASK
    }

    /// Whether an event of this nonce is an end of this ticket.
    fn is_own(&self, nonce: u64) -> bool {
        nonce & !END_MASK == self.nonce & !END_MASK
    }

    /// Ends the ticket. `verb_number` distinguishes the ways to end it, so that each can be tried again.
    pub(super) async fn finish(&self, verb_number: u64, verb: Verb) -> Result<()> {
        self.check_unfinished()?;
        let completes = matches!(verb, Verb::Complete { .. });
        let _ending = Ending::begun(self);
        let told = self.tell(self.nonce_of(verb_number, &verb), verb).await?;
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
        let ended_by_itself =
            |record: &Record| record.fence == self.fence && self.is_own(record.nonce);
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

    pub(super) async fn doubt(&self, doubt: Doubt) -> Result<()> {
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
    pub(super) fn end_at_once(&self, verb_number: u64, verb: Verb) {
        if !self.origin.is_foreign() && !self.finished.swap(true, Ordering::AcqRel) {
            let _ = self.tell_at_once(self.nonce_of(verb_number, &verb), verb);
            self.end();
        }
    }

    pub(super) fn end(&self) {
        self.finished.store(true, Ordering::Release);
        if self.origin.is_foreign() {
            return; // the watchdog that renews it is that of the process it was claimed in
        }
        if let Some(entry) = self.watched.lock().take() {
            self.engine.watchdog().leave(entry);
        }
    }

    /// Tells the holder, once, that the key is lost; gives the error that says so.
    pub(super) fn tell_lost(&self, why: &'static str) -> Error {
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
        let (nonce, renew) = (nonce::fresh(), Verb::Renew { fence: self.fence });
        let told = match self.engine.is_remote() {
            // The watchdog has a thread, and another process answers soon, or says that it cannot.
            true => Some(wait(self.tell(nonce, renew))),
            false => self.tell_at_once(nonce, renew),
        };
        match told {
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
            Some(Err(_)) | None => self.not_renewed(now_us),
        }
    }

    /// The lease could not be renewed now; the holder is told when it is over.
    pub(crate) fn not_renewed(&self, now_us: u64) -> Renewed {
        if now_us >= self.lease_until_us.load(Ordering::Acquire) {
            let _ = self.tell_lost("the store could not renew its lease, which is over");
        }
        Renewed::Until(retry_us(now_us, self.lease_us))
    }
}

/// A step that runs.
pub(crate) struct Stepping {
    held: Arc<Held>,
    name: String,
}

impl Drop for Stepping {
    fn drop(&mut self) {
        self.held.steps.lock().retain(|step| *step != self.name);
    }
}

/// While it lives, a call is about to finish the ticket.
pub(crate) struct Ending<'a>(&'a Held);

impl<'a> Ending<'a> {
    pub(super) fn begun(held: &'a Held) -> Self {
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
        if self.origin.is_foreign() {
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
