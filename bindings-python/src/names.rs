//! Who is meant: scopes and ids as Python gives them.

use std::borrow::Cow;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use semel::{Identity, Scope};

use crate::errors::invalid;

/// The scope that all callers share. `semel.GLOBAL` is the only one.
#[pyclass(frozen, module = "semel", name = "Global")]
pub(crate) struct Global;

#[pymethods]
impl Global {
    fn __repr__(&self) -> &'static str {
        "semel.GLOBAL"
    }

    fn __reduce__(&self) -> &'static str {
        "GLOBAL"
    }
}

/// A scope: text, `semel.GLOBAL`, or `None` for the global one.
pub(crate) fn scope<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<Scope<'a>> {
    if given.is_none() || given.is_instance_of::<Global>() {
        return Ok(Scope::Global);
    }
    match given.cast::<PyString>() {
        Ok(text) => Ok(Scope::Of(Cow::Borrowed(text.to_str()?))),
        Err(_) => Err(invalid(
            given.py(),
            format!(
                "scope is a {}; give a text, or semel.GLOBAL",
                given.get_type()
            ),
        )),
    }
}

/// [`scope`] of an argument that may be left out.
pub(crate) fn maybe_scope<'a>(given: Option<&'a Bound<'_, PyAny>>) -> PyResult<Scope<'a>> {
    given.map_or(Ok(Scope::Global), scope)
}

/// An id: text, or an integer or UUID by its text. `name` is what it is called.
pub(crate) fn id<'a>(name: &str, given: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    let py = given.py();
    if let Ok(text) = given.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(_) => Err(invalid(
                py,
                format!("{name} has half of a surrogate pair, which is no character"),
            )),
        };
    }
    let is_number = given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>();
    let uuid = py
        .import(intern!(py, "uuid"))?
        .getattr(intern!(py, "UUID"))?;
    if is_number || given.is_instance(&uuid)? {
        return Ok(Cow::Owned(given.str()?.to_str()?.to_owned()));
    }
    Err(invalid(
        py,
        format!(
            "{name} is a {}; give a text, an integer or a UUID",
            given.get_type()
        ),
    ))
}

/// A name: text alone.
pub(crate) fn text<'a>(name: &str, given: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    match given.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?),
        Err(_) => Err(invalid(
            given.py(),
            format!("{name} is a {}; give a text", given.get_type()),
        )),
    }
}

/// An operation of a scope.
pub(crate) fn identity<'a>(
    operation: &'a str,
    id: &'a Bound<'_, PyAny>,
    scope: Option<&'a Bound<'_, PyAny>>,
) -> PyResult<Identity<'a>> {
    Ok(Identity::new(operation, self::id("the key", id)?).scope(maybe_scope(scope)?))
}
