//! Ids for keys: numbers and names that no other process makes.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::errors::OrRaise;
use crate::shared::Shared;

/// Makers of ids. Make an id once, where the intent begins, and send it with every retry.
///
/// >>> import semel
/// >>> ids = semel.open("memory:").ids
/// >>> ids.segment("orders"), ids.segment("orders")
/// (1, 2)
/// >>> ids.snowflake() < ids.snowflake()
/// True
/// >>> len(ids.uuid7())
/// 36
#[pyclass(frozen, module = "semel", name = "Ids")]
pub(crate) struct Ids {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Ids {
    /// A number of 63 bits that no other process of this store gives out, higher than all this process gave out before.
    ///
    /// Raises Unavailable when all 1024 workers are taken, and StoreError.
    fn snowflake(&self, py: Python<'_>) -> PyResult<i64> {
        py.detach(|| self.shared.store.ids().snowflake())
            .or_raise(py)
    }

    /// The next number of a sequence, from 1. Never given out twice, also across crashes; after a crash up to a thousand are
    /// left out.
    fn segment(&self, py: Python<'_>, sequence: &str) -> PyResult<u64> {
        py.detach(|| self.shared.store.ids().segment(sequence))
            .or_raise(py)
    }

    /// A UUID of version 7, as text: by time, and unique without the store's help.
    fn uuid7(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.shared.store.ids().uuid7()).or_raise(py)
    }
}
