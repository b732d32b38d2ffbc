//! Answers that are no result, as exceptions.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use semel::{Busy, Claim as Answer, RunError};

use crate::claim::Name;
use crate::errors::{build, raised};
use crate::kept;
use crate::times;

/// The exception of an answer that gives no result.
pub(crate) fn not_executed(py: Python<'_>, answer: &Answer, name: &Name) -> PyErr {
    told(py, answer, name).unwrap_or_else(|error| error)
}

/// What is known of whoever holds it.
pub(crate) fn held(facts: &Bound<'_, PyDict>, busy: &Busy) -> PyResult<()> {
    facts.set_item("since", times::moment(facts.py(), busy.since_us)?)?;
    let left = busy.lease_remaining.map(|left| left.as_secs_f64());
    facts.set_item("lease_remaining", left)?;
    facts.set_item("holder", &busy.holder)?;
    facts.set_item("retry_after", busy.retry_after.as_secs_f64())
}

fn told(py: Python<'_>, answer: &Answer, name: &Name) -> PyResult<PyErr> {
    let facts = PyDict::new(py);
    facts.set_item("key", name)?;
    facts.set_item("attempt", answer.attempt())?;
    facts.set_item(
        "executed_at",
        times::moment(py, answer.first_executed_us())?,
    )?;
    let (class, message) = match answer {
        Answer::Busy(busy) => {
            held(&facts, busy)?;
            ("Busy", busy.to_string())
        }
        Answer::Mismatch(mismatch) => {
            facts.set_item("fields", PyTuple::new(py, &mismatch.fields)?)?;
            ("Mismatch", mismatch.to_string())
        }
        Answer::InDoubt(doubt) => {
            facts.set_item("since", times::moment(py, doubt.since_us)?)?;
            facts.set_item("doubt", doubt.doubt.to_string())?;
            facts.set_item("fence", doubt.fence)?;
            let (scope, operation, id) = name;
            let scope = scope
                .as_ref()
                .map(|scope| format!(", scope={scope:?}"))
                .unwrap_or_default();
            let way_out = format!(
                "{}; or store.resolve({operation:?}, {id:?}{scope}, fence={}, value= | error= | executed=True | rerun=True)",
                doubt.message, doubt.fence
            );
            ("InDoubt", format!("{operation} {id:?}: {way_out}"))
        }
        Answer::Gone(gone) => ("Gone", gone.to_string()),
        Answer::Twin(twin) => {
            facts.set_item("first_id", &twin.first_id)?;
            ("Twin", twin.to_string())
        }
        Answer::Failed(failed) => {
            facts.set_item("code", &failed.failure.code)?;
            facts.set_item("kind", &failed.failure.kind)?;
            return Ok(build(py, "Failed", &failed.failure.message, Some(&facts)));
        }
        Answer::Execute(_) | Answer::Replay(_) => ("Error", answer.name().to_owned()),
    };
    let message = match class {
        "InDoubt" => message,
        _ => format!("{} {:?}: {message}", name.1, name.2),
    };
    Ok(build(py, class, &message, Some(&facts)))
}

/// The exception of an operation of a batch that gave no value.
pub(crate) fn of_run(py: Python<'_>, error: RunError<kept::Result, PyErr>, name: &Name) -> PyErr {
    let answer = match error {
        RunError::Busy(busy) => Answer::Busy(busy),
        RunError::Mismatch(mismatch) => Answer::Mismatch(mismatch),
        RunError::InDoubt(doubt) => Answer::InDoubt(doubt),
        RunError::Gone(gone) => Answer::Gone(gone),
        RunError::Twin(twin) => Answer::Twin(twin),
        RunError::Failed(failed) => Answer::Failed(failed),
        of_work => return self::of_work(py, of_work),
    };
    not_executed(py, &answer, name)
}

/// The exception of work that was run and gave no value.
pub(crate) fn of_work(py: Python<'_>, error: RunError<kept::Result, PyErr>) -> PyErr {
    match error {
        RunError::Work(error) => error,
        RunError::Store(error) => raised(py, &error),
        RunError::Lost(kept) => {
            let facts = PyDict::new(py);
            let value = kept.object(py, None);
            if let Err(error) = value.and_then(|value| facts.set_item("value", value)) {
                return error;
            }
            let message = "executed, but the ticket had been lost, or was finished by the work itself: repeats get another result";
            build(py, "Lost", message, Some(&facts))
        }
        other => build(py, "Error", &other.to_string(), None),
    }
}
