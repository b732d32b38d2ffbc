//! Pessimistic lock: rows of a table, locked together and changed together at the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ciborium::Value as Cbor;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use semel::{DEFAULT_ROW_TIMEOUT, ErrorKind, Retain, Rows as Guard, Stopwatch};

use crate::errors::{Fault, OrRaise, invalid, raised};
use crate::shared::Shared;
use crate::times;
use crate::transaction::lend;
use crate::values;

/// How long a wait for rows goes on without a look at the signals of Python.
const SLICE: Duration = Duration::from_millis(250);

/// Rows of a table, locked within a `with`, and written at its end: all of them, or none when it raises.
///
/// >>> import semel
/// >>> store = semel.open("memory:")
/// >>> with store.lock_rows("account", ["a", "b"]) as rows:
/// ...     rows["a"] = (rows["a"] or 100) - 30
/// ...     rows["b"] = (rows["b"] or 0) + 30
/// >>> store.table("account").get("b").value
/// 30
#[pyclass(frozen, module = "semel", name = "Rows")]
pub(crate) struct Rows {
    shared: Arc<Shared>,
    table: String,
    ids: Vec<String>,
    timeout: Duration,
    retain: Retain,
    guard: Mutex<Option<Guard<Cbor>>>,
}

impl Rows {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        table: &str,
        ids: &Bound<'_, PyAny>,
        timeout: Option<&Bound<'_, PyAny>>,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let ids = ids.try_iter()?.map(|id| {
            let id = id?;
            crate::names::id("the id", &id).map(std::borrow::Cow::into_owned)
        });
        Ok(Self {
            shared: Arc::clone(shared),
            table: table.to_owned(),
            ids: ids.collect::<PyResult<_>>()?,
            timeout: timeout.map_or(Ok(DEFAULT_ROW_TIMEOUT), |given| {
                times::span("timeout", given)
            })?,
            retain: retain.map_or(Ok(Retain::Forever), times::retain)?,
            guard: Mutex::new(None),
        })
    }

    fn guard(&self) -> MutexGuard<'_, Option<Guard<Cbor>>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Guard<Cbor>) -> semel::Result<R>,
    ) -> PyResult<R> {
        match self.guard().as_mut() {
            Some(guard) => call(guard).map_err(|error| match error.kind() {
                ErrorKind::InvalidInput => PyKeyError::new_err(error.message().to_owned()),
                _ => raised(py, &error),
            }),
            None => Err(invalid(
                py,
                "the rows are not locked; use them within `with store.lock_rows(...) as rows`",
            )),
        }
    }

    /// Locks the rows; the wait is cut into slices, between which signals of Python are seen to.
    fn lock(&self, py: Python<'_>) -> PyResult<Guard<Cbor>> {
        let began = Stopwatch::start();
        loop {
            let left = self.timeout.saturating_sub(began.elapsed());
            let slice = left.min(SLICE);
            let told = py.detach(|| {
                let rows = self.shared.store.lock_rows(&self.table, &self.ids);
                rows.timeout(slice).retain(self.retain).lock::<Cbor>()
            });
            match told {
                Err(error) if error.kind() == ErrorKind::Timeout && left > slice => {
                    py.check_signals()?
                }
                told => return told.or_raise(py),
            }
        }
    }
}

#[pymethods]
impl Rows {
    /// What a locked row holds, with what was set here; None when there is no such row. Raises KeyError for a row that was
    /// not named.
    fn __getitem__<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyAny>> {
        match self.with(py, |rows| rows.get(id))? {
            Some(value) => values::read(py, value, None),
            None => Ok(py.None().into_bound(py)),
        }
    }

    fn __setitem__(&self, py: Python<'_>, id: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = values::encode(value)?.cbor;
        self.with(py, |rows| rows.set(id, value))
    }

    fn __delitem__(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        self.with(py, |rows| rows.remove(id))
    }

    fn __contains__(&self, id: &str) -> bool {
        self.ids.iter().any(|known| known == id)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.keys(py)?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.keys(py)?)?.try_iter()?.into_any())
    }

    /// The ids of the locked rows, in the order in which they were locked.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |rows| Ok(rows.ids().map(str::to_owned).collect()))
    }

    /// Writes what was set together with more work in the same transaction, and lets go of the rows: `work(tx)` may post,
    /// emit, or complete a ticket. Gives what it returns.
    ///
    /// Raises Lost when a lock was lost meanwhile: nothing was written.
    fn commit_with<'py>(
        &self,
        py: Python<'py>,
        work: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(guard) = self.guard().take() else {
            return Err(invalid(py, "the rows are not locked"));
        };
        let work = work.clone().unbind();
        let told = py.detach(|| guard.commit_with(|tx| lend(tx, &work)));
        told.map(|value| value.into_bound(py))
            .map_err(|fault: Fault| fault.raise(py))
    }

    /// Raises Timeout when a row stayed locked for too long, and InvalidInput when this thread holds rows already.
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let rows = slf.get();
        let guard = rows.lock(slf.py())?;
        *rows.guard() = Some(guard);
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let Some(guard) = self.guard().take() else {
            return Ok(());
        };
        let commits = kind.is_none();
        py.detach(|| match commits {
            true => guard.commit(),
            false => {
                drop(guard);
                Ok(())
            }
        })
        .or_raise(py)
    }
}
