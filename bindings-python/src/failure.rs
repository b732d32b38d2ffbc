//! Errors of the work: what is kept of an exception, and what an exception says of the effect.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};
use semel::{Failure, WorkError};

use crate::errors::invalid;

/// The code of a failure that names none.
const DEFAULT_CODE: &str = "error";

/// What is kept of an exception, or of a mapping with `code`, `message` and `kind`.
pub(crate) fn failure(error: &Bound<'_, PyAny>) -> PyResult<Failure> {
    if let Ok(mapping) = error.cast::<PyMapping>() {
        let members = PyDict::new(error.py());
        members.update(mapping)?;
        let part = |name: &str| -> PyResult<Option<String>> {
            let found = members.get_item(name)?;
            found.map(|found| Ok(found.str()?.to_string())).transpose()
        };
        let message = part("message")?.unwrap_or_default();
        let code = part("code")?.unwrap_or_else(|| DEFAULT_CODE.to_owned());
        return Ok(Failure::new(code, message).kind(part("kind")?.unwrap_or_default()));
    }
    let py = error.py();
    if !error.is_instance_of::<pyo3::exceptions::PyBaseException>() {
        return Err(invalid(
            py,
            format!(
                "error is a {}; give an exception, or a dict with code and message",
                error.get_type()
            ),
        ));
    }
    let code = error.getattr(intern!(py, "code")).ok();
    let code = code
        .and_then(|code| Some(code.cast::<PyString>().ok()?.to_string()))
        .filter(|code| !code.is_empty())
        .unwrap_or_else(|| DEFAULT_CODE.to_owned());
    // A failure that is told on stays what it was.
    let kind = match error
        .getattr(intern!(py, "kind"))
        .ok()
        .map(|kind| kind.extract::<String>())
    {
        Some(Ok(kind)) if is_failed(error)? => kind,
        _ => error.get_type().qualname()?.to_string(),
    };
    Ok(Failure::new(code, error.str()?.to_string()).kind(kind))
}

fn is_failed(error: &Bound<'_, PyAny>) -> PyResult<bool> {
    error.is_instance(&crate::errors::module(error.py())?.getattr("Failed")?)
}

/// Which exceptions of the work say something of its effect.
#[derive(Default)]
pub(crate) struct Known {
    retry_on: Option<Py<PyTuple>>,
    fail_on: Option<Py<PyTuple>>,
}

impl Known {
    pub(crate) fn of(
        retry_on: Option<&Bound<'_, PyAny>>,
        fail_on: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            retry_on: classes("retry_on", retry_on)?,
            fail_on: classes("fail_on", fail_on)?,
        })
    }

    /// An exception with what it says of the effect. The class that is nearest to the exception's own decides; what is named
    /// nowhere, and is no `Retryable` or `Terminal`, says nothing.
    pub(crate) fn classify(&self, py: Python<'_>, error: PyErr) -> WorkError<PyErr> {
        match self.verdict(py, &error) {
            Ok(Verdict::Retry) => WorkError::Retryable(error),
            Ok(Verdict::Fail) => match failure(error.value(py).as_any()) {
                Ok(failure) => WorkError::Terminal(error, failure),
                Err(_) => WorkError::Unknown(error),
            },
            Ok(Verdict::Nothing) | Err(_) => WorkError::Unknown(error),
        }
    }

    fn verdict(&self, py: Python<'_>, error: &PyErr) -> PyResult<Verdict> {
        let classify = classifier(py)?;
        let bound = |classes: &Option<Py<PyTuple>>| match classes {
            Some(classes) => classes.bind(py).clone(),
            None => PyTuple::empty(py),
        };
        let told =
            classify.call1((error.value(py), bound(&self.retry_on), bound(&self.fail_on)))?;
        Ok(match told.extract::<u8>()? {
            1 => Verdict::Retry,
            2 => Verdict::Fail,
            _ => Verdict::Nothing,
        })
    }
}

enum Verdict {
    Retry,
    Fail,
    Nothing,
}

fn classifier(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASSIFY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASSIFY
        .get_or_try_init(py, || {
            let module = py.import("semel._work")?;
            module.getattr("classify").map(Bound::unbind)
        })
        .map(|classify| classify.bind(py))
}

/// Exception classes: one, or a tuple or list of them.
fn classes(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyTuple>>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return Ok(None);
    };
    let py = given.py();
    let classes = match given.is_instance_of::<pyo3::types::PyType>() {
        true => PyTuple::new(py, [given])?,
        false => PyTuple::new(py, given.try_iter()?.collect::<PyResult<Vec<_>>>()?)?,
    };
    let base = py.get_type::<pyo3::exceptions::PyBaseException>();
    for class in classes.iter() {
        let is_exception = class
            .cast::<pyo3::types::PyType>()
            .is_ok_and(|class| class.is_subclass(&base).unwrap_or(false));
        if !is_exception {
            return Err(invalid(
                py,
                format!("{name} has {class:?}, which is no class of exceptions"),
            ));
        }
    }
    Ok(Some(classes.unbind()))
}
