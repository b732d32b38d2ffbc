//! Unique index: insert first, look after.

use ciborium::Value as Cbor;
use pyo3::prelude::*;
use semel::{Insert as Answer, Retain};

use crate::ground::Ground;
use crate::names;
use crate::times;
use crate::values;

/// What inserting a row came to.
#[pyclass(frozen, get_all, module = "semel", name = "Insert")]
pub(crate) struct Insert {
    /// "inserted", "exists" (this very row is there), or "conflict" (another row holds the id).
    answer: &'static str,
    /// The row that is there; None for "inserted".
    row: Option<Py<PyAny>>,
}

#[pymethods]
impl Insert {
    fn __repr__(&self) -> String {
        format!("<semel.Insert {}>", self.answer)
    }
}

/// A unique index of a store.
///
/// >>> import semel
/// >>> orders = semel.open("memory:").unique("orders")
/// >>> [orders.insert("ORDER_1", {"amount": amount}).answer for amount in (100, 100, 200)]
/// ['inserted', 'exists', 'conflict']
#[pyclass(frozen, module = "semel", name = "Unique")]
pub(crate) struct Unique {
    ground: Ground,
    name: String,
    retain: Retain,
}

impl Unique {
    pub(crate) fn new(
        ground: Ground,
        name: &str,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            ground,
            name: name.to_owned(),
            retain: retain.map_or(Ok(Retain::Forever), times::retain)?,
        })
    }
}

#[pymethods]
impl Unique {
    /// Inserts a row, or shows the one that was first.
    ///
    /// Raises InvalidInput for what cannot be written, and StoreError.
    fn insert(
        &self,
        py: Python<'_>,
        id: &Bound<'_, PyAny>,
        row: &Bound<'_, PyAny>,
    ) -> PyResult<Insert> {
        let (id, row) = (names::id("the id", id)?, values::encode(row)?.value(py)?);
        let told = self.ground.call(py, |tx| {
            tx.unique(&self.name)
                .retain(self.retain)
                .insert_value(&id, row.clone())
        })?;
        let answer = told.name();
        let row = match told {
            Answer::Inserted => None,
            Answer::Exists(row) | Answer::Conflict(row) => {
                Some(values::decode(py, &row, None)?.unbind())
            }
        };
        Ok(Insert { answer, row })
    }

    /// The row of an id; None when it is free.
    fn get<'py>(
        &self,
        py: Python<'py>,
        id: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let id = names::id("the id", id)?;
        let row = self
            .ground
            .call(py, |tx| tx.unique(&self.name).get::<Cbor>(&id))?;
        row.map(|row| values::read(py, row, None)).transpose()
    }
}
