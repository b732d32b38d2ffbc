//! What a claim is answered: the table of a record's states and policies.

use super::{Answer, CONFIRM_US, Claiming, Moment, Step, Wake};
use crate::record::{Doubt, Holder, Policy, Record, State, Terms};
use crate::time::{NEVER_US, after};
use crate::value::{ATTEMPTS_EXHAUSTED, Failure, Value};

pub(super) fn claim_absent(claim: &Claiming, nonce: u64, moment: Moment) -> Step {
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

pub(super) fn claim_known(record: &Record, claim: &Claiming, nonce: u64, moment: Moment) -> Step {
    if let Some(fields) = mismatch(record, claim) {
        return Step::keep(Answer::Mismatch { fields });
    }
    // The same event again is told the same again.
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
            turn_taken(moment).unwrap_or_else(|| next_attempt(record.clone(), claim, nonce, moment))
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
        Policy::Rerun if !record.exhausted() => turn_taken(moment).unwrap_or_else(|| {
            let mut doubtful = record.clone();
            doubtful.earlier_doubt = true;
            next_attempt(doubtful, claim, nonce, moment)
        }),
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

/// The record of the next attempt, and leave to run it.
fn next_attempt(mut record: Record, claim: &Claiming, nonce: u64, moment: Moment) -> Step {
    start_attempt(&mut record, claim.terms, &claim.holder, nonce, moment);
    let takeover = record.earlier_doubt;
    Step::put(Answer::Execute { takeover }, record, Wake::Nobody)
}

/// Starts the next attempt. What is frozen stays; lease, retention and holder are the new caller's.
pub(super) fn start_attempt(
    record: &mut Record,
    terms: Terms,
    holder: &Holder,
    nonce: u64,
    moment: Moment,
) {
    let frozen = record.terms;
    record.terms = Terms {
        in_doubt: frozen.in_doubt,
        max_attempts: frozen.max_attempts,
        // A lease without end goes with hold alone.
        lease_us: match terms.lease_us {
            NEVER_US if frozen.in_doubt != Policy::Hold => frozen.lease_us,
            lease_us => lease_us,
        },
        ..terms
    };
    record.holder = holder.clone();
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

/// What a repeat is told for which there is nothing to decide: one that compares no payload.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// From when on it is told no more.
    pub(crate) until_us: u64,
    pub(crate) value: Value,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) first_us: u64,
}

/// What any claim is told, for a time, that compares no payload; `None` when there is something to decide.
pub(crate) fn told_unasked(record: &Record) -> Option<Told> {
    match &record.state {
        State::Succeeded {
            value: Some(value), ..
        } => Some(Told {
            until_us: record.retained_until_us(),
            value: value.clone(),
            attempt: record.attempt,
            fence: record.fence,
            first_us: record.first_us,
        }),
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

pub(super) fn exhausted(record: &Record) -> Failure {
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
pub(super) fn retry_after_us(until_us: u64, now_us: u64) -> u64 {
    until_us.saturating_sub(now_us).clamp(1, 1_000_000)
}
