//! Ending a doubt: what came of an operation, by exactly one of several words.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use semel::{Forgotten, Resolution, Resolved};

use crate::errors::invalid;
use crate::failure::failure;
use crate::values;

/// What came of an operation, as keyword arguments say it.
pub(crate) fn resolution(
    py: Python<'_>,
    rerun: bool,
    executed: bool,
    ending: Option<&Bound<'_, PyDict>>,
) -> PyResult<Resolution> {
    let mut given = Vec::new();
    if rerun {
        given.push(Resolution::Rerun);
    }
    if executed {
        given.push(Resolution::Executed);
    }
    for (name, value) in ending.iter().flat_map(|ending| ending.iter()) {
        given.push(match name.cast::<PyString>()?.to_str()? {
            "value" => Resolution::Value(values::encode(&value)?.value(py)?),
            "error" => Resolution::Failure(failure(&value)?),
            other => {
                return Err(invalid(
                    py,
                    format!("resolve has no argument {other:?}; it takes value=, error=, executed=True or rerun=True"),
                ));
            }
        });
    }
    match (given.pop(), given.is_empty()) {
        (Some(resolution), true) => Ok(resolution),
        _ => Err(invalid(
            py,
            "say what came of the operation by exactly one of value=, error=, executed=True and rerun=True",
        )),
    }
}

/// The word of what a resolution came to.
pub(crate) fn resolved(told: Resolved) -> &'static str {
    match told {
        Resolved::Resolved => "resolved",
        Resolved::NotInDoubt => "not_in_doubt",
        Resolved::Absent => "absent",
    }
}

/// The word of what forgetting came to.
pub(crate) fn forgotten(told: Forgotten) -> &'static str {
    match told {
        Forgotten::Forgotten => "forgotten",
        Forgotten::Absent => "absent",
        Forgotten::Busy => "busy",
    }
}
