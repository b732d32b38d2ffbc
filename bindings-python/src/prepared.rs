//! An operation whose options are read once, for functions that are called often: what the decorator stands on.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::failure::Known;
use crate::names;
use crate::options::{Call, Options, Own};
use crate::payload;
use crate::run::{self, How};
use crate::store::Store;

/// An operation with its options.
#[pyclass(frozen, module = "semel._native", name = "Prepared")]
pub(crate) struct Prepared {
    operation: String,
    options: Options,
    known: Known,
    returns: Option<Py<PyAny>>,
}

#[pymethods]
impl Prepared {
    #[new]
    #[pyo3(signature = (operation, *, retry_on=None, fail_on=None, returns=None, **options))]
    fn new(
        operation: &Bound<'_, PyAny>,
        retry_on: Option<&Bound<'_, PyAny>>,
        fail_on: Option<&Bound<'_, PyAny>>,
        returns: Option<Py<PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Ok(Self {
            operation: names::text("operation", operation)?.to_owned(),
            options: Options::of(options)?,
            known: Known::of(retry_on, fail_on)?,
            returns,
        })
    }

    /// Runs a function with its arguments, once for each key.
    #[expect(
        clippy::too_many_arguments,
        reason = "what one call of a guarded function consists of"
    )]
    fn run<'py>(
        &self,
        py: Python<'py>,
        store: &Bound<'py, Store>,
        id: &Bound<'py, PyAny>,
        scope: &Bound<'py, PyAny>,
        payload: &Bound<'py, PyAny>,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = Own {
            scope: Some(scope.clone()),
            payload: None,
        };
        let call = Call {
            operation: &self.operation,
            id: names::id("the key", id)?,
            scope: names::maybe_scope(own.scope.as_ref())?,
            payload: match payload.is_none() {
                true => None,
                false => Some(payload::canonical(payload)?),
            },
        };
        let (scope, id) = (call.scope.clone(), call.id.clone());
        let named = || {
            let scope = scope.text().map(str::to_owned);
            (scope, self.operation.clone(), id.clone().into_owned())
        };
        let request = self.options.request(py, call);
        let how = How {
            work: function,
            arguments: Some(arguments),
            keywords,
            pass_ticket: false,
            known: &self.known,
            returns: self.returns.as_ref().map(|kind| kind.bind(py)),
        };
        let shared = Arc::clone(&store.get().shared);
        run::run(py, &shared, &request, self.options.waits(), named, &how)
    }
}
