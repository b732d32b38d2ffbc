//! What is known of one operation, as `lookup` and `unresolved` show it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use semel::{Info, Policy};

use crate::times;
use crate::values;

/// What is known of one operation. Moments are aware datetimes in UTC.
#[pyclass(frozen, module = "semel", name = "Record")]
pub(crate) struct Record {
    info: Info,
}

impl Record {
    pub(crate) fn of(info: Info) -> Self {
        Self { info }
    }
}

#[pymethods]
impl Record {
    /// Whose operation; None is the global scope.
    #[getter]
    fn scope(&self) -> Option<&str> {
        self.info.scope.as_deref()
    }

    /// What.
    #[getter]
    fn operation(&self) -> &str {
        &self.info.operation
    }

    /// Which one.
    #[getter]
    fn id(&self) -> &str {
        &self.info.id
    }

    /// Scope, operation and id.
    #[getter]
    fn key(&self) -> (Option<&str>, &str, &str) {
        (self.scope(), self.operation(), self.id())
    }

    /// "running", "confirming", "in_doubt", "released", "succeeded", "failed" or "gone".
    #[getter]
    fn state(&self) -> &str {
        self.info.state
    }

    /// How many attempts have started.
    #[getter]
    fn attempt(&self) -> u32 {
        self.info.attempt
    }

    /// The fence of the last attempt; resolve takes it, to end this doubt and no later one.
    #[getter]
    fn fence(&self) -> u64 {
        self.info.fence
    }

    /// When the first attempt began.
    #[getter]
    fn executed_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::moment(py, self.info.first_executed_us)
    }

    /// When the last attempt began.
    #[getter]
    fn claimed_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::moment(py, self.info.claimed_us)
    }

    /// When the lease of the running attempt ends; None without one, or without end.
    #[getter]
    fn lease_until<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::maybe_moment(py, self.info.lease_until_us)
    }

    /// When the operation ended; None while it has not.
    #[getter]
    fn finished_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::maybe_moment(py, self.info.finished_us)
    }

    /// When the record is forgotten; None when never.
    #[getter]
    fn forgotten_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::maybe_moment(py, self.info.forgotten_at_us)
    }

    /// What happens after an attempt with unknown effect: "hold", "rerun" or "ask".
    #[getter]
    fn in_doubt(&self) -> &str {
        match self.info.in_doubt {
            Policy::Hold => "hold",
            Policy::Rerun => "rerun",
            Policy::Ask => "ask",
        }
    }

    /// What ended the attempt whose effect is unknown; None when it is known.
    #[getter]
    fn doubt(&self) -> Option<String> {
        self.info.doubt.as_ref().map(|(_, doubt)| doubt.to_string())
    }

    /// Since when the effect is unknown; None when it is known.
    #[getter]
    fn in_doubt_since<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        times::maybe_moment(py, self.info.doubt.as_ref().map(|(since_us, _)| *since_us))
    }

    /// Whether a result is kept; it may be None.
    #[getter]
    fn has_value(&self) -> bool {
        self.info.value.is_some()
    }

    /// The kept result; None also when there is none. Raises InvalidInput when it cannot be read here.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.info.value {
            Some(value) => values::decode(py, value, None),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// The kept error: a dict with code, kind and message; None when there is none.
    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(failure) = &self.info.failure else {
            return Ok(None);
        };
        let told = PyDict::new(py);
        told.set_item("code", &failure.code)?;
        told.set_item("kind", &failure.kind)?;
        told.set_item("message", &failure.message)?;
        Ok(Some(told))
    }

    /// Who claimed, in the caller's words.
    #[getter]
    fn holder(&self) -> Option<&str> {
        self.info.holder.as_deref()
    }

    /// The top-level members of the payload, by name.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.info.fields)
    }

    /// The steps of the work, and whether each is done.
    #[getter]
    fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let steps = PyDict::new(py);
        for (name, done) in &self.info.steps {
            steps.set_item(name, done)?;
        }
        Ok(steps)
    }

    fn __repr__(&self) -> String {
        format!(
            "<semel.Record {} {:?}: {}, attempt {}>",
            self.info.operation, self.info.id, self.info.state, self.info.attempt
        )
    }
}
