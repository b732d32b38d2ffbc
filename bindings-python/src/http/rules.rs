//! The rules of a middleware: which rules hold for which request, where tokens are had, what other origins are told.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use semel::binding;
use semel::http::{
    CORS_EXPOSED, Guard, Head, IDEMPOTENCY_KEY, Judged, Routes, TokenRoute, cors_lacks,
    is_preflight,
};

use super::asked::{HttpAsked, Sorted};
use super::fields::{self, Fields, text, values};
use super::guard;
use crate::errors::OrRaise;
use crate::store::Store;
use crate::times;

/// A field to be added: its name and its value.
type Field<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// The rules of a middleware.
#[pyclass(frozen, module = "semel._native", name = "HttpRules")]
pub(crate) struct HttpRules {
    rest: Arc<Guard>,
    routes: Routes,
    token_routes: Vec<TokenRoute>,
}

impl HttpRules {
    fn guards(&self) -> impl Iterator<Item = &Arc<Guard>> {
        std::iter::once(&self.rest).chain(self.routes.guards())
    }

    fn sorted(&self, head: &Head<'_>, fields: &[fields::Field]) -> Sorted {
        let (method, path) = (head.method, head.path);
        let mut token_routes = self.token_routes.iter();
        if let Some(route) = token_routes.find(|route| route.takes(method, path)) {
            return Sorted::Token(route.clone());
        }
        let Some(guard) = self.routes.guard_of(method, path, &self.rest) else {
            return Sorted::Passes;
        };
        let judged = match guard.key_field() {
            Some(name) => guard.judge(head, values(fields, name)),
            None => guard.judge(head, []),
        };
        match judged {
            Judged::Passes => Sorted::Passes,
            Judged::Refused(problem) => Sorted::Refused(problem),
            Judged::Guarded(key) => Sorted::Guarded {
                guard: Arc::clone(guard),
                key,
                incoming: guard.incoming(values(fields, "content-length")),
            },
        }
    }
}

#[pymethods]
impl HttpRules {
    /// The rules for all the rest; routes, each a pattern with its rules over those, or None to let it pass; and paths where
    /// tokens are had, each with their purpose and ttl.
    #[new]
    fn new(
        py: Python<'_>,
        store: &Bound<'_, Store>,
        rest: &Bound<'_, PyDict>,
        routes: Vec<(String, Option<Bound<'_, PyDict>>)>,
        token_routes: Vec<(String, String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let own = guard::with(Guard::new(), Some(rest))?;
        let mut listed = Routes::new();
        for (pattern, rules) in &routes {
            listed = match rules {
                Some(rules) => {
                    let guard = guard::with(own.clone(), Some(rules))?;
                    listed.guarded(pattern, guard).or_raise(py)?
                }
                None => listed.unguarded(pattern).or_raise(py)?,
            };
        }
        let mut tokens = Vec::new();
        for (path, purpose, ttl) in &token_routes {
            let ttl = times::span("ttl", ttl)?;
            tokens.push(TokenRoute::new(path, purpose, ttl).or_raise(py)?);
        }
        let rules = Self {
            rest: Arc::new(own),
            routes: listed,
            token_routes: tokens,
        };
        let in_doubt = binding::in_doubt(&store.get().shared.store);
        for guard in rules.guards() {
            guard.check(in_doubt).or_raise(py)?;
        }
        Ok(rules)
    }

    /// What somebody should know who has set this up, in words.
    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.guards().flat_map(|guard| guard.warnings()).collect();
        warnings.dedup();
        warnings
    }

    /// What becomes of a request, by its head.
    fn ask(&self, method: String, path: String, query: String, fields: Fields) -> HttpAsked {
        let content_type = text(&fields, "content-type").map(str::to_owned);
        let mut asked = HttpAsked::new(method, path, query, content_type);
        let sorted = self.sorted(&asked.head(), &fields);
        asked.sorted = sorted;
        asked
    }

    /// What other origins are to be told besides, by the fields of the request and those of the answer.
    fn cors<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        asked: Fields,
        answered: Fields,
    ) -> Option<Field<'py>> {
        let origin = text(&asked, "origin");
        let wanted = text(&asked, "access-control-request-method");
        let given = |list| {
            let texts = values(&answered, list);
            texts.filter_map(|value| std::str::from_utf8(value).ok())
        };
        let (list, lacks) = if !is_preflight(method, origin, wanted) {
            let list = "access-control-expose-headers";
            (list, cors_lacks(given(list), CORS_EXPOSED))
        } else if text(&answered, "access-control-allow-origin").is_some() {
            let list = "access-control-allow-headers";
            let keys = self.guards().filter_map(|guard| guard.key_field());
            (list, cors_lacks(given(list), keys.chain([IDEMPOTENCY_KEY])))
        } else {
            // Whoever was not let in is told nothing.
            return None;
        };
        let lacks = lacks?;
        Some((
            PyBytes::new(py, list.as_bytes()),
            PyBytes::new(py, lacks.as_bytes()),
        ))
    }
}
