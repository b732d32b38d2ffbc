//! A clock that stands still, for tests of what time does.

use std::time::Duration;

use pyo3::prelude::*;

use crate::times;

/// A clock that stands still until it is told to move: `semel.open("memory:", clock=clock)`. For tests.
///
/// >>> import semel
/// >>> clock = semel.Clock()
/// >>> store = semel.open("memory:", clock=clock, in_doubt="rerun")
/// >>> first = store.claim("order.create", "ORDER_1", lease=30, renew="off")
/// >>> clock.advance(31)
/// >>> store.claim("order.create", "ORDER_1").answer
/// 'execute'
#[pyclass(frozen, module = "semel", name = "Clock")]
pub(crate) struct Clock {
    pub(crate) inner: semel::Clock,
}

#[pymethods]
impl Clock {
    /// A clock at a moment, in seconds since the Unix epoch: 2027-01-15 when nothing is said.
    #[new]
    #[pyo3(signature = (seconds=1_800_000_000.0))]
    fn new(seconds: f64) -> PyResult<Self> {
        let start = Duration::try_from_secs_f64(seconds)
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            inner: semel::Clock::manual(start),
        })
    }

    /// Lets time pass: seconds, a timedelta, or text like "30s".
    fn advance(&self, py: Python<'_>, by: &Bound<'_, PyAny>) -> PyResult<()> {
        let by = times::span("by", by)?;
        py.detach(|| self.inner.advance(by));
        Ok(())
    }
}
