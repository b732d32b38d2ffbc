//! Message inbox: each message of a broker is handled once, in one step with what its handling writes.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use semel::Consumed;

use crate::errors::{Fault, invalid};
use crate::names;
use crate::options;
use crate::store::Shared;
use crate::times;
use crate::transaction::lend;

/// Handles a message once; the word of what it came to.
pub(crate) fn consume(
    py: Python<'_>,
    shared: &Shared,
    consumer: &str,
    message: &Bound<'_, PyAny>,
    work: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<&'static str> {
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
    let told = py.detach(|| consume.consume(|tx| lend(tx, &work).map(drop)));
    match told {
        Ok(Consumed::Done(())) => Ok("done"),
        Ok(Consumed::Duplicate) => Ok("duplicate"),
        Ok(Consumed::Busy(_)) => Ok("busy"),
        Ok(Consumed::Rejected(_)) => Ok("rejected"),
        Err(fault) => {
            let fault: Fault = fault;
            Err(fault.raise(py))
        }
    }
}
