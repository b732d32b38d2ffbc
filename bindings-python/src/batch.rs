//! Many operations in one go: each has its own answer, and all of them share the wait for the disk.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use semel::{Claim as Answer, Request, RunError, WorkError};

use crate::answers;
use crate::claim::{Claim, Name};
use crate::errors::{invalid, raised};
use crate::failure::Known;
use crate::kept;
use crate::options::{self, Options, Own, name_of};
use crate::run::{self, Work};
use crate::shared::Shared;

/// The operations of a batch, as Python gives them: ids, or pairs of id and payload.
pub(crate) struct Items<'py> {
    ids: Vec<Bound<'py, PyAny>>,
    payloads: Vec<Option<Bound<'py, PyAny>>>,
    scope: Option<Bound<'py, PyAny>>,
}

impl<'py> Items<'py> {
    pub(crate) fn of(
        items: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let own = Own::of(options)?;
        if own.payload.is_some() {
            return Err(invalid(
                items.py(),
                "payload= is of one operation; give pairs of id and payload as the items of the batch",
            ));
        }
        let pairs = match items.cast::<PyDict>() {
            Ok(pairs) => pairs.items().into_any(),
            Err(_) => items.clone(),
        };
        let (mut ids, mut payloads) = (Vec::new(), Vec::new());
        for item in pairs.try_iter()? {
            let item = item?;
            match item.cast::<PyTuple>() {
                Ok(pair) if pair.len() == 2 => {
                    ids.push(pair.get_item(0)?);
                    payloads.push(Some(pair.get_item(1)?));
                }
                Ok(_) => {
                    return Err(invalid(
                        item.py(),
                        format!("{item:?} is no pair of id and payload"),
                    ));
                }
                Err(_) => {
                    ids.push(item);
                    payloads.push(None);
                }
            }
        }
        Ok(Self {
            ids,
            payloads,
            scope: own.scope,
        })
    }

    fn owns(&self) -> Vec<Own<'py>> {
        let own = |payload: &Option<Bound<'py, PyAny>>| Own {
            scope: self.scope.clone(),
            payload: payload.clone(),
        };
        self.payloads.iter().map(own).collect()
    }
}

/// The requests of a batch and their names. Nothing is claimed when one of them cannot be.
fn requests<'a>(
    py: Python<'_>,
    operation: &'a str,
    items: &'a Items<'_>,
    owns: &'a [Own<'_>],
    options: &Options,
) -> PyResult<(Vec<Request<'a>>, Vec<Name>)> {
    let (mut requests, mut names) = (Vec::new(), Vec::new());
    for (id, own) in items.ids.iter().zip(owns) {
        let call = options::call(operation, id, own)?;
        names.push(name_of(&call));
        requests.push(options.request(py, call));
    }
    Ok((requests, names))
}

/// Claims many operations: a list with a claim, or an exception, for each.
pub(crate) fn claim_many<'py>(
    py: Python<'py>,
    shared: &Arc<Shared>,
    operation: &str,
    items: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let items = Items::of(items, options)?;
    let owns = items.owns();
    let options = Options::of(options)?;
    let (requests, names) = requests(py, operation, &items, &owns, &options)?;
    let answers = py.detach(|| shared.store.claim_many(&requests));
    let told = PyList::empty(py);
    for (answer, name) in answers.into_iter().zip(names) {
        match answer {
            Ok(answer) => told.append(Py::new(py, Claim::new(answer, name, shared))?)?,
            Err(error) => told.append(raised(py, &error).into_value(py))?,
        }
    }
    Ok(told)
}

/// What the work of a batch is.
pub(crate) struct Batch<'a, 'py> {
    pub(crate) work: &'a Bound<'py, PyAny>,
    pub(crate) known: &'a Known,
    pub(crate) returns: Option<&'a Bound<'py, PyAny>>,
}

/// Runs the work for each operation that was not done before: a list with an outcome for each.
pub(crate) fn run_many<'py>(
    py: Python<'py>,
    shared: &Arc<Shared>,
    operation: &str,
    items: &Bound<'py, PyAny>,
    batch: &Batch<'_, 'py>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let items = Items::of(items, options)?;
    let owns = items.owns();
    let options = Options::of(options)?;
    let (requests, names) = requests(py, operation, &items, &owns, &options)?;
    let work = batch.work.clone().unbind();
    let returns = batch.returns.map(|kind| kind.clone().unbind());
    let arguments: Vec<(Py<PyAny>, Option<Py<PyAny>>)> = items
        .ids
        .iter()
        .zip(&items.payloads)
        .map(|(id, payload)| {
            (
                id.clone().unbind(),
                payload.as_ref().map(|payload| payload.clone().unbind()),
            )
        })
        .collect();
    let mut stopped: Option<PyErr> = None;
    let known = batch.known;
    let outcomes = py.detach(|| {
        shared.store.run_many_kept(&requests, |at, ticket| {
            Python::attach(|py| {
                if let Some(error) = &stopped {
                    // Its work has not begun: it may run again.
                    return Err(WorkError::Retryable(error.clone_ref(py)));
                }
                let claim = Claim::new(Answer::Execute(ticket.clone()), names[at].clone(), shared);
                let told = Py::new(py, claim).and_then(|claim| {
                    let (id, payload) = &arguments[at];
                    let arguments = match payload {
                        Some(payload) => PyTuple::new(py, [id, payload])?,
                        None => PyTuple::new(py, [id])?,
                    };
                    let work = Work {
                        function: work.clone_ref(py),
                        arguments: Some(arguments.unbind()),
                        keywords: None,
                        pass_ticket: false,
                    };
                    work.call(py, claim)
                });
                if let Err(error) = &told
                    && !error.is_instance_of::<pyo3::exceptions::PyException>(py)
                {
                    stopped = Some(error.clone_ref(py));
                }
                run::outcome(py, told, known, returns.as_ref())
            })
        })
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    told(py, shared, outcomes, &names, batch.returns)
}

fn told<'py>(
    py: Python<'py>,
    shared: &Shared,
    outcomes: Vec<Result<kept::Result, RunError<kept::Result, PyErr>>>,
    names: &[Name],
    returns: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let class = py
        .import("semel._schemes")?
        .getattr(intern!(py, "Outcome"))?;
    let told = PyList::empty(py);
    for (outcome, name) in outcomes.into_iter().zip(names) {
        let value = match outcome {
            Ok(kept) => {
                shared.warn_if_not_kept(py, &kept)?;
                kept.object(py, returns)
            }
            Err(error) => Err(answers::of_run(py, error, name)),
        };
        let (value, error) = match value {
            Ok(value) => (value, py.None().into_bound(py)),
            Err(error) => (
                py.None().into_bound(py),
                error.into_value(py).into_bound(py).into_any(),
            ),
        };
        told.append(class.call1((&name.1, &name.2, value, error))?)?;
    }
    Ok(told)
}
