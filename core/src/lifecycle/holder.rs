//! What the holder of an attempt says: its end, its steps, and that it is still at it.

use super::{Answer, Change, Moment, Step, Verb, Wake};
use crate::record::{Doubt, MAX_STEPS, Policy, Record, State, StepRecord, StepState};
use crate::time::after;
use crate::value::Value;

/// What only the holder of the present attempt may do. A lease that is over does not end the right of a holder who was
/// not replaced.
pub(super) fn by_holder(record: &Record, verb: &Verb, nonce: u64, moment: Moment) -> Step {
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
    if matches!(record.state, State::InDoubt { .. })
        && matches!(verb, Verb::Renew { .. } | Verb::BeginStep { .. })
    {
        // Somebody has said that it is in doubt: its end may still be told, but it does not go on.
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
            if record.terms.in_doubt != Policy::Rerun && record.begun_step().is_some() =>
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
            // It may be told any number of times; what was told before it, and is on its way again, is still known.
            next.nonce = record.nonce;
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
    let reruns = next.terms.in_doubt == Policy::Rerun;
    match next.steps.iter().position(|step| step.name == name) {
        Some(at) => match &mut next.steps[at].state {
            StepState::Done(value) => return Step::keep(Answer::StepDone(value.clone())),
            // This attempt has begun it, and nothing was heard since.
            state if *state == begun && !reruns => {
                return Step::keep(Answer::InDoubt {
                    since_us: next.claimed_us,
                    doubt: Doubt::Step(name.to_owned()),
                });
            }
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
