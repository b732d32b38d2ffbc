//! The answer to a claim, and the ticket in it: what a caller has in hand.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use semel::binding::{self, Step};
use semel::{Claim as Answer, StepError, Ticket, WorkError};

use crate::answers;
use crate::errors::{OrRaise, invalid, raised};
use crate::failure::{Known, failure};
use crate::kept::Result as Kept;
use crate::shared::Shared;
use crate::times;
use crate::values;

/// Scope, operation and id.
pub(crate) type Name = (Option<String>, String, String);

/// The answer to a claim. When it is "execute", it is the ticket as well: run the operation, then finish it with complete,
/// fail or release. A ticket that is dropped unfinished leaves the operation in doubt.
///
/// >>> import semel
/// >>> store = semel.open("memory:")
/// >>> claim = store.claim("order.create", "ORDER_1", payload={"amount": 100})
/// >>> claim.answer
/// 'execute'
/// >>> claim.complete("created")
/// 'created'
/// >>> store.claim("order.create", "ORDER_1", payload={"amount": 100}).result()
/// 'created'
#[pyclass(frozen, module = "semel", name = "Claim")]
pub(crate) struct Claim {
    pub(crate) answer: Answer,
    pub(crate) name: Name,
    shared: Arc<Shared>,
}

impl Claim {
    pub(crate) fn new(answer: Answer, name: Name, shared: &Arc<Shared>) -> Self {
        Self {
            answer,
            name,
            shared: Arc::clone(shared),
        }
    }

    pub(crate) fn ticket(&self, py: Python<'_>) -> PyResult<&Ticket> {
        match &self.answer {
            Answer::Execute(ticket) => Ok(ticket),
            other => Err(invalid(
                py,
                format!(
                    "the answer is {:?}, not \"execute\": there is no ticket to finish",
                    other.name()
                ),
            )),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn finish(
        &self,
        py: Python<'_>,
        end: impl FnOnce(&Ticket) -> semel::Result<()> + Send,
    ) -> PyResult<()> {
        let ticket = self.ticket(py)?;
        py.detach(|| end(ticket)).or_raise(py)
    }
}

#[pymethods]
impl Claim {
    /// "execute", "replay", "failed", "busy", "mismatch", "in_doubt", "gone" or "twin".
    #[getter]
    fn answer(&self) -> &'static str {
        self.answer.name()
    }

    /// Whether the answer is that of an earlier execution.
    #[getter]
    fn replayed(&self) -> bool {
        self.answer.replayed()
    }

    /// Which attempt the answer is of, from 1; 0 when none has begun, since a caller that waited has the turn.
    #[getter]
    fn attempt(&self) -> u32 {
        self.answer.attempt()
    }

    /// A number that is higher for every attempt of the key: hand it to services that can refuse a lower one. None when the
    /// answer has none.
    #[getter]
    fn fence(&self) -> Option<u64> {
        match &self.answer {
            Answer::Execute(ticket) => Some(ticket.fence()),
            Answer::Replay(replay) => Some(replay.fence),
            Answer::InDoubt(doubt) => Some(doubt.fence),
            _ => None,
        }
    }

    /// Scope, operation and id.
    #[getter]
    fn key(&self) -> (Option<&str>, &str, &str) {
        let (scope, operation, id) = &self.name;
        (scope.as_deref(), operation, id)
    }

    /// Seconds after which it is worth asking again; None when the answer is not "busy".
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        match &self.answer {
            Answer::Busy(busy) => Some(busy.retry_after.as_secs_f64()),
            _ => None,
        }
    }

    /// Who runs it, in the holder's words; None when the answer is not "busy", or he gave none.
    #[getter]
    fn holder(&self) -> Option<&str> {
        match &self.answer {
            Answer::Busy(busy) => busy.holder.as_deref(),
            _ => None,
        }
    }

    /// Seconds left of the lease of the attempt that runs; None without end, or when the answer is not "busy".
    #[getter]
    fn lease_remaining(&self) -> Option<f64> {
        match &self.answer {
            Answer::Busy(busy) => busy.lease_remaining.map(|left| left.as_secs_f64()),
            _ => None,
        }
    }

    /// The top-level members of the payload that differ, when the answer is "mismatch".
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match &self.answer {
            Answer::Mismatch(mismatch) => PyTuple::new(py, &mismatch.fields),
            _ => Ok(PyTuple::empty(py)),
        }
    }

    /// When the operation was first executed: an aware datetime in UTC.
    #[getter]
    fn executed_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::moment(py, self.answer.first_executed_us())
    }

    /// Since when: the attempt runs ("busy"), or is in doubt ("in_doubt"); else None.
    #[getter]
    fn since<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let since_us = match &self.answer {
            Answer::Busy(busy) => Some(busy.since_us),
            Answer::InDoubt(doubt) => Some(doubt.since_us),
            _ => None,
        };
        times::maybe_moment(py, since_us)
    }

    /// The id under which the same request came before, when twins are looked for.
    #[getter]
    fn twin(&self) -> Option<&str> {
        match &self.answer {
            Answer::Execute(ticket) => ticket.twin(),
            Answer::Replay(replay) => replay.twin.as_deref(),
            Answer::Twin(twin) => Some(&twin.first_id),
            _ => None,
        }
    }

    /// Whether an earlier attempt ended with unknown effect, so that this one may be the second to take it.
    #[getter]
    fn takeover(&self) -> bool {
        matches!(&self.answer, Answer::Execute(ticket) if ticket.is_takeover())
    }

    /// Whether the key is known to be lost to another.
    #[getter]
    fn lost(&self) -> bool {
        matches!(&self.answer, Answer::Execute(ticket) if ticket.lost())
    }

    /// The kept result, read as the type of `returns` when that is given.
    ///
    /// Raises Failed for a kept error, and Busy, Mismatch, InDoubt, Gone or Twin when there is no result.
    #[pyo3(signature = (returns=None))]
    fn result<'py>(
        &self,
        py: Python<'py>,
        returns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.answer {
            Answer::Replay(replay) => values::decode(py, &replay.value, returns),
            Answer::Execute(_) => Err(invalid(
                py,
                "the answer is \"execute\": there is no result yet; run the operation, and complete the claim",
            )),
            other => Err(answers::not_executed(py, other, &self.name)),
        }
    }

    /// Keeps the result; every repeat gets it. Gives back the result as repeats get it.
    ///
    /// A result that cannot be encoded, or is larger than the store keeps, is recorded as executed without it, with a
    /// ResultNotKept warning: repeats are answered "gone".
    ///
    /// Raises Lost when another holds the key now, or the ticket is finished: nothing was changed. Unavailable when the
    /// store cannot keep it now: the key is not freed, and complete may be called again.
    #[pyo3(signature = (value=None))]
    fn complete<'py>(
        &self,
        py: Python<'py>,
        value: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = value.unwrap_or_else(|| py.None().into_bound(py));
        let kept = Kept::of(&value, None);
        self.finish(py, |ticket| kept.complete(ticket))?;
        self.shared.warn_if_not_kept(py, &kept)?;
        kept.object(py, None)
    }

    /// Records that the operation was executed, without a result: repeats are answered "gone".
    ///
    /// Raises as complete.
    fn complete_without_result(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py, Ticket::complete_without_result)
    }

    /// Keeps an error as the result; every repeat gets it. `error` is an exception, whose `code` is kept when it is a text,
    /// or a dict with code and message.
    ///
    /// Raises as complete.
    fn fail(&self, py: Python<'_>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let failure = failure(error)?;
        self.finish(py, |ticket| ticket.fail(failure))
    }

    /// Says that the operation took no effect and may run again. Raises as complete.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py, Ticket::release)
    }

    /// Says that nobody knows whether the operation took effect, and why. Raises as complete.
    fn doubt(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        self.finish(py, |ticket| ticket.doubt(why))
    }

    /// Starts the lease anew, as is done by itself at a third of it. Raises Lost when another holds the key now.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py, Ticket::renew)
    }

    /// A key for another service that is the same in every attempt: 32 hexadecimal digits that tell nothing of this key.
    fn derive_key(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        Ok(self.ticket(py)?.derive_key(name))
    }

    /// Runs a named step of the work, once: an attempt that follows skips steps that are done, and gets their results. At
    /// most 64 names.
    ///
    /// Retryable and Terminal, and the exceptions named in `retry_on` and `fail_on`, say that the step took no effect; any
    /// other leaves the step, and but for in_doubt="rerun" the operation, in doubt.
    #[pyo3(signature = (name, work, *, retry_on=None, fail_on=None, returns=None))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        work: &Bound<'py, PyAny>,
        retry_on: Option<&Bound<'py, PyAny>>,
        fail_on: Option<&Bound<'py, PyAny>>,
        returns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ticket = self.ticket(py)?;
        let known = Known::of(retry_on, fail_on)?;
        let begun = py.detach(|| binding::block_on(binding::begin_step(ticket, name)));
        let run = match begun.or_raise(py)? {
            Step::Done(value) => return values::decode(py, &value, returns),
            Step::Run(run) => run,
        };
        let outcome = step_outcome(py, work.call0(), &known, returns);
        let concluded = py.detach(|| binding::block_on(run.conclude(outcome)));
        step_result(py, concluded)
    }

    fn __repr__(&self) -> String {
        let (_, operation, id) = &self.name;
        format!(
            "<semel.Claim {operation} {id:?}: {}, attempt {}>",
            self.answer.name(),
            self.attempt()
        )
    }
}

/// What a step came to, as it is kept.
pub(crate) fn step_outcome(
    py: Python<'_>,
    told: PyResult<Bound<'_, PyAny>>,
    known: &Known,
    returns: Option<&Bound<'_, PyAny>>,
) -> Result<Kept, WorkError<PyErr>> {
    told.map(|value| Kept::of(&value, returns.map(|kind| kind.clone().unbind()).as_ref()))
        .map_err(|error| known.classify(py, error))
}

/// What a concluded step gives to the caller.
pub(crate) fn step_result<'py>(
    py: Python<'py>,
    concluded: Result<Kept, StepError<PyErr>>,
) -> PyResult<Bound<'py, PyAny>> {
    match concluded {
        Ok(kept) => kept.object(py, None),
        Err(StepError::Work(error)) => Err(error.into_inner()),
        Err(StepError::Store(error)) => Err(raised(py, &error)),
    }
}
