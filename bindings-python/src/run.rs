//! The one-call form: claim, run the work once, keep what came of it.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use semel::binding;
use semel::{Claim as Answer, Request, Ticket, WorkError};

use crate::answers;
use crate::claim::{Claim, Name};
use crate::errors::OrRaise;
use crate::failure::Known;
use crate::kept;
use crate::shared::Shared;
use crate::values;

/// How work is run.
pub(crate) struct How<'a, 'py> {
    pub(crate) work: &'a Bound<'py, PyAny>,
    /// What the work is called with, besides its ticket.
    pub(crate) arguments: Option<&'a Bound<'py, PyTuple>>,
    pub(crate) keywords: Option<&'a Bound<'py, PyDict>>,
    pub(crate) pass_ticket: bool,
    pub(crate) known: &'a Known,
    pub(crate) returns: Option<&'a Bound<'py, PyAny>>,
}

/// Claims, waiting in slices when it has to wait: signals of Python are seen to.
pub(crate) fn claim(
    py: Python<'_>,
    shared: &Shared,
    request: &Request<'_>,
    waits: bool,
) -> PyResult<Answer> {
    if !waits {
        return py.detach(|| shared.store.claim(request)).or_raise(py);
    }
    interruptible(py, |stop| {
        binding::claim_unless(&shared.store, request, stop)
    })
}

/// A call that waits, and is given up when a signal handler of Python raises.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&mut dyn FnMut() -> bool) -> semel::Result<Option<T>> + Send,
) -> PyResult<T> {
    until_signal(py, call)?.or_raise(py)
}

/// [`interruptible`], with the error of the store as it is.
pub(crate) fn until_signal<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&mut dyn FnMut() -> bool) -> semel::Result<Option<T>> + Send,
) -> PyResult<semel::Result<T>> {
    let mut interrupted = None;
    let told = py.detach(|| {
        call(&mut || {
            let signals = Python::attach(|py| py.check_signals());
            interrupted = signals.err();
            interrupted.is_some()
        })
    });
    match (told, interrupted) {
        (Ok(Some(value)), _) => Ok(Ok(value)),
        (Err(error), _) => Ok(Err(error)),
        (Ok(None), Some(error)) => Err(error),
        (Ok(None), None) => Err(crate::errors::build(
            py,
            "Error",
            "the call was given up",
            None,
        )),
    }
}

/// The value, first or replayed.
pub(crate) fn run<'py>(
    py: Python<'py>,
    shared: &Arc<Shared>,
    request: &Request<'_>,
    waits: bool,
    name: impl FnOnce() -> Name,
    how: &How<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    match claim(py, shared, request, waits)? {
        Answer::Replay(replay) => values::decode(py, &replay.value, how.returns),
        Answer::Execute(ticket) => execute(py, shared, ticket, name(), how),
        other => Err(answers::not_executed(py, &other, &name())),
    }
}

/// Runs the work of a ticket.
pub(crate) fn execute<'py>(
    py: Python<'py>,
    shared: &Arc<Shared>,
    ticket: Ticket,
    name: Name,
    how: &How<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let claim = Claim::new(Answer::Execute(ticket.clone()), name, shared);
    let claim = Py::new(py, claim)?;
    let work = Work {
        function: how.work.clone().unbind(),
        arguments: how.arguments.map(|arguments| arguments.clone().unbind()),
        keywords: how.keywords.map(|keywords| keywords.clone().unbind()),
        pass_ticket: how.pass_ticket,
    };
    let returns = how.returns.map(|kind| kind.clone().unbind());
    let known = how.known;
    let concluded = py.detach(|| {
        binding::work(&ticket, || {
            Python::attach(|py| {
                let told = work.call(py, claim);
                outcome(py, told, known, returns.as_ref())
            })
        })
    });
    match concluded {
        Ok(kept) => {
            shared.warn_if_not_kept(py, &kept)?;
            kept.object(py, None)
        }
        Err(error) => Err(answers::of_work(py, error)),
    }
}

/// What work came to, as it is kept.
pub(crate) fn outcome(
    py: Python<'_>,
    told: PyResult<Bound<'_, PyAny>>,
    known: &Known,
    returns: Option<&Py<PyAny>>,
) -> Result<kept::Result, WorkError<PyErr>> {
    told.map(|object| kept::Result::of(&object, returns))
        .map_err(|error| known.classify(py, error))
}

/// Work that waits for its ticket.
pub(crate) struct Work {
    pub(crate) function: Py<PyAny>,
    pub(crate) arguments: Option<Py<PyTuple>>,
    pub(crate) keywords: Option<Py<PyDict>>,
    pub(crate) pass_ticket: bool,
}

impl Work {
    /// Calls the work while its ticket is the current one.
    pub(crate) fn call<'py>(
        &self,
        py: Python<'py>,
        claim: Py<Claim>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let running = running(py)?;
        let outer = running.call_method0(intern!(py, "get"))?;
        let inner = outer.add(PyTuple::new(py, [&claim])?)?;
        let token = running.call_method1(intern!(py, "set"), (inner,))?;
        let told = self.called(py, claim);
        running.call_method1(intern!(py, "reset"), (token,))?;
        told
    }

    fn called<'py>(&self, py: Python<'py>, claim: Py<Claim>) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function.bind(py);
        let keywords = self.keywords.as_ref().map(|keywords| keywords.bind(py));
        match (&self.arguments, self.pass_ticket) {
            (None, true) => function.call((claim,), keywords),
            (Some(arguments), _) => function.call(arguments.bind(py), keywords),
            (None, false) => function.call((), keywords),
        }
    }
}

/// The context variable with the tickets whose work runs.
fn running(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RUNNING
        .get_or_try_init(py, || {
            let module = py.import("semel._work")?;
            module.getattr("running").map(Bound::unbind)
        })
        .map(|running| running.bind(py))
}
