//! Calls for an event loop: a call is polled on the loop's thread, and whoever can go on rings the loop's mailbox.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use semel::binding::{self, Step, StepRun};
use semel::{Lock as LockAnswer, Ticket};

use crate::answers;
use crate::claim::{Claim, step_outcome, step_result};
use crate::errors::{OrRaise, invalid};
use crate::failure::{Known, failure};
use crate::kept;
use crate::lock::{self, Lock};
use crate::mailbox::Mailbox;
use crate::options::{self, Options, Own, name_of};
use crate::run::outcome;
use crate::store::Store;
use crate::values;

/// What a call came to, still to be made an object of Python.
pub(crate) type Told = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>> + Send>;
type Call = Pin<Box<dyn Future<Output = Told> + Send>>;

/// A call that is under way.
#[pyclass(frozen, module = "semel._native", name = "Op")]
pub(crate) struct Op {
    number: u64,
    state: Mutex<State>,
}

enum State {
    Pending(Call),
    Ready(Told),
    Over,
}

impl Op {
    pub(crate) fn new(call: impl Future<Output = Told> + Send + 'static) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(State::Pending(Box::pin(call))),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Op {
    /// The number under which it rings.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Goes on as far as it can; whether it is ready. If not, the mailbox rings when it can go on.
    fn poll(&self, py: Python<'_>, mailbox: &Bound<'_, Mailbox>) -> bool {
        let waker = mailbox.get().waker(self.number);
        py.detach(|| {
            let mut state = self.state();
            let State::Pending(call) = &mut *state else {
                return true;
            };
            match call.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => false,
                Poll::Ready(told) => {
                    *state = State::Ready(told);
                    true
                }
            }
        })
    }

    /// What it came to, once.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut *self.state(), State::Over);
        match state {
            State::Ready(told) => told(py),
            State::Pending(_) | State::Over => {
                Err(invalid(py, "the call is not ready, or was taken"))
            }
        }
    }

    /// Gives the call up: a claim is taken back; what was told to the store stays.
    fn cancel(&self, py: Python<'_>) {
        let state = std::mem::replace(&mut *self.state(), State::Over);
        py.detach(|| drop(state));
    }
}

pub(crate) fn told(
    value: impl for<'py> FnOnce(Python<'py>) -> PyResult<Py<PyAny>> + Send + 'static,
) -> Told {
    Box::new(value)
}

pub(crate) fn nothing(done: semel::Result<()>) -> Told {
    told(move |py| done.or_raise(py).map(|()| py.None()))
}

/// A number for a task that is about to claim.
#[pyfunction]
pub(crate) fn task_number() -> u64 {
    binding::task()
}

/// Begins a claim by the task of a number, which does the work of the tasks `within`.
#[pyfunction]
#[pyo3(signature = (store, operation, id, task, within, options))]
pub(crate) fn begin_claim(
    store: &Bound<'_, Store>,
    operation: &Bound<'_, PyAny>,
    id: &Bound<'_, PyAny>,
    task: u64,
    within: Vec<u64>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Op> {
    let py = store.py();
    let own = Own::of(options)?;
    let options = Options::of(options)?;
    let call = options::call(crate::names::text("operation", operation)?, id, &own)?;
    let name = name_of(&call);
    // The request goes along with the call: its texts are its own.
    let (scope, operation, id) = name.clone();
    let payload = call.payload;
    let owned =
        semel::Request::new(operation, id).scope(scope.map_or(semel::GLOBAL, semel::Scope::from));
    let request = options.on(
        py,
        match payload {
            Some(payload) => owned.payload_canonical(payload),
            None => owned,
        },
    );
    let shared = Arc::clone(&store.get().shared);
    Ok(Op::new(async move {
        let answer = binding::claim_within(&shared.store, &request, task, within).await;
        told(move |py| {
            let claim = Claim::new(answer.or_raise(py)?, name, &shared);
            Ok(Py::new(py, claim)?.into_any())
        })
    }))
}

pub(crate) fn ticket(claim: &Bound<'_, Claim>) -> PyResult<Ticket> {
    claim.get().ticket(claim.py()).cloned()
}

/// Begins to complete a claim.
#[pyfunction]
pub(crate) fn begin_complete(claim: &Bound<'_, Claim>, value: &Bound<'_, PyAny>) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    let kept = kept::Result::of(value, None);
    let shared = Arc::clone(claim.get().shared());
    Ok(Op::new(async move {
        let done = kept.complete_async(&ticket).await;
        told(move |py| {
            done.or_raise(py)?;
            shared.warn_if_not_kept(py, &kept)?;
            kept.object(py, None).map(Bound::unbind)
        })
    }))
}

/// Begins to fail a claim.
#[pyfunction]
pub(crate) fn begin_fail(claim: &Bound<'_, Claim>, error: &Bound<'_, PyAny>) -> PyResult<Op> {
    let (ticket, failure) = (ticket(claim)?, failure(error)?);
    Ok(Op::new(
        async move { nothing(ticket.fail_async(failure).await) },
    ))
}

/// Begins to record that the operation of a claim was executed, without a result.
#[pyfunction]
pub(crate) fn begin_complete_without_result(claim: &Bound<'_, Claim>) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    Ok(Op::new(async move {
        nothing(binding::complete_nothing(&ticket).await)
    }))
}

/// Begins to leave a claim in doubt.
#[pyfunction]
pub(crate) fn begin_doubt(claim: &Bound<'_, Claim>, why: String) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    Ok(Op::new(async move {
        nothing(binding::doubt(&ticket, why).await)
    }))
}

/// Begins to release a claim.
#[pyfunction]
pub(crate) fn begin_release(claim: &Bound<'_, Claim>) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    Ok(Op::new(
        async move { nothing(ticket.release_async().await) },
    ))
}

/// Begins to renew a claim.
#[pyfunction]
pub(crate) fn begin_renew(claim: &Bound<'_, Claim>) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    Ok(Op::new(async move { nothing(ticket.renew_async().await) }))
}

/// Which exceptions of work say something of its effect, and the type of its result.
#[pyclass(frozen, module = "semel._native", name = "Rules")]
pub(crate) struct Rules {
    pub(crate) known: Known,
    pub(crate) returns: Option<Py<PyAny>>,
}

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(signature = (retry_on=None, fail_on=None, returns=None))]
    fn new(
        retry_on: Option<&Bound<'_, PyAny>>,
        fail_on: Option<&Bound<'_, PyAny>>,
        returns: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            known: Known::of(retry_on, fail_on)?,
            returns,
        })
    }
}

/// Work that ended: what it returned, or what it raised.
fn ended<'py>(
    value: Option<Bound<'py, PyAny>>,
    error: Option<Bound<'py, PyAny>>,
    py: Python<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    match error {
        Some(error) => Err(PyErr::from_value(error)),
        None => Ok(value.unwrap_or_else(|| py.None().into_bound(py))),
    }
}

/// Begins to keep what came of the work of a claim: a value, or the exception that it raised, which is raised again.
#[pyfunction]
#[pyo3(signature = (claim, rules, value=None, error=None))]
pub(crate) fn begin_conclude<'py>(
    claim: &Bound<'py, Claim>,
    rules: &Bound<'py, Rules>,
    value: Option<Bound<'py, PyAny>>,
    error: Option<Bound<'py, PyAny>>,
) -> PyResult<Op> {
    let py = claim.py();
    let ticket = ticket(claim)?;
    let rules = rules.get();
    let outcome = outcome(
        py,
        ended(value, error, py),
        &rules.known,
        rules.returns.as_ref(),
    );
    let shared = Arc::clone(claim.get().shared());
    Ok(Op::new(async move {
        let concluded = binding::conclude(&ticket, outcome).await;
        told(move |py| match concluded {
            Ok(kept) => {
                shared.warn_if_not_kept(py, &kept)?;
                kept.object(py, None).map(Bound::unbind)
            }
            Err(error) => Err(answers::of_work(py, error)),
        })
    }))
}

/// Leaves the work of a claim in doubt, without waiting for anything: it was cancelled.
#[pyfunction]
pub(crate) fn abandon(claim: &Bound<'_, Claim>) -> PyResult<()> {
    let ticket = ticket(claim)?;
    claim.py().detach(|| binding::abandon(&ticket));
    Ok(())
}

/// Lets a claim go whose work has not begun, without waiting for anything: it may run again.
#[pyfunction]
pub(crate) fn give_back(claim: &Bound<'_, Claim>) -> PyResult<()> {
    let ticket = ticket(claim)?;
    claim.py().detach(|| binding::give_back(&ticket));
    Ok(())
}

/// A step that runs.
#[pyclass(frozen, module = "semel._native", name = "StepRun")]
pub(crate) struct Running(Arc<StepRun>);

/// Begins a step: a pair of whether it was done, and its result; or of False and the step that runs.
#[pyfunction]
#[pyo3(signature = (claim, name, returns=None))]
pub(crate) fn begin_step(
    claim: &Bound<'_, Claim>,
    name: String,
    returns: Option<Py<PyAny>>,
) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    Ok(Op::new(async move {
        let begun = binding::begin_step(&ticket, &name).await;
        told(move |py| {
            let pair = match begun.or_raise(py)? {
                Step::Done(value) => {
                    let returns = returns.as_ref().map(|kind| kind.bind(py));
                    let value = values::decode(py, &value, returns)?;
                    (true, value).into_pyobject(py)?
                }
                Step::Run(run) => {
                    let run = Bound::new(py, Running(Arc::new(run)))?.into_any();
                    (false, run).into_pyobject(py)?
                }
            };
            let pair: Bound<'_, PyTuple> = pair;
            Ok(pair.into_any().unbind())
        })
    }))
}

/// Begins to keep what came of a step.
#[pyfunction]
#[pyo3(signature = (run, rules, value=None, error=None))]
pub(crate) fn conclude_step<'py>(
    run: &Bound<'py, Running>,
    rules: &Bound<'py, Rules>,
    value: Option<Bound<'py, PyAny>>,
    error: Option<Bound<'py, PyAny>>,
) -> Op {
    let py = run.py();
    let rules = rules.get();
    let returns = rules.returns.as_ref().map(|kind| kind.bind(py));
    let outcome = step_outcome(py, ended(value, error, py), &rules.known, returns);
    let run = Arc::clone(&run.get().0);
    Op::new(async move {
        let concluded = run.conclude(outcome).await;
        told(move |py| step_result(py, concluded).map(Bound::unbind))
    })
}

/// Begins to acquire a lock.
#[pyfunction]
pub(crate) fn begin_acquire(lock: &Bound<'_, Lock>) -> PyResult<Op> {
    let py = lock.py();
    lock.get().check_free(py)?;
    let lock = lock.clone().unbind();
    let (shared, name) = {
        let (shared, name, _) = lock.bind(py).get().parts();
        (Arc::clone(shared), name.to_owned())
    };
    let terms = lock.bind(py).get().parts().2.again(py);
    Ok(Op::new(async move {
        let request = Python::attach(|py| terms.request(py, &shared, &name));
        let acquired = request.acquire_async().await;
        drop(request);
        told(move |py| match acquired.or_raise(py)? {
            LockAnswer::Held(guard) => {
                lock.bind(py).get().hold(guard);
                Ok(py.None())
            }
            LockAnswer::Busy(busy) => Err(lock::busy(py, &name, &busy)),
        })
    }))
}
