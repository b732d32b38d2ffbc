//! The life of a record as one pure decision: no I/O, no clock, no randomness. Every rule of a claim is here and nowhere else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::record::{
    Doubt, Holder, MAX_STEPS, Policy, Record, State, StepRecord, StepState, Terms,
};
use crate::time::{NEVER_US, after};
use crate::value::{ATTEMPTS_EXHAUSTED, Failure, Value};

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
    /// Somebody who knows says how the attempt in doubt ended.
    Resolve { fence: u64, resolution: Resolution },
    /// Drop what is known of the key.
    Forget,
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
    /// It took no effect: run it, on these terms.
    NotDone(Holder),
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
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
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
    /// Run it. `takeover`: an earlier attempt ended without a word.
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
        (Verb::Forget, None) => Step::keep(Answer::Absent),
        (Verb::Forget, Some(record)) => forget(record, moment),
        (Verb::Resolve { .. }, None) => Step::keep(Answer::Absent),
        (Verb::Resolve { fence, resolution }, Some(record)) => {
            resolve(record, *fence, resolution, event.nonce, moment)
        }
        (Verb::Confirm { .. }, None) => Step::keep(Answer::Lost),
        (Verb::Confirm { asked, found }, Some(record)) => {
            confirm(record, *asked, found, event.nonce, moment)
        }
        (_, None) => Step::keep(Answer::Lost),
        (verb, Some(record)) => by_holder(record, verb, event.nonce, moment),
    }
}

fn claim_absent(claim: &Claiming, nonce: u64, moment: Moment) -> Step {
    if let Some(busy) = turn_taken(moment) {
        return busy;
    }
    let record = Record {
        version: 0,
        fence: 0,
        attempt: 1,
        first_us: moment.now_us,
        claimed_us: moment.now_us,
        state: State::Running {
            lease_until_us: after(moment.now_us, claim.terms.lease_us),
        },
        terms: claim.terms,
        fingerprint: claim.fingerprint.clone(),
        earlier_doubt: false,
        holder: claim.holder.clone(),
        claim_nonce: nonce,
        nonce,
        steps: Vec::new(),
    };
    Step::put(Answer::Execute { takeover: false }, record, Wake::Nobody)
}

fn claim_known(record: &Record, claim: &Claiming, nonce: u64, moment: Moment) -> Step {
    if let Some(fields) = mismatch(record, claim) {
        return Step::keep(Answer::Mismatch { fields });
    }
    if record.claim_nonce == nonce && matches!(record.state, State::Running { .. }) {
        return Step::keep(Answer::Execute {
            takeover: record.earlier_doubt,
        });
    }
    if let State::Confirming {
        nonce: asked,
        since_us,
        doubt,
        ..
    } = &record.state
        && *asked == nonce
    {
        return Step::keep(Answer::Ask {
            since_us: *since_us,
            doubt: doubt.clone(),
        });
    }
    if let Some((since_us, doubt)) = record.doubt(moment.now_us, moment.holder_gone) {
        return claim_in_doubt(record, claim, nonce, moment, since_us, doubt);
    }
    match &record.state {
        State::Running { lease_until_us }
        | State::Confirming {
            until_us: lease_until_us,
            ..
        } => Step::keep(Answer::Busy {
            retry_after_us: retry_after_us(*lease_until_us, moment.now_us),
        }),
        State::Succeeded { .. } | State::Failed { .. } => {
            Step::keep(told_again(record, moment.now_us))
        }
        State::Released { .. } if record.exhausted() => {
            Step::keep(Answer::Failed(exhausted(record)))
        }
        State::Released { .. } => {
            turn_taken(moment).unwrap_or_else(|| next_attempt(record, claim, nonce, moment, false))
        }
        State::InDoubt { since_us, doubt } => Step::keep(Answer::InDoubt {
            since_us: *since_us,
            doubt: doubt.clone(),
        }),
    }
}

fn claim_in_doubt(
    record: &Record,
    claim: &Claiming,
    nonce: u64,
    moment: Moment,
    since_us: u64,
    doubt: Doubt,
) -> Step {
    match record.terms.in_doubt {
        Policy::Rerun if !record.exhausted() => {
            turn_taken(moment).unwrap_or_else(|| next_attempt(record, claim, nonce, moment, true))
        }
        Policy::Ask if claim.can_confirm => {
            let mut asking = record.clone();
            asking.nonce = nonce;
            asking.state = State::Confirming {
                until_us: after(moment.now_us, CONFIRM_US),
                nonce,
                since_us,
                doubt: doubt.clone(),
            };
            Step::put(Answer::Ask { since_us, doubt }, asking, Wake::Nobody)
        }
        _ => Step::keep(Answer::InDoubt { since_us, doubt }),
    }
}

/// The record of the next attempt. What is frozen stays; lease, retention and holder are the new caller's.
fn next_attempt(
    record: &Record,
    claim: &Claiming,
    nonce: u64,
    moment: Moment,
    takeover: bool,
) -> Step {
    let mut next = record.clone();
    next.terms = Terms {
        in_doubt: record.terms.in_doubt,
        max_attempts: record.terms.max_attempts,
        ..claim.terms
    };
    next.earlier_doubt |= takeover;
    next.holder = claim.holder.clone();
    start_attempt(&mut next, nonce, moment);
    Step::put(Answer::Execute { takeover }, next, Wake::Nobody)
}

fn start_attempt(record: &mut Record, nonce: u64, moment: Moment) {
    record.fence = 0;
    record.attempt = record.attempt.saturating_add(1);
    record.claimed_us = moment.now_us;
    record.claim_nonce = nonce;
    record.nonce = nonce;
    record.state = State::Running {
        lease_until_us: after(moment.now_us, record.terms.lease_us),
    };
}

fn mismatch(record: &Record, claim: &Claiming) -> Option<Vec<String>> {
    match (&record.fingerprint, &claim.fingerprint) {
        (Some(kept), Some(given)) if !kept.matches(given) => Some(kept.differing_fields(given)),
        _ => None,
    }
}

fn told_again(record: &Record, now_us: u64) -> Answer {
    if now_us >= record.retained_until_us() {
        return Answer::Gone;
    }
    match &record.state {
        State::Succeeded {
            value: Some(value), ..
        } => Answer::Replay(value.clone()),
        State::Failed {
            failure: Some(failure),
            ..
        } => Answer::Failed(failure.clone()),
        _ => Answer::Gone,
    }
}

fn exhausted(record: &Record) -> Failure {
    Failure::new(
        ATTEMPTS_EXHAUSTED,
        format!(
            "all {} attempts are used up, and each is known to have failed",
            record.attempt
        ),
    )
}

fn turn_taken(moment: Moment) -> Option<Step> {
    (moment.now_us < moment.turn_until_us).then(|| {
        Step::keep(Answer::Busy {
            retry_after_us: moment.turn_until_us - moment.now_us,
        })
    })
}

/// When to ask again: at the lease's end, but no later than a second, since most work is shorter than its lease.
fn retry_after_us(until_us: u64, now_us: u64) -> u64 {
    until_us.saturating_sub(now_us).clamp(1, 1_000_000)
}

/// What only the holder of the present attempt may do. A lease that is over does not end the right of a holder who was
/// not replaced.
fn by_holder(record: &Record, verb: &Verb, nonce: u64, moment: Moment) -> Step {
    if record.nonce == nonce {
        return Step::keep(answered_before(record, verb));
    }
    let fence = match verb {
        Verb::Complete { fence, .. }
        | Verb::Fail { fence, .. }
        | Verb::Release { fence }
        | Verb::Doubt { fence, .. }
        | Verb::Renew { fence }
        | Verb::Unlock { fence }
        | Verb::BeginStep { fence, .. }
        | Verb::EndStep { fence, .. } => *fence,
        _ => return Step::keep(Answer::Lost),
    };
    let unfinished = matches!(
        record.state,
        State::Running { .. } | State::Confirming { .. } | State::InDoubt { .. }
    );
    if record.fence != fence || !unfinished {
        return Step::keep(Answer::Lost);
    }
    let late = record.lease_over(moment.now_us, moment.holder_gone)
        || !matches!(record.state, State::Running { .. });
    let at_us = moment.now_us;
    let mut next = record.clone();
    next.nonce = nonce;
    let done = Answer::Done { late };
    match verb {
        Verb::Complete { value, .. } => {
            next.state = State::Succeeded {
                at_us,
                value: value.clone(),
            };
            Step::put(done, next, Wake::Everybody)
        }
        Verb::Fail { .. } | Verb::Release { .. }
            if record.terms.in_doubt == Policy::Hold && record.begun_step().is_some() =>
        {
            let step = record.begun_step().unwrap_or_default().to_owned();
            next.state = State::InDoubt {
                since_us: at_us,
                doubt: Doubt::Step(step),
            };
            Step::put(done, next, Wake::Everybody)
        }
        Verb::Fail { failure, .. } => {
            next.state = State::Failed {
                at_us,
                failure: Some(failure.clone()),
            };
            Step::put(done, next, Wake::Everybody)
        }
        Verb::Release { .. } => {
            next.state = State::Released { at_us };
            let wake = if next.exhausted() {
                Wake::Everybody
            } else {
                Wake::First
            };
            Step::put(done, next, wake)
        }
        Verb::Doubt { doubt, .. } => {
            let doubt = record
                .begun_step()
                .map_or_else(|| doubt.clone(), |step| Doubt::Step(step.to_owned()));
            next.state = State::InDoubt {
                since_us: at_us,
                doubt,
            };
            let rerun = next.terms.in_doubt == Policy::Rerun && !next.exhausted();
            Step::put(
                done,
                next,
                if rerun { Wake::First } else { Wake::Everybody },
            )
        }
        Verb::Unlock { .. } => Step {
            answer: done,
            change: Change::Remove,
            wake: Wake::First,
        },
        Verb::Renew { .. } => {
            next.state = State::Running {
                lease_until_us: after(at_us, next.terms.lease_us),
            };
            Step::put(done, next, Wake::Nobody)
        }
        Verb::BeginStep { name, .. } => begin_step(next, name, done),
        Verb::EndStep { name, value, .. } => end_step(next, name, value.clone(), done),
        _ => Step::keep(Answer::Lost),
    }
}

/// The answer to an event that was taken up before and is here again.
fn answered_before(record: &Record, verb: &Verb) -> Answer {
    match verb {
        Verb::BeginStep { name, .. } => match record
            .steps
            .iter()
            .find(|step| step.name == *name)
            .map(|step| &step.state)
        {
            Some(StepState::Done(value)) => Answer::StepDone(value.clone()),
            _ => Answer::Done { late: false },
        },
        _ => Answer::Done { late: false },
    }
}

fn begin_step(mut next: Record, name: &str, done: Answer) -> Step {
    let begun = StepState::Begun { fence: next.fence };
    match next.steps.iter().position(|step| step.name == name) {
        Some(at) => match &mut next.steps[at].state {
            StepState::Done(value) => return Step::keep(Answer::StepDone(value.clone())),
            state => *state = begun,
        },
        None if next.steps.len() >= MAX_STEPS => return Step::keep(Answer::StepsFull),
        None => next.steps.push(StepRecord {
            name: name.to_owned(),
            state: begun,
        }),
    }
    Step::put(done, next, Wake::Nobody)
}

fn end_step(mut next: Record, name: &str, value: Option<Value>, done: Answer) -> Step {
    let Some(at) = next.steps.iter().position(|step| step.name == name) else {
        return Step::keep(Answer::Lost);
    };
    match value {
        Some(value) => next.steps[at].state = StepState::Done(value),
        None => drop(next.steps.remove(at)),
    }
    Step::put(done, next, Wake::Nobody)
}

fn confirm(record: &Record, asked: u64, found: &Found, nonce: u64, moment: Moment) -> Step {
    if record.nonce == nonce {
        return Step::keep(match found {
            Found::NotDone(_) if matches!(record.state, State::Running { .. }) => {
                Answer::Execute { takeover: true }
            }
            _ => Answer::Done { late: false },
        });
    }
    let State::Confirming {
        nonce: by,
        since_us,
        doubt,
        ..
    } = &record.state
    else {
        return Step::keep(Answer::Lost);
    };
    if *by != asked {
        return Step::keep(Answer::Lost);
    }
    let mut next = record.clone();
    next.nonce = nonce;
    match found {
        Found::Done(value) => {
            next.state = State::Succeeded {
                at_us: moment.now_us,
                value: value.clone(),
            };
            Step::put(Answer::Done { late: false }, next, Wake::Everybody)
        }
        Found::Still => {
            let (since_us, doubt) = (*since_us, doubt.clone());
            next.state = State::InDoubt {
                since_us,
                doubt: doubt.clone(),
            };
            Step::put(Answer::InDoubt { since_us, doubt }, next, Wake::Everybody)
        }
        Found::NotDone(_) if record.exhausted() => {
            next.earlier_doubt = false;
            next.state = State::Released {
                at_us: moment.now_us,
            };
            Step::put(Answer::Failed(exhausted(record)), next, Wake::Everybody)
        }
        Found::NotDone(holder) => {
            next.earlier_doubt = false;
            next.holder = holder.clone();
            start_attempt(&mut next, nonce, moment);
            Step::put(Answer::Execute { takeover: true }, next, Wake::Nobody)
        }
    }
}

fn resolve(
    record: &Record,
    fence: u64,
    resolution: &Resolution,
    nonce: u64,
    moment: Moment,
) -> Step {
    if record.nonce == nonce {
        return Step::keep(Answer::Done { late: false });
    }
    if record.fence != fence || record.doubt(moment.now_us, moment.holder_gone).is_none() {
        return Step::keep(Answer::NotInDoubt);
    }
    let at_us = moment.now_us;
    let mut next = record.clone();
    next.nonce = nonce;
    let wake = match resolution {
        Resolution::Value(value) => {
            next.state = State::Succeeded {
                at_us,
                value: value.clone(),
            };
            Wake::Everybody
        }
        Resolution::Failure(failure) => {
            next.state = State::Failed {
                at_us,
                failure: Some(failure.clone()),
            };
            Wake::Everybody
        }
        Resolution::Rerun => {
            next.earlier_doubt = false;
            if next.exhausted() {
                next.terms.max_attempts = next.attempt.saturating_add(1);
            }
            next.state = State::Released { at_us };
            Wake::First
        }
    };
    Step::put(Answer::Done { late: false }, next, wake)
}

/// Forgets what has ended, is in doubt, or is held without end. A live lease is somebody's right to run.
fn forget(record: &Record, moment: Moment) -> Step {
    let live = matches!(record.state, State::Running { lease_until_us } if lease_until_us != NEVER_US)
        || matches!(record.state, State::Confirming { .. });
    if live && !record.lease_over(moment.now_us, moment.holder_gone) {
        let until_us = match record.state {
            State::Running { lease_until_us } => lease_until_us,
            State::Confirming { until_us, .. } => until_us,
            _ => moment.now_us,
        };
        return Step::keep(Answer::Busy {
            retry_after_us: retry_after_us(until_us, moment.now_us),
        });
    }
    Step {
        answer: Answer::Done { late: false },
        change: Change::Remove,
        wake: Wake::First,
    }
}
