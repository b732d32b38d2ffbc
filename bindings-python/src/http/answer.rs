//! Answers that a middleware gives by itself: problems, replays and tokens.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use semel::http::{Kept, Problem, REPLAYED, TokenRoute};

/// An answer with its whole body.
#[pyclass(frozen, module = "semel._native", name = "HttpAnswer")]
pub(crate) struct HttpAnswer {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl HttpAnswer {
    pub(crate) fn problem(problem: &Problem) -> Self {
        let content_type = Problem::CONTENT_TYPE.as_bytes().to_vec();
        let mut fields = vec![("content-type".to_owned(), content_type)];
        if let Some(seconds) = problem.retry_after() {
            fields.push(("retry-after".to_owned(), seconds.to_string().into_bytes()));
        }
        Self::new(problem.status(), fields, problem.body().into_bytes())
    }

    /// What is kept, and that it is a replay.
    pub(crate) fn replay(kept: &Kept) -> Self {
        let fields = kept.fields();
        let mut fields: Vec<(String, Vec<u8>)> = fields
            .map(|(name, value)| (name.to_owned(), value.to_vec()))
            .collect();
        fields.push((REPLAYED.to_owned(), b"true".to_vec()));
        Self::new(kept.status(), fields, kept.body().to_vec())
    }

    pub(crate) fn token(route: &TokenRoute, token: &str) -> Self {
        let fields = TokenRoute::FIELDS
            .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
            .to_vec();
        Self::new(TokenRoute::STATUS, fields, route.body(token).into_bytes())
    }

    /// Says how long it is, where a status has a body at all.
    fn new(status: u16, mut fields: Vec<(String, Vec<u8>)>, body: Vec<u8>) -> Self {
        if !matches!(status, 100..=199 | 204 | 304) {
            let length = body.len().to_string().into_bytes();
            fields.push(("content-length".to_owned(), length));
        }
        Self {
            status,
            fields,
            body,
        }
    }
}

#[pymethods]
impl HttpAnswer {
    /// The status.
    #[getter]
    fn status(&self) -> u16 {
        self.status
    }

    /// The fields: pairs of bytes, with names in lower case.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let fields = self.fields.iter();
        fields
            .map(|(name, value)| (PyBytes::new(py, name.as_bytes()), PyBytes::new(py, value)))
            .collect()
    }

    /// The body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.body)
    }

    fn __repr__(&self) -> String {
        format!("<semel.HttpAnswer {}>", self.status)
    }
}
