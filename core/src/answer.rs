//! What a claim is answered. Answers are values: a duplicate is no error.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::record::Doubt;
use crate::ticket::Ticket;
use crate::value::{Failure, Value};

/// The answer to a claim.
#[derive(Debug)]
pub enum Claim {
    /// Yours: run the operation, then finish the ticket.
    Execute(Ticket),
    /// It was done: here is its result.
    Replay(Replay),
    /// It was done, and this error is its result.
    Failed(Failed),
    /// Somebody runs it now.
    Busy(Busy),
    /// The key belongs to another request.
    Mismatch(Mismatch),
    /// It may have been done; nobody runs it until somebody who knows resolves it.
    InDoubt(InDoubt),
    /// It was done; the result is no longer kept.
    Gone(Gone),
    /// The same request came under another id before.
    Twin(Twin),
}

impl Claim {
    /// The answer's word, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Execute(_) => "execute",
            Self::Replay(_) => "replay",
            Self::Failed(_) => "failed",
            Self::Busy(_) => "busy",
            Self::Mismatch(_) => "mismatch",
            Self::InDoubt(_) => "in_doubt",
            Self::Gone(_) => "gone",
            Self::Twin(_) => "twin",
        }
    }

    /// Which attempt the answer is of, from 1; of a twin, the attempt of the first id. 0 when nobody has begun, since a
    /// caller that waited has the turn.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Execute(ticket) => ticket.attempt(),
            Self::Replay(answer) => answer.attempt,
            Self::Failed(answer) => answer.attempt,
            Self::Busy(answer) => answer.attempt,
            Self::Mismatch(answer) => answer.attempt,
            Self::InDoubt(answer) => answer.attempt,
            Self::Gone(answer) => answer.attempt,
            Self::Twin(answer) => answer.attempt,
        }
    }

    /// When the operation was first executed: microseconds since the Unix epoch.
    pub fn first_executed_us(&self) -> u64 {
        match self {
            Self::Execute(ticket) => ticket.first_executed_us(),
            Self::Replay(answer) => answer.first_executed_us,
            Self::Failed(answer) => answer.first_executed_us,
            Self::Busy(answer) => answer.first_executed_us,
            Self::Mismatch(answer) => answer.first_executed_us,
            Self::InDoubt(answer) => answer.first_executed_us,
            Self::Gone(answer) => answer.first_executed_us,
            Self::Twin(answer) => answer.first_executed_us,
        }
    }

    /// Whether the answer is that of an earlier execution.
    pub fn replayed(&self) -> bool {
        matches!(self, Self::Replay(_) | Self::Failed(_) | Self::Gone(_))
    }
}

/// A result that was kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The result.
    pub value: Value,
    /// The attempt that gave it.
    pub attempt: u32,
    /// The fence of that attempt.
    pub fence: u64,
    /// When the operation was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
    /// The id under which the same request came before, when twins are looked for.
    pub twin: Option<String>,
}

impl Replay {
    /// The result as a value of Rust.
    ///
    /// # Errors
    /// `InvalidInput` when it is of another type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.value.decode()
    }
}

/// An error that was kept as the result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// The error.
    pub failure: Failure,
    /// The attempt that gave it.
    pub attempt: u32,
    /// When the operation was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
}

/// An attempt that runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Busy {
    /// Which attempt; 0 when none has begun, since a caller that waited has the turn.
    pub attempt: u32,
    /// When the operation was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
    /// When this attempt began: microseconds since the Unix epoch.
    pub since_us: u64,
    /// What is left of its lease; `None` for a lease without end.
    pub lease_remaining: Option<Duration>,
    /// Who runs it, in the holder's words.
    pub holder: Option<String>,
    /// When it is worth asking again.
    pub retry_after: Duration,
}

/// A key that belongs to another request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mismatch {
    /// The top-level members of the payload that differ, by name; empty when the payload is no object.
    pub fields: Vec<String>,
    /// The attempt of the other request.
    pub attempt: u32,
    /// When the other request was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
}

/// An attempt whose effect is unknown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InDoubt {
    /// Since when: microseconds since the Unix epoch.
    pub since_us: u64,
    /// What ended the attempt.
    pub doubt: Doubt,
    /// Which attempt.
    pub attempt: u32,
    /// Its fence, which a resolution names.
    pub fence: u64,
    /// When the operation was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
    /// Since when, why, and the command that resolves it.
    pub message: String,
}

/// An operation that was done, and whose result is no longer kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gone {
    /// The attempt that did it.
    pub attempt: u32,
    /// When the operation was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
}

/// The same request under another id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Twin {
    /// The id under which it came first.
    pub first_id: String,
    /// The attempt of that operation.
    pub attempt: u32,
    /// When that operation was first executed: microseconds since the Unix epoch.
    pub first_executed_us: u64,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempt {
            0 => f.write_str("a caller that waited has the turn")?,
            attempt => write!(f, "attempt {attempt} is running")?,
        }
        if let Some(holder) = &self.holder {
            write!(f, " (held by {holder})")?;
        }
        write!(
            f,
            "; ask again in {} ms",
            self.retry_after.as_millis().max(1)
        )
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key was used for another request")?;
        match self.fields.is_empty() {
            true => Ok(()),
            false => write!(f, "; these differ: {}", self.fields.join(", ")),
        }
    }
}

impl fmt::Display for InDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was executed, and its result is no longer kept")
    }
}

impl fmt::Display for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the same request came before under the id {:?}",
            self.first_id
        )
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it failed before: {}", self.failure)
    }
}
