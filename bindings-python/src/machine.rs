//! State machine: declared edges, fired as compare-and-set.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use semel::{Edges, Fire as Answer};

use crate::errors::{OrRaise, invalid};
use crate::ground::Ground;
use crate::names;
use crate::times;

/// What firing an edge came to.
#[pyclass(frozen, get_all, module = "semel", name = "Fire")]
pub(crate) struct Fire {
    /// "applied", "already" (the same event has fired this edge), "taken" (another event has), or "illegal".
    answer: &'static str,
    /// The event that fired the edge before, for "taken".
    event: Option<String>,
    /// The state of the instance, for "illegal"; None when there is no such instance.
    state: Option<String>,
}

#[pymethods]
impl Fire {
    fn __repr__(&self) -> String {
        format!("<semel.Fire {}>", self.answer)
    }
}

/// One transition of an instance.
#[pyclass(frozen, module = "semel", name = "Transition")]
pub(crate) struct Transition(semel::Transition);

#[pymethods]
impl Transition {
    /// The state before.
    #[getter]
    fn source(&self) -> &str {
        &self.0.from
    }

    /// The state after.
    #[getter]
    fn target(&self) -> &str {
        &self.0.to
    }

    /// What caused it.
    #[getter]
    fn event(&self) -> &str {
        &self.0.event
    }

    /// When.
    #[getter]
    fn at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::moment(py, self.0.at_us)
    }

    fn __repr__(&self) -> String {
        format!(
            "<semel.Transition {} -> {} by {}>",
            self.0.from, self.0.to, self.0.event
        )
    }
}

/// A state machine of a store.
///
/// >>> import semel
/// >>> edges = {"WAIT_PAY": ["PAID", "CANCELLED"], "PAID": ["REFUNDED"]}
/// >>> order = semel.open("memory:").machine("order", edges, initial="WAIT_PAY")
/// >>> order.create("ORDER_1")
/// >>> [order.fire("ORDER_1", "WAIT_PAY", "PAID", event=event).answer for event in ("pay-77", "pay-77", "pay-78")]
/// ['applied', 'already', 'taken']
/// >>> order.state("ORDER_1")
/// 'PAID'
#[pyclass(frozen, module = "semel", name = "Machine")]
pub(crate) struct Machine {
    ground: Ground,
    edges: Arc<Edges>,
}

impl Machine {
    pub(crate) fn new(
        ground: Ground,
        name: &str,
        edges: &Bound<'_, PyDict>,
        initial: &str,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = edges.py();
        let mut declared: Vec<(String, Vec<String>)> = Vec::with_capacity(edges.len());
        for (from, targets) in edges.iter() {
            if targets.is_instance_of::<PyString>() {
                return Err(invalid(
                    py,
                    format!("the edges from {from:?} are one text; give a list of states"),
                ));
            }
            let targets = targets
                .try_iter()?
                .map(|to| names::text("state", &to?).map(str::to_owned))
                .collect::<PyResult<Vec<String>>>()?;
            declared.push((names::text("state", &from)?.to_owned(), targets));
        }
        let targets: Vec<Vec<&str>> = declared
            .iter()
            .map(|(_, targets)| targets.iter().map(String::as_str).collect())
            .collect();
        let pairs: Vec<(&str, &[&str])> = declared
            .iter()
            .zip(&targets)
            .map(|((from, _), targets)| (from.as_str(), targets.as_slice()))
            .collect();
        let mut edges = Edges::new(name, &pairs, initial).or_raise(py)?;
        if let Some(retain) = retain {
            edges = edges.retain(times::retain(retain)?);
        }
        Ok(Self {
            ground,
            edges: Arc::new(edges),
        })
    }

    /// The same machine within a transaction.
    pub(crate) fn within(&self, ground: Ground) -> Self {
        Self {
            ground,
            edges: Arc::clone(&self.edges),
        }
    }
}

#[pymethods]
impl Machine {
    /// Makes an instance in the initial state; None when it is new, else the state of the one that is there.
    fn create(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let id = names::id("the id", id)?;
        self.ground
            .call(py, |tx| tx.machine(&self.edges).create(&id))
    }

    /// Moves an instance along an edge, if it is where the edge begins.
    ///
    /// Raises InvalidInput for an unknown state or an event that is no name, and StoreError.
    fn fire(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        source: &str,
        target: &str,
        event: &Bound<'_, PyAny>,
    ) -> PyResult<Fire> {
        let (id, event) = (names::id("the id", id)?, names::id("event", event)?);
        let told = self.ground.call(py, |tx| {
            tx.machine(&self.edges).fire(&id, source, target, &event)
        })?;
        let answer = told.name();
        let (event, state) = match told {
            Answer::Applied | Answer::Already => (None, None),
            Answer::Taken(event) => (Some(event), None),
            Answer::Illegal(state) => (None, state),
        };
        Ok(Fire {
            answer,
            event,
            state,
        })
    }

    /// The state of an instance; None when there is none.
    fn state(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let id = names::id("the id", id)?;
        self.ground
            .call(py, |tx| tx.machine(&self.edges).state(&id))
    }

    /// The last 32 transitions of an instance, oldest first.
    fn history(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Vec<Transition>> {
        let id = names::id("the id", id)?;
        let history = self
            .ground
            .call(py, |tx| tx.machine(&self.edges).history(&id))?;
        Ok(history.into_iter().map(Transition).collect())
    }
}
