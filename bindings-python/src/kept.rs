//! A result of work: the object that the caller gets, and the value that repeats get.

use pyo3::prelude::*;
use semel::binding::Kept;
use semel::{Error, ErrorKind, Ticket, Value};
use serde::ser::{Serialize, Serializer};

use crate::values;

/// A result of work, encoded. The object is what every repeat will get, so that the first caller is told nothing else.
#[derive(Debug)]
pub(crate) struct Result {
    /// `None` for one that was kept before: it is read when it is asked for.
    object: Option<Py<PyAny>>,
    value: std::result::Result<Value, String>,
}

impl Result {
    /// Encodes what the work returned. What cannot be written, or not be read again, is told apart: the work was done.
    pub(crate) fn of(object: &Bound<'_, PyAny>, returns: Option<&Py<PyAny>>) -> Self {
        let py = object.py();
        let returns = returns.map(|kind| kind.bind(py));
        match Self::encoded(object, returns) {
            Ok((object, value)) => Self {
                object: Some(object),
                value: Ok(value),
            },
            Err(error) => Self {
                object: Some(object.clone().unbind()),
                value: Err(error.value(py).to_string()),
            },
        }
    }

    fn encoded(
        object: &Bound<'_, PyAny>,
        returns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Py<PyAny>, Value)> {
        let py = object.py();
        let encoded = values::encode(object)?;
        let value = encoded.value(py)?;
        let object = match encoded.exact && returns.is_none() {
            true => object.clone(),
            false => values::decode(py, &value, returns)?,
        };
        Ok((object.unbind(), value))
    }

    /// The object that the caller gets.
    ///
    /// # Errors
    /// `InvalidInput` when what was kept cannot be read.
    pub(crate) fn object<'py>(
        self,
        py: Python<'py>,
        returns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self.object, self.value) {
            (Some(object), _) => Ok(object.into_bound(py)),
            (None, Ok(value)) => values::decode(py, &value, returns),
            (None, Err(why)) => Err(crate::errors::invalid(py, why)),
        }
    }

    /// Why it is not kept; `None` when it is.
    pub(crate) fn not_kept(&self, max_bytes: usize) -> Option<String> {
        match &self.value {
            Err(why) => Some(why.clone()),
            Ok(value) if value.as_bytes().len() > max_bytes => Some(format!(
                "it is {} bytes long, and the store keeps {max_bytes}: return a reference instead",
                value.as_bytes().len()
            )),
            Ok(_) => None,
        }
    }

    /// Completes a ticket with it.
    pub(crate) fn complete(&self, ticket: &Ticket) -> semel::Result<()> {
        semel::binding::block_on(self.complete_async(ticket))
    }

    /// [`complete`](Result::complete) for callers that await.
    pub(crate) async fn complete_async(&self, ticket: &Ticket) -> semel::Result<()> {
        match &self.value {
            Ok(value) => ticket.complete_value_async(value.clone()).await,
            Err(why) => ticket.complete_async(&NotEncodable(why)).await,
        }
    }
}

impl Kept for Result {
    fn keep(&self) -> semel::Result<Value> {
        self.value
            .clone()
            .map_err(|why| Error::new(ErrorKind::InvalidInput, why))
    }

    fn read(kept: Value) -> semel::Result<Self> {
        Ok(Self {
            object: None,
            value: Ok(kept),
        })
    }
}

/// A result that cannot be written; the store counts it, and says why.
struct NotEncodable<'a>(&'a str);

impl Serialize for NotEncodable<'_> {
    fn serialize<S: Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom(self.0))
    }
}
