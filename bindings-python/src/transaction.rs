//! The optimistic transaction: reads and writes of one store that take effect together or not at all.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use semel::{Durability, Retain};

use crate::claim::Claim;
use crate::errors::{Fault, invalid};
use crate::failure::failure;
use crate::ground::Ground;
use crate::ledger::Ledger;
use crate::lent::Lent;
use crate::machine::Machine;
use crate::names;
use crate::shared::Shared;
use crate::table::Table;
use crate::times;
use crate::unique::Unique;
use crate::values;

/// What a transaction reads and writes; good within the function that got it, and no longer.
#[pyclass(frozen, module = "semel", name = "Transaction")]
pub(crate) struct Transaction {
    lent: Arc<Lent>,
}

/// Runs a function of Python on a transaction.
pub(crate) fn lend(tx: &mut semel::Tx<'_>, work: &Py<PyAny>) -> Result<Py<PyAny>, Fault> {
    Lent::during(tx, |lent| {
        Python::attach(|py| {
            let lent = Arc::clone(lent);
            let tx = Py::new(py, Transaction { lent })?;
            Ok(work.call1(py, (tx,))?)
        })
    })
}

/// Runs a function on a transaction of the store, again after a conflict.
pub(crate) fn run<'py>(
    py: Python<'py>,
    shared: &Shared,
    work: &Bound<'py, PyAny>,
    durability: Option<Durability>,
    timeout: Option<Duration>,
) -> PyResult<Bound<'py, PyAny>> {
    let work = work.clone().unbind();
    let told = py.detach(|| {
        let mut transaction = shared.store.transact();
        if let Some(durability) = durability {
            transaction = transaction.durability(durability);
        }
        if let Some(timeout) = timeout {
            transaction = transaction.timeout(timeout);
        }
        transaction.run(|tx| lend(tx, &work))
    });
    told.map(|value| value.into_bound(py))
        .map_err(|fault: Fault| fault.raise(py))
}

impl Transaction {
    fn ground(&self) -> Ground {
        Ground::Within(Arc::clone(&self.lent))
    }
}

#[pymethods]
impl Transaction {
    /// The table `name` within this transaction.
    #[pyo3(signature = (name, *, retain=None))]
    fn table(&self, name: &str, retain: Option<&Bound<'_, PyAny>>) -> PyResult<Table> {
        Table::new(self.ground(), name, retain, None)
    }

    /// The unique index `name` within this transaction.
    #[pyo3(signature = (name, *, retain=None))]
    fn unique(&self, name: &str, retain: Option<&Bound<'_, PyAny>>) -> PyResult<Unique> {
        Unique::new(self.ground(), name, retain)
    }

    /// The ledger `name` within this transaction.
    #[pyo3(signature = (name, *, retain=None))]
    fn ledger(&self, name: &str, retain: Option<&Bound<'_, PyAny>>) -> PyResult<Ledger> {
        Ledger::new(self.ground(), name, retain)
    }

    /// A machine within this transaction: one of store.machine, or a name with its edges and initial state.
    #[pyo3(signature = (machine, edges=None, initial=None, *, retain=None))]
    fn machine(
        &self,
        machine: &Bound<'_, PyAny>,
        edges: Option<&Bound<'_, PyDict>>,
        initial: Option<&str>,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Machine> {
        match (machine.cast::<Machine>(), edges, initial) {
            (Ok(machine), None, None) => Ok(machine.get().within(self.ground())),
            (Err(_), Some(edges), Some(initial)) => {
                let name = names::text("machine", machine)?;
                Machine::new(self.ground(), name, edges, initial, retain)
            }
            _ => Err(invalid(
                machine.py(),
                "give a machine of store.machine(...), or a name with its edges and initial state",
            )),
        }
    }

    /// Puts a message into the outbox with this commit. Its id is stable: emitting it again before it is sent is no second
    /// message. Bytes are kept as they are; other values as results are.
    ///
    /// Raises InvalidInput for what cannot be kept, and when another message waits under this id.
    fn emit(
        &self,
        py: Python<'_>,
        topic: &str,
        id: &Bound<'_, PyAny>,
        message: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let id = names::id("the message id", id)?;
        if let Ok(bytes) = message.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            return self.lent.with(py, |tx| tx.emit_bytes(topic, &id, bytes));
        }
        let message = values::encode(message)?.cbor;
        self.lent.with(py, |tx| tx.emit(topic, &id, &message))
    }

    /// Marks a message as handled by a consumer; whether this is the first time. The mark is kept for 7 days, or `retain`.
    #[pyo3(signature = (consumer, key, *, retain=None))]
    fn mark(
        &self,
        py: Python<'_>,
        consumer: &str,
        key: &Bound<'_, PyAny>,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let key = names::id("the message key", key)?;
        let retain: Option<Retain> = retain.map(times::retain).transpose()?;
        self.lent.with(py, |tx| match retain {
            Some(retain) => tx.mark_for(consumer, &key, retain),
            None => tx.mark(consumer, &key),
        })
    }

    /// Completes a claim with the commit: the result is kept if, and only if, everything else is.
    ///
    /// Raises Lost when another holds the key now, and InvalidInput when the result cannot be kept.
    #[pyo3(signature = (claim, value=None))]
    fn complete(
        &self,
        py: Python<'_>,
        claim: &Bound<'_, Claim>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let none = py.None().into_bound(py);
        let value = values::encode(value.unwrap_or(&none))?.value(py)?;
        let ticket = claim.get().ticket(py)?;
        self.lent.with(py, |tx| tx.complete_value(ticket, value))
    }

    /// Fails a claim with the commit: the error is its result. Raises Lost when another holds the key now.
    fn fail(
        &self,
        py: Python<'_>,
        claim: &Bound<'_, Claim>,
        error: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let failure = failure(error)?;
        let ticket = claim.get().ticket(py)?;
        self.lent.with(py, |tx| tx.fail(ticket, failure))
    }

    /// The store's time, as this transaction has last seen it: an aware datetime in UTC.
    #[getter]
    fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let now_us = self.lent.with(py, |tx| Ok(tx.now_us()))?;
        times::moment(py, now_us)
    }
}
