//! The table of a record's life, cell by cell: given a record, an event and a time, what is answered and what becomes of it.

use std::sync::Arc;

use super::*;
use crate::fingerprint::{CURRENT_VERSION, Fingerprint};
use crate::record::{Policy, State};

mod claims;
mod confirming;
mod holder;
mod steps;

/// When the attempt of a test's record began.
const T: u64 = 1_000_000;
const LEASE: u64 = 30;
const RETAIN: u64 = 100;
const REMEMBER: u64 = 50;
const FENCE: u64 = 7;
/// Of the event that made a test's record.
const MADE_BY: u64 = 1;
/// Of an event that is new.
const FRESH: u64 = 2;

const POLICIES: [Policy; 3] = [Policy::Hold, Policy::Rerun, Policy::Ask];

fn terms(in_doubt: Policy) -> Terms {
    Terms {
        in_doubt,
        max_attempts: 0,
        lease_us: LEASE,
        retain_us: RETAIN,
        remember_us: REMEMBER,
    }
}

fn print(json: &str) -> Option<Arc<Fingerprint>> {
    let payload = crate::Canonical::from_json(json.as_bytes()).expect("JSON");
    Some(Arc::new(
        Fingerprint::keyed(&[7; 32], CURRENT_VERSION, &payload).expect("a fingerprint"),
    ))
}

fn record(state: State) -> Record {
    Record {
        version: FENCE,
        fence: FENCE,
        attempt: 1,
        first_us: T - 5,
        claimed_us: T,
        state,
        terms: terms(Policy::Hold),
        fingerprint: print(r#"{"amount":1}"#),
        earlier_doubt: false,
        holder: Holder::default(),
        claim_nonce: MADE_BY,
        nonce: MADE_BY,
        steps: Vec::new(),
    }
}

fn running() -> Record {
    record(State::Running {
        lease_until_us: T + LEASE,
    })
}

fn in_doubt() -> Record {
    record(State::InDoubt {
        since_us: T,
        doubt: Doubt::Panicked,
    })
}

fn confirming(asked: u64) -> Record {
    record(State::Confirming {
        until_us: T + CONFIRM_US,
        nonce: asked,
        since_us: T,
        doubt: Doubt::LeaseEnded,
    })
}

fn released() -> Record {
    record(State::Released { at_us: T })
}

fn succeeded() -> Record {
    record(State::Succeeded {
        at_us: T,
        value: Some(value()),
    })
}

fn failed() -> Record {
    record(State::Failed {
        at_us: T,
        failure: Some(declined()),
    })
}

fn value() -> Value {
    Value::bytes(*b"paid")
}

fn declined() -> Failure {
    Failure::new("declined", "no funds")
}

impl Record {
    fn under(mut self, policy: Policy) -> Self {
        self.terms.in_doubt = policy;
        self
    }

    /// The last attempt that may start.
    fn last_attempt(mut self) -> Self {
        self.terms.max_attempts = self.attempt;
        self
    }

    fn after_a_doubt(mut self) -> Self {
        self.earlier_doubt = true;
        self
    }
}

fn at(now_us: u64) -> Moment {
    Moment {
        now_us,
        holder_gone: false,
        turn_until_us: 0,
    }
}

fn claiming(fingerprint: Option<Arc<Fingerprint>>) -> Claiming {
    Claiming {
        terms: terms(Policy::Hold),
        fingerprint,
        holder: Holder::default(),
        can_confirm: true,
    }
}

fn event(nonce: u64, verb: Verb) -> Event {
    Event { nonce, verb }
}

/// The answer in a few words; an execution names the attempt.
fn told(step: &Step) -> String {
    match (&step.answer, &step.change) {
        (Answer::Execute { takeover }, Change::Put(record)) => {
            let word = if *takeover { "takeover" } else { "execute" };
            format!("{word} {}", record.attempt)
        }
        (Answer::Execute { takeover }, _) => format!("execute again {takeover}"),
        (Answer::Replay(_), _) => "replay".into(),
        (Answer::Failed(failure), _) => format!("failed {}", failure.code),
        (Answer::Busy { .. }, _) => "busy".into(),
        (Answer::Mismatch { fields }, _) => format!("mismatch {}", fields.join(" ")),
        (Answer::InDoubt { .. }, _) => "in doubt".into(),
        (Answer::Ask { .. }, _) => "ask".into(),
        (Answer::Gone, _) => "gone".into(),
        (Answer::Done { late: true }, _) => "done late".into(),
        (Answer::Done { late: false }, _) => "done".into(),
        (Answer::Lost, _) => "lost".into(),
        (Answer::StepDone(_), _) => "step done".into(),
        (Answer::StepsFull, _) => "steps full".into(),
        (Answer::NotInDoubt, _) => "not in doubt".into(),
        (Answer::Absent, _) => "absent".into(),
    }
}

/// What becomes of the record, in a word; `kept` when nothing does.
fn became(step: &Step) -> String {
    match &step.change {
        Change::Keep => "kept".into(),
        Change::Remove => "absent".into(),
        Change::Put(record) => match &record.state {
            State::Running { lease_until_us } => format!("running +{}", lease_until_us - T),
            State::Confirming { .. } => "confirming".into(),
            State::InDoubt { doubt, .. } => format!("in doubt: {doubt:?}"),
            State::Released { .. } => "released".into(),
            State::Succeeded { value, .. } if value.is_some() => "succeeded".into(),
            State::Succeeded { .. } => "gone".into(),
            State::Failed { failure, .. } => {
                format!("failed {}", failure.as_ref().map_or("", |f| &f.code))
            }
        },
    }
}

/// Answer, new state and who is woken, in one line.
fn whole(step: &Step) -> String {
    let wakes = match step.wake {
        Wake::Nobody => "",
        Wake::First => ", wakes the first",
        Wake::Everybody => ", wakes all",
    };
    format!("{} -> {}{wakes}", told(step), became(step))
}
