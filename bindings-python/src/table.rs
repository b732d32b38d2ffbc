//! Tables: optimistic lock.

use std::time::Duration;

use ciborium::Value as Cbor;
use pyo3::prelude::*;
use semel::{DEFAULT_ROW_TIMEOUT, Retain, Update as Answer};

use crate::errors::Fault;
use crate::ground::Ground;
use crate::lent::Lent;
use crate::names;
use crate::times;
use crate::values;

/// A row as it was read.
#[pyclass(frozen, get_all, module = "semel", name = "Row")]
pub(crate) struct Row {
    /// Which row.
    id: String,
    /// What it holds.
    value: Py<PyAny>,
    /// Rises with every write of the row.
    version: u64,
}

impl Row {
    fn of(py: Python<'_>, row: semel::Row<Cbor>) -> PyResult<Self> {
        Ok(Self {
            id: row.id,
            value: values::read(py, row.value, None)?.unbind(),
            version: row.version,
        })
    }
}

#[pymethods]
impl Row {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let value = self.value.bind(py).repr()?;
        Ok(format!(
            "<semel.Row {:?}: {value}, version {}>",
            self.id, self.version
        ))
    }
}

/// What an update came to.
#[pyclass(frozen, get_all, module = "semel", name = "Update")]
pub(crate) struct Update {
    /// "updated", "already" (this event has updated the row before), or "stale" (the row has changed since it was read).
    answer: &'static str,
    /// The row as it is now; None for "already", and when a stale row is gone.
    row: Option<Py<Row>>,
    /// The event, for "already".
    event: Option<String>,
}

impl Update {
    fn of(py: Python<'_>, update: Answer<Cbor>) -> PyResult<Self> {
        let answer = update.name();
        let (row, event) = match update {
            Answer::Updated(row) => (Some(row), None),
            Answer::Already(event) => (None, Some(event)),
            Answer::Stale(row) => (row, None),
        };
        let row = row.map(|row| Py::new(py, Row::of(py, row)?)).transpose()?;
        Ok(Self { answer, row, event })
    }
}

#[pymethods]
impl Update {
    fn __repr__(&self) -> String {
        format!("<semel.Update {}>", self.answer)
    }
}

/// A table of a store: rows that are read, and written if nobody else was quicker.
///
/// >>> import semel
/// >>> stock = semel.open("memory:").table("stock")
/// >>> _ = stock.put("cup", 10)
/// >>> row = stock.get("cup")
/// >>> stock.update(row, 9, event="order-1").answer
/// 'updated'
/// >>> stock.update(row, 9, event="order-1").answer  # asked again
/// 'already'
/// >>> stock.update(row, 8, event="order-2").answer
/// 'stale'
#[pyclass(frozen, module = "semel", name = "Table")]
pub(crate) struct Table {
    ground: Ground,
    name: String,
    retain: Retain,
    timeout: Duration,
}

impl Table {
    pub(crate) fn new(
        ground: Ground,
        name: &str,
        retain: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            ground,
            name: name.to_owned(),
            retain: retain.map_or(Ok(Retain::Forever), times::retain)?,
            timeout: timeout.map_or(Ok(DEFAULT_ROW_TIMEOUT), |given| {
                times::span("timeout", given)
            })?,
        })
    }
}

#[pymethods]
impl Table {
    /// Writes a row, whatever was there; its version.
    ///
    /// Raises InvalidInput for what cannot be written, Timeout when somebody has locked the row, and StoreError.
    fn put(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let (id, value) = (names::id("the id", id)?, values::encode(value)?.cbor);
        self.ground.patient(py, self.timeout, |tx| {
            tx.table(&self.name).retain(self.retain).put(&id, &value)
        })
    }

    /// Reads a row; None when there is none.
    fn get(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<Option<Row>> {
        let id = names::id("the id", id)?;
        let row = self
            .ground
            .call(py, |tx| tx.table(&self.name).get::<Cbor>(&id))?;
        row.map(|row| Row::of(py, row)).transpose()
    }

    /// Writes a row if it is as it was read, and this event has not written it before. A row remembers its last 16 events.
    ///
    /// Raises as put.
    #[pyo3(signature = (row, new, event=None))]
    fn update(
        &self,
        py: Python<'_>,
        row: &Bound<'_, Row>,
        new: &Bound<'_, PyAny>,
        event: Option<&str>,
    ) -> PyResult<Update> {
        let new = values::encode(new)?.cbor;
        let row = row.get();
        let read = semel::Row {
            id: row.id.clone(),
            value: Cbor::Null,
            version: row.version,
        };
        let update = self.ground.patient(py, self.timeout, |tx| {
            tx.table(&self.name)
                .retain(self.retain)
                .update(&read, &new, event)
        })?;
        Update::of(py, update)
    }

    /// Changes a row by a function of what it holds (None when there is none), run again when somebody else was first; the
    /// new value.
    ///
    /// Raises as put, TransactionConflict, and what the function raises, which changes nothing.
    fn modify<'py>(
        &self,
        py: Python<'py>,
        id: &Bound<'py, PyAny>,
        change: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let id = names::id("the id", id)?;
        let change = change.clone().unbind();
        let new = match &self.ground {
            Ground::Store(shared) => py.detach(|| {
                shared.store.transact().timeout(self.timeout).run(|tx| {
                    Lent::during(tx, |lent| {
                        Python::attach(|py| {
                            self.changed(py, &Ground::Within(lent.clone()), &id, &change)
                        })
                        .map_err(Fault::from)
                    })
                })
            }),
            within => self.changed(py, within, &id, &change).map_err(Fault::from),
        };
        new.map(|new| new.into_bound(py))
            .map_err(|fault| fault.raise(py))
    }

    /// Removes a row; whether there was one. Raises as put.
    fn delete(&self, py: Python<'_>, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id = names::id("the id", id)?;
        self.ground
            .patient(py, self.timeout, |tx| tx.table(&self.name).delete(&id))
    }
}

impl Table {
    fn changed(
        &self,
        py: Python<'_>,
        ground: &Ground,
        id: &str,
        change: &Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let row = ground.call(py, |tx| tx.table(&self.name).get::<Cbor>(id))?;
        let old = row.map_or(Ok(py.None().into_bound(py)), |row| {
            values::read(py, row.value, None)
        })?;
        let new = change.bind(py).call1((old,))?;
        let value = values::encode(&new)?.cbor;
        ground.call(py, |tx| {
            tx.table(&self.name).retain(self.retain).put(id, &value)
        })?;
        Ok(new.unbind())
    }
}
