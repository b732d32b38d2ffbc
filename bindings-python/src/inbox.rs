//! Message inbox: each message of a broker is handled once, in one step with what its handling writes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use semel::Consumed;

use crate::errors::{Fault, invalid};
use crate::names;
use crate::options;
use crate::shared::Shared;
use crate::times;
use crate::transaction::lend;

/// Handles a message once; the word of what it came to.
pub(crate) fn consume<'py>(
    py: Python<'py>,
    shared: &Shared,
    consumer: &str,
    message: &Bound<'py, PyAny>,
    work: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let message = names::id("the message key", message)?;
    let mut consume = shared.store.message(consumer, &message);
    for (name, value) in options.iter().flat_map(|options| options.iter()) {
        let name: String = name.extract()?;
        consume = match name.as_str() {
            "max_attempts" => consume.max_attempts(options::count(&name, &value)?),
            "lease" => consume.lease(times::span(&name, &value)?),
            "retain" => consume.retain(times::retain(&value)?),
            "wait" => consume.wait(times::span(&name, &value)?),
            "durability" => consume.durability(options::durability(&value)?),
            other => {
                let known = "max_attempts, lease, retain, wait, durability";
                return Err(invalid(
                    py,
                    format!("consume has no option {other:?}; the options are {known}"),
                ));
            }
        };
    }
    let work = work.clone().unbind();
    let consumed = py
        .detach(|| consume.consume(|tx| lend(tx, &work)))
        .map_err(|fault: Fault| fault.raise(py))?;
    let answer = consumed.name();
    let facts = PyDict::new(py);
    match consumed {
        Consumed::Done(value) => facts.set_item("value", value)?,
        Consumed::Duplicate => {}
        Consumed::Busy(busy) => facts.set_item("retry_after", busy.retry_after.as_secs_f64())?,
        Consumed::Rejected(failure) => {
            let told = PyDict::new(py);
            told.set_item("code", failure.code)?;
            told.set_item("message", failure.message)?;
            facts.set_item("failure", told)?;
        }
    }
    py.import("semel._schemes")?
        .getattr(intern!(py, "Consumed"))?
        .call((answer,), Some(&facts))
}
