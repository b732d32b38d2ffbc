//! The one switch between the demo and its control: the same calls, with semel around the effect or without.

use std::time::Duration;

use crate::cli::exit::Stop;
use crate::{Claim, Request, Store};

/// How long a call waits for another one of its key.
const WAIT: Duration = Duration::from_secs(10);
/// How long the records of a demo are kept.
const RETAIN: Duration = Duration::from_secs(3600);

/// What stands before the effect.
pub(super) enum Guard {
    /// Nothing: every call has its effect.
    Off,
    /// A store that remembers.
    On(Store),
}

/// One call of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'c> {
    pub(super) operation: &'c str,
    pub(super) key: &'c str,
    pub(super) lease: Duration,
}

/// What a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The answer's name, or what became of the caller before it got one.
    pub(super) name: String,
    pub(super) receipt: Option<String>,
}

impl Answer {
    /// An answer by its name.
    pub(super) fn new(name: &str, receipt: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            receipt,
        }
    }
}

impl Guard {
    /// Has the effect, once or as often as called.
    pub(super) fn call(
        &self,
        call: &Call<'_>,
        effect: impl FnOnce() -> Result<String, Stop>,
    ) -> Result<Answer, Stop> {
        let Self::On(store) = self else {
            return Ok(Answer::new("execute", Some(effect()?)));
        };
        let request = Request::new(call.operation, call.key)
            .payload(&("pay", 100))?
            .lease(call.lease)
            .retain(RETAIN)
            .wait(WAIT);
        let claim = store.claim(&request)?;
        let name = claim.name();
        let receipt = match claim {
            Claim::Execute(ticket) => {
                let receipt = effect()?;
                ticket.complete(&receipt)?;
                Some(receipt)
            }
            Claim::Replay(replay) => Some(replay.value.decode()?),
            _ => None,
        };
        Ok(Answer::new(name, receipt))
    }
}
