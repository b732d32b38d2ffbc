//! What is remembered of one key: its state, the attempt that holds it, and the promises frozen at its first claim.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::time::{NEVER_US, after};
use crate::value::{Failure, Value};

/// The most step names one record keeps.
pub const MAX_STEPS: usize = 64;

/// What happens to a key whose attempt ended with unknown effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Policy {
    /// Nobody runs it again until somebody resolves it: money may have moved.
    #[default]
    Hold,
    /// The next claim runs it again: for work that may safely repeat.
    Rerun,
    /// The next claim asks the caller's `confirm` whether it was done.
    Ask,
}

/// The rules a record lives by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) in_doubt: Policy,
    /// How many attempts may start; 0 is without end.
    pub(crate) max_attempts: u32,
    /// `NEVER_US` is a lease without end.
    pub(crate) lease_us: u64,
    /// How long a finished record keeps its result; `NEVER_US` is for ever.
    pub(crate) retain_us: u64,
    /// How long after that the bare fact is kept.
    pub(crate) remember_us: u64,
}

/// Who runs an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The process that holds, as the store counts processes.
    pub(crate) session: u64,
    /// The thread or task within it; 0 is unknown.
    pub(crate) caller: u64,
    /// The caller's own words.
    pub(crate) label: Option<Arc<str>>,
}

/// Why nobody knows whether an attempt took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Doubt {
    /// The lease ended and the holder said nothing.
    LeaseEnded,
    /// The process that held a lease without end is gone.
    HolderGone,
    /// The work panicked.
    Panicked,
    /// The work ended with an error that says neither "try again" nor "final".
    Unclassified(String),
    /// The work was cancelled after it had started.
    Cancelled,
    /// The ticket was dropped unfinished.
    Dropped,
    /// A step of the work ended with unknown effect; its name.
    Step(String),
    /// The caller said so, in these words.
    Stated(String),
    /// All attempts are used up and one of them ended with unknown effect.
    AttemptsUsedUp,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LeaseEnded => f.write_str("its lease ended without a word from the holder"),
            Self::HolderGone => f.write_str("the process that held it is gone"),
            Self::Panicked => f.write_str("the work panicked"),
            Self::Unclassified(error) => {
                write!(f, "the work ended with an unclassified error: {error}")
            }
            Self::Cancelled => f.write_str("the work was cancelled after it had started"),
            Self::Dropped => f.write_str("its ticket was dropped unfinished"),
            Self::Step(name) => write!(f, "the step {name:?} ended with unknown effect"),
            Self::Stated(words) => f.write_str(words),
            Self::AttemptsUsedUp => {
                f.write_str("its attempts are used up and one of them ended with unknown effect")
            }
        }
    }
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// An attempt runs until its lease ends.
    Running { lease_until_us: u64 },
    /// A caller asks whether the attempt in doubt took effect; only its outcome with this nonce counts.
    Confirming {
        until_us: u64,
        nonce: u64,
        since_us: u64,
        doubt: Doubt,
    },
    /// The attempt ended with unknown effect.
    InDoubt { since_us: u64, doubt: Doubt },
    /// The attempt is known to have had no effect.
    Released { at_us: u64 },
    /// Done; `None` when the result could not be kept or its time is over.
    Succeeded { at_us: u64, value: Option<Value> },
    /// Done, with an error as its result; `None` when its time is over.
    Failed {
        at_us: u64,
        failure: Option<Failure>,
    },
}

/// One named step of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    pub(crate) name: String,
    pub(crate) state: StepState,
}

/// How far a step came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StepState {
    /// Begun by the attempt of this fence, and nothing heard since.
    Begun { fence: u64 },
    /// Its result.
    Done(Value),
}

/// All that is remembered of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Rises with every change of any record of the store; set when the change is taken up.
    pub(crate) version: u64,
    /// Rises with every attempt of this key; handed to others downstream.
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    /// When the first attempt began.
    pub(crate) first_us: u64,
    /// When the present attempt began.
    pub(crate) claimed_us: u64,
    pub(crate) state: State,
    pub(crate) terms: Terms,
    pub(crate) fingerprint: Option<Arc<Fingerprint>>,
    /// Whether an earlier attempt ended with unknown effect.
    pub(crate) earlier_doubt: bool,
    pub(crate) holder: Holder,
    /// Of the event that claimed the present attempt: the same event again gets the same answer.
    pub(crate) claim_nonce: u64,
    /// Of the event that made this version.
    pub(crate) nonce: u64,
    pub(crate) steps: Vec<StepRecord>,
}

impl Record {
    /// Whether no further attempt may start.
    pub(crate) fn exhausted(&self) -> bool {
        self.terms.max_attempts != 0 && self.attempt >= self.terms.max_attempts
    }

    /// Whether the lease of a running attempt is over at `now_us`.
    pub(crate) fn lease_over(&self, now_us: u64, holder_gone: bool) -> bool {
        match self.state {
            State::Running {
                lease_until_us: NEVER_US,
            } => holder_gone,
            State::Running { lease_until_us } => now_us >= lease_until_us,
            State::Confirming { until_us, .. } => now_us >= until_us,
            _ => false,
        }
    }

    /// The doubt the record is in at `now_us`, and since when.
    pub(crate) fn doubt(&self, now_us: u64, holder_gone: bool) -> Option<(u64, Doubt)> {
        let unheard = |doubt| {
            self.begun_step()
                .map_or(doubt, |name| Doubt::Step(name.to_owned()))
        };
        match &self.state {
            State::InDoubt { since_us, doubt } => Some((*since_us, doubt.clone())),
            State::Confirming {
                until_us,
                since_us,
                doubt,
                ..
            } if now_us >= *until_us => Some((*since_us, doubt.clone())),
            State::Running {
                lease_until_us: NEVER_US,
            } if holder_gone => Some((self.claimed_us, unheard(Doubt::HolderGone))),
            State::Running { lease_until_us } if now_us >= *lease_until_us => {
                Some((*lease_until_us, unheard(Doubt::LeaseEnded)))
            }
            State::Released { at_us } if self.exhausted() && self.earlier_doubt => {
                Some((*at_us, Doubt::AttemptsUsedUp))
            }
            _ => None,
        }
    }

    /// Whether somebody must resolve the record before its operation can go on.
    pub(crate) fn unresolved(&self, now_us: u64, holder_gone: bool) -> bool {
        self.doubt(now_us, holder_gone).is_some() && self.doubt_holds()
    }

    /// Whether a doubt about this record keeps it for ever, rather than letting the next claim run it again.
    fn doubt_holds(&self) -> bool {
        self.terms.in_doubt != Policy::Rerun || self.exhausted()
    }

    /// The step that the present attempt began and said nothing of since.
    pub(crate) fn begun_step(&self) -> Option<&str> {
        let open = |step: &&StepRecord| matches!(step.state, StepState::Begun { fence } if fence == self.fence);
        self.steps.iter().find(open).map(|step| step.name.as_str())
    }

    /// When the result is dropped; `NEVER_US` while there is none to drop.
    pub(crate) fn retained_until_us(&self) -> u64 {
        match self.state {
            State::Succeeded { at_us, .. } | State::Failed { at_us, .. } => {
                after(at_us, self.terms.retain_us)
            }
            _ => NEVER_US,
        }
    }

    /// When the record is forgotten. Never, while its effect is unknown and nobody may run it again.
    pub(crate) fn forgotten_at_us(&self) -> u64 {
        let retain = |from| after(from, self.terms.retain_us);
        match self.state {
            State::Succeeded { .. } | State::Failed { .. } => {
                after(self.retained_until_us(), self.terms.remember_us)
            }
            State::Released { .. } if self.exhausted() && self.earlier_doubt => NEVER_US,
            State::Released { at_us } => retain(at_us),
            _ if self.doubt_holds() => NEVER_US,
            State::Running { lease_until_us } => retain(lease_until_us),
            State::InDoubt { since_us, .. } => retain(since_us),
            State::Confirming { until_us, .. } => retain(until_us),
        }
    }

    /// Whether the record counts as absent at `now_us`.
    pub(crate) fn forgotten(&self, now_us: u64) -> bool {
        now_us >= self.forgotten_at_us()
    }

    /// The same fact without its result, once the result's time is over.
    pub(crate) fn without_result(&self) -> Self {
        let mut bare = self.clone();
        bare.steps.clear();
        match &mut bare.state {
            State::Succeeded { value, .. } => *value = None,
            State::Failed { failure, .. } => *failure = None,
            _ => {}
        }
        bare
    }

    /// Since when an attempt without an end is to be watched: the lease's end, the doubt's or the release's beginning.
    /// `None` for what has ended.
    pub(crate) fn open_since_us(&self) -> Option<u64> {
        match self.state {
            State::Running { lease_until_us } => Some(lease_until_us),
            State::Confirming { since_us, .. } | State::InDoubt { since_us, .. } => Some(since_us),
            State::Released { at_us } => Some(at_us),
            State::Succeeded { .. } | State::Failed { .. } => None,
        }
    }

    /// Every time in the record, and its fence, which is like one: all but the version.
    pub(crate) fn times(&mut self) -> impl Iterator<Item = &mut u64> {
        let of_state = match &mut self.state {
            State::Running {
                lease_until_us: at_us,
            }
            | State::Released { at_us }
            | State::Succeeded { at_us, .. }
            | State::Failed { at_us, .. }
            | State::InDoubt {
                since_us: at_us, ..
            } => [Some(at_us), None],
            State::Confirming {
                until_us, since_us, ..
            } => [Some(until_us), Some(since_us)],
        };
        let of_record = [&mut self.fence, &mut self.first_us, &mut self.claimed_us];
        of_record.into_iter().chain(of_state.into_iter().flatten())
    }

    /// Roughly how much memory the record takes, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let value = |value: &Value| value.as_bytes().len();
        let state = match &self.state {
            State::Succeeded { value: Some(v), .. } => value(v),
            State::Failed {
                failure: Some(f), ..
            } => f.code.len() + f.kind.len() + f.message.len(),
            _ => 0,
        };
        let steps: usize = self
            .steps
            .iter()
            .map(|s| {
                s.name.len()
                    + 64
                    + if let StepState::Done(v) = &s.state {
                        value(v)
                    } else {
                        0
                    }
            })
            .sum();
        let fields = self.fingerprint.as_ref().map_or(0, |f| {
            80 + f.fields.iter().map(|f| f.name.len() + 32).sum::<usize>()
        });
        size_of::<Self>() + state + steps + fields
    }
}
