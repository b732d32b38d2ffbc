//! Errors and answers of the store as exceptions of `semel._errors`, where their classes are.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};
use semel::{Error, ErrorKind};

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The module with the exceptions.
pub(crate) fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    ERRORS
        .get_or_try_init(py, || Ok(PyModule::import(py, "semel._errors")?.unbind()))
        .map(|module| module.bind(py))
}

/// An exception of this class, with a message and what it knows.
pub(crate) fn build(
    py: Python<'_>,
    class: &str,
    message: &str,
    facts: Option<&Bound<'_, PyDict>>,
) -> PyErr {
    let built = module(py)
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call((message,), facts));
    match built {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// The exception of an error.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        // A kind that this binding does not know is one of the store.
        kind if kind.name().is_empty() => "StoreError",
        kind => kind.name(),
    };
    build(py, class, error.message(), None)
}

/// `InvalidInput` with this message.
pub(crate) fn invalid(py: Python<'_>, message: impl AsRef<str>) -> PyErr {
    build(py, ErrorKind::InvalidInput.name(), message.as_ref(), None)
}

/// Results of the store as those of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for semel::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}

/// An error of a call that runs work of Python: the work's own, or the store's.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The work's.
    Python(PyErr),
    /// The store's.
    Store(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Python(error) => f.write_str(&Python::attach(|py| words(py, error))),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

/// An exception in words: our own by its message, as the store has it; any other by its type and message.
fn words(py: Python<'_>, error: &PyErr) -> String {
    let ours = module(py).and_then(|module| module.getattr("Error"));
    match ours {
        Ok(class) if error.matches(py, &class).unwrap_or(false) => error.value(py).to_string(),
        _ => error.to_string(),
    }
}

impl Fault {
    /// The exception.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Python(error) => error,
            Self::Store(error) => raised(py, &error),
        }
    }
}
