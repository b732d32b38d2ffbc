//! The life of a record as one pure decision: no I/O, no clock, no randomness. Every rule of a claim is here and nowhere else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::claim::{Told, told_unasked};
use self::claim::{claim_absent, claim_known};
use self::holder::by_holder;
use self::resolve::{confirm, forget, resolve, withdraw};
use crate::fingerprint::Fingerprint;
use crate::record::{Doubt, Holder, Record, Terms};
use crate::value::{Failure, Value};

mod claim;
mod holder;
mod resolve;
#[cfg(test)]
mod tests;

/// How long one caller may take to confirm an attempt in doubt.
pub(crate) const CONFIRM_US: u64 = 30_000_000;
/// How long a promoted waiter holds the turn before it passes on.
pub(crate) const TURN_US: u64 = 100_000;

/// What a caller asks of one key. Plain data: it can be sent again, by whomever, and answers the same by its nonce.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Distinguishes this event from every other; the same event again has the same nonce.
    pub(crate) nonce: u64,
    pub(crate) verb: Verb,
}

/// The verbs of an [`Event`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Verb {
    /// May I run it?
    Claim(Claiming),
    /// It is done, with this result; `None` when the result cannot be kept.
    Complete { fence: u64, value: Option<Value> },
    /// It is done, with this error as its result.
    Fail { fence: u64, failure: Failure },
    /// It had no effect and may run again.
    Release { fence: u64 },
    /// It may or may not have had an effect.
    Doubt { fence: u64, doubt: Doubt },
    /// I let go of what I held; nothing is to be remembered.
    Unlock { fence: u64 },
    /// I am still at it.
    Renew { fence: u64 },
    /// A named step begins.
    BeginStep { fence: u64, name: String },
    /// A named step has this result, or is known to have had no effect.
    EndStep {
        fence: u64,
        name: String,
        value: Option<Value>,
    },
    /// What the caller that was asked has found; `asked` is the nonce of the claim that was told to ask.
    Confirm { asked: u64, found: Found },
    /// The claim of this nonce was given up by its caller before its answer could show: as if it had not been made.
    Withdraw { claimed: u64 },
    /// Somebody who knows says how the attempt in doubt ended.
    Resolve { fence: u64, resolution: Resolution },
    /// Drop what is known of the key, if it is about the attempt of this fence; 0 is any.
    Forget { fence: u64 },
}

/// A claim's terms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claiming {
    pub(crate) terms: Terms,
    pub(crate) fingerprint: Option<Arc<Fingerprint>>,
    pub(crate) holder: Holder,
    /// Whether the caller can be asked to confirm an attempt in doubt.
    pub(crate) can_confirm: bool,
}

/// What a caller that was asked has found out about an attempt in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Found {
    /// It took effect, with this result.
    Done(Option<Value>),
    /// It took no effect: run it, on these terms as far as none are frozen.
    NotDone { holder: Holder, terms: Terms },
    /// Still unknown.
    Still,
}

/// How somebody who knows ends a doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Resolution {
    /// It took effect, with this result.
    Value(Option<Value>),
    /// It ended with this error.
    Failure(Failure),
    /// It took no effect and may run again.
    Rerun,
}

/// When and where a decision is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now_us: u64,
    /// Whether the process that holds the record is known to be dead.
    pub(crate) holder_gone: bool,
    /// Until when the turn belongs to a waiter that is not this caller; 0 when it is free.
    pub(crate) turn_until_us: u64,
}

/// A decision: the answer, what becomes of the record, and whom to wake.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) answer: Answer,
    pub(crate) change: Change,
    pub(crate) wake: Wake,
}

/// What becomes of the record. A record that is put gets its version, and a new attempt its fence, when it is taken up.
// Made once for a decision and taken apart at once: a box would cost more than it saves.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // taken apart where it is made: a box would cost more than the copy
pub(crate) enum Change {
    /// Nothing.
    Keep,
    /// This is the record now.
    Put(Record),
    /// The key is absent now.
    Remove,
}

/// Whom a decision wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Nobody: nothing changed for those who wait.
    Nobody,
    /// The first in line, who may run.
    First,
    /// Everybody: the answer is there.
    Everybody,
}

/// What an event is answered. Particulars are in the record that comes with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Run it. `takeover`: an earlier attempt ended with unknown effect.
    Execute { takeover: bool },
    /// It was done; here is the result.
    Replay(Value),
    /// It was done; here is the error.
    Failed(Failure),
    /// Somebody runs it; ask again after this time.
    Busy { retry_after_us: u64 },
    /// The key belongs to another request; the top-level members that differ.
    Mismatch { fields: Vec<String> },
    /// It may have been done.
    InDoubt { since_us: u64, doubt: Doubt },
    /// It may have been done: find out, then say so with a confirm event.
    Ask { since_us: u64, doubt: Doubt },
    /// It was done; the result is no more.
    Gone,
    /// The change was made. `late`: after the lease was over.
    Done { late: bool },
    /// The ticket does not hold the key; nothing was changed.
    Lost,
    /// The step was done before, with this result.
    StepDone(Value),
    /// The record has no room for another step.
    StepsFull,
    /// There is no doubt to resolve; nothing was changed.
    NotInDoubt,
    /// There is no such record.
    Absent,
}

impl Step {
    fn keep(answer: Answer) -> Self {
        Self {
            answer,
            change: Change::Keep,
            wake: Wake::Nobody,
        }
    }

    fn put(answer: Answer, record: Record, wake: Wake) -> Self {
        Self {
            answer,
            change: Change::Put(record),
            wake,
        }
    }
}

/// Decides what an event is answered and what becomes of the record.
pub(crate) fn decide(record: Option<&Record>, event: &Event, moment: Moment) -> Step {
    let record = record.filter(|record| !record.forgotten(moment.now_us));
    match (&event.verb, record) {
        (Verb::Claim(claim), None) => claim_absent(claim, event.nonce, moment),
        (Verb::Claim(claim), Some(record)) => claim_known(record, claim, event.nonce, moment),
        (Verb::Forget { .. }, None) => Step::keep(Answer::Absent),
        (Verb::Forget { fence }, Some(record)) => forget(record, *fence, moment),
        (Verb::Resolve { .. }, None) => Step::keep(Answer::Absent),
        (Verb::Resolve { fence, resolution }, Some(record)) => {
            resolve(record, *fence, resolution, event.nonce, moment)
        }
        (Verb::Withdraw { claimed }, Some(record)) => {
            withdraw(record, *claimed, event.nonce, moment)
        }
        (Verb::Confirm { .. }, None) => Step::keep(Answer::Lost),
        (Verb::Confirm { asked, found }, Some(record)) => {
            confirm(record, *asked, found, event.nonce, moment)
        }
        (_, None) => Step::keep(Answer::Lost),
        (verb, Some(record)) => by_holder(record, verb, event.nonce, moment),
    }
}
