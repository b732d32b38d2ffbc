//! What is promised of an event: whether it may wait for room, and what has to be on disk before its answer shows.

use crate::backend::{Admission, Durability};
use crate::codec::Content;
use crate::lifecycle::{Answer, Event, Verb};
use crate::record::Policy;

/// How an event is treated when the store is short of room.
pub(super) fn admission(event: &Event) -> Admission {
    match event.verb {
        Verb::Claim(_) => Admission::Claim,
        _ => Admission::Finish,
    }
}

/// Whether a change has to be on disk before its answer shows. The policy that counts is the one frozen in the record.
pub(super) fn promised(verb: &Verb, content: Option<&Content>, durability: Durability) -> bool {
    let holds = || matches!(content, Some(Content::Record(record)) if record.terms.in_doubt != Policy::Rerun);
    match verb {
        Verb::Claim(_) => durability == Durability::Sync || holds(),
        Verb::Complete { .. }
        | Verb::Fail { .. }
        | Verb::Release { .. }
        | Verb::BeginStep { .. }
        | Verb::EndStep { .. } => durability == Durability::Sync,
        Verb::Confirm { .. } | Verb::Resolve { .. } | Verb::Forget { .. } => true,
        // Lost in a crash, they leave a running record whose lease ends all the same.
        Verb::Doubt { .. } | Verb::Renew { .. } | Verb::Withdraw { .. } | Verb::Unlock { .. } => {
            false
        }
    }
}

/// Whether an answer shows something of the record that a crash could take back.
pub(super) fn shows_state(answer: &Answer) -> bool {
    !matches!(answer, Answer::Busy { .. } | Answer::Lost)
}
