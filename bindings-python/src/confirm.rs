//! Asking the caller about an attempt in doubt: `confirm=`.

use pyo3::prelude::*;
use semel::{Confirmation, Info};

use crate::errors;
use crate::record::Record;
use crate::values;

/// Calls `confirm` with the record, and takes `semel.Done(value)`, `semel.NOT_DONE` or `semel.STILL`. An exception, and
/// anything else, leaves the operation in doubt.
pub(crate) fn asked(ask: &Py<PyAny>, info: &Info) -> Confirmation {
    Python::try_attach(|py| {
        answer(py, ask, info).unwrap_or_else(|error| {
            error.write_unraisable(py, Some(ask.bind(py)));
            Confirmation::Still
        })
    })
    .unwrap_or(Confirmation::Still)
}

fn answer(py: Python<'_>, ask: &Py<PyAny>, info: &Info) -> PyResult<Confirmation> {
    let told = ask.bind(py).call1((Record::of(info.clone()),))?;
    let words = py.import("semel._confirm")?;
    if told.is_instance(&words.getattr("Done")?)? {
        let value = values::encode(&told.getattr("value")?)?.value(py)?;
        return Ok(Confirmation::Done(value));
    }
    if told.is(&words.getattr("NOT_DONE")?) {
        return Ok(Confirmation::NotDone);
    }
    if told.is(&words.getattr("STILL")?) {
        return Ok(Confirmation::Still);
    }
    Err(errors::invalid(
        py,
        format!(
            "confirm returned {told:?}; return semel.Done(value), semel.NOT_DONE or semel.STILL"
        ),
    ))
}
