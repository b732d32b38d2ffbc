//! How a doubt ends, and a record: by the caller that was asked, by somebody who knows, by withdrawal, and by being forgotten.

use super::claim::{exhausted, retry_after_us, start_attempt};
use super::{Answer, Change, Found, Moment, Resolution, Step, Wake};
use crate::record::{Record, State};
use crate::time::NEVER_US;

/// Takes up what the caller that was asked has found out.
pub(super) fn confirm(
    record: &Record,
    asked: u64,
    found: &Found,
    nonce: u64,
    moment: Moment,
) -> Step {
    if record.nonce == nonce {
        return Step::keep(confirmed_before(record));
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
        Found::NotDone { .. } if record.exhausted() => {
            next.earlier_doubt = false;
            next.state = State::Released {
                at_us: moment.now_us,
            };
            Step::put(Answer::Failed(exhausted(record)), next, Wake::Everybody)
        }
        Found::NotDone { holder, terms } => {
            next.earlier_doubt = false;
            start_attempt(&mut next, *terms, holder, nonce, moment);
            Step::put(Answer::Execute { takeover: false }, next, Wake::Nobody)
        }
    }
}

/// The answer to a finding that was taken up before and is here again.
fn confirmed_before(record: &Record) -> Answer {
    match &record.state {
        State::Running { .. } => Answer::Execute { takeover: false },
        State::InDoubt { since_us, doubt } => Answer::InDoubt {
            since_us: *since_us,
            doubt: doubt.clone(),
        },
        State::Released { .. } => Answer::Failed(exhausted(record)),
        _ => Answer::Done { late: false },
    }
}

/// Takes back a claim whose answer nobody has seen: the attempt does not count, and who was to be asked was not.
pub(super) fn withdraw(record: &Record, claimed: u64, nonce: u64, moment: Moment) -> Step {
    let done = Answer::Done { late: false };
    let mut next = record.clone();
    next.nonce = nonce;
    match &record.state {
        State::Running { .. } if record.claim_nonce == claimed && record.attempt == 1 => Step {
            answer: done,
            change: Change::Remove,
            wake: Wake::First,
        },
        State::Running { .. } if record.claim_nonce == claimed => {
            next.attempt -= 1;
            next.state = State::Released {
                at_us: moment.now_us,
            };
            Step::put(done, next, Wake::First)
        }
        State::Confirming {
            nonce: asked,
            since_us,
            doubt,
            ..
        } if *asked == claimed => {
            next.state = State::InDoubt {
                since_us: *since_us,
                doubt: doubt.clone(),
            };
            Step::put(done, next, Wake::Everybody)
        }
        _ => Step::keep(Answer::Lost),
    }
}

/// Ends a doubt, if it is still that of the attempt of this fence.
pub(super) fn resolve(
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
pub(super) fn forget(record: &Record, fence: u64, moment: Moment) -> Step {
    if fence != 0 && record.fence != fence {
        // Somebody has run it since: that is another life, or another attempt.
        return Step::keep(Answer::Busy { retry_after_us: 1 });
    }
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
