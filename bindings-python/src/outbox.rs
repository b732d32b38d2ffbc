//! Outbox: messages that are written with the work that causes them, and sent afterwards, each at least once.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{OrRaise, invalid};
use crate::shared::Shared;
use crate::values;

/// A topic of a store's outbox.
///
/// >>> import semel
/// >>> store = semel.open("memory:")
/// >>> store.transaction(lambda tx: tx.emit("orders.paid", "ORDER_1", {"amount": 100}))
/// >>> store.outbox("orders.paid").relay(lambda id, message: print(id, message))
/// ORDER_1 {'amount': 100}
/// 1
#[pyclass(frozen, module = "semel", name = "Outbox")]
pub(crate) struct Outbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) topic: String,
}

#[pymethods]
impl Outbox {
    /// Sends messages in their order, each at least once: `send(id, message)`; a message that send returned for is sent no
    /// more, except after a crash of this relay. The first that cannot be sent ends the call, and is tried again after a
    /// pause that grows, from 100 ms to a minute. After `dead_after` failures it moves to the topic "TOPIC.dead" instead.
    /// One relay per topic works at a time.
    ///
    /// How many were sent: an int, with the attributes `dead`, `blocked` (id, failures, error; or None) and `busy`.
    ///
    /// Raises InvalidInput and StoreError. What send raises is in the answer, but for KeyboardInterrupt and its like.
    #[pyo3(signature = (send, *, limit=100, dead_after=None))]
    fn relay<'py>(
        &self,
        py: Python<'py>,
        send: &Bound<'py, PyAny>,
        limit: usize,
        dead_after: Option<u32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !send.is_callable() {
            return Err(invalid(
                py,
                "send is not callable; give a function of id and message",
            ));
        }
        let send = send.clone().unbind();
        let mut stopped = None;
        let told = py.detach(|| {
            let mut outbox = self.shared.store.outbox(&self.topic).limit(limit);
            if let Some(failures) = dead_after {
                outbox = outbox.dead_after(failures);
            }
            outbox.relay_values(|id, message| {
                if stopped.is_some() {
                    return Err("the relay was stopped".to_owned());
                }
                Python::attach(|py| {
                    let sent = values::decode(py, message, None)
                        .and_then(|message| send.bind(py).call1((id, message)));
                    sent.map(drop).map_err(|error| {
                        let text = format!(
                            "{}: {}",
                            error
                                .get_type(py)
                                .name()
                                .map_or_else(|_| "error".to_owned(), |name| name.to_string()),
                            error.value(py)
                        );
                        if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
                            stopped = Some(error);
                        }
                        text
                    })
                })
            })
        });
        let relayed = told.or_raise(py)?;
        if let Some(error) = stopped {
            return Err(error);
        }
        let facts = PyDict::new(py);
        facts.set_item("dead", relayed.dead)?;
        facts.set_item("blocked", relayed.blocked)?;
        facts.set_item("busy", relayed.busy)?;
        py.import("semel._schemes")?
            .getattr(intern!(py, "Relayed"))?
            .call((relayed.sent,), Some(&facts))
    }

    /// How many messages wait in the topic.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.shared.store.outbox(&self.topic).len())
            .or_raise(py)
    }

    /// A topic is true, however little waits in it.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        format!("<semel.Outbox {:?}>", self.topic)
    }
}
