//! One request: what it is by its head, how it is claimed, and what its answer means.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyInt;
use semel::binding;
use semel::http::{
    Answered, Ending, Guard, Head, Incoming, Kept, Problem, TokenRoute, Verdict, is_stream,
};
use semel::{Claim as Answer, Redeem, Request, Scope, Ticket};

use super::answer::HttpAnswer;
use super::fields::{Field, Fields, text};
use crate::aio::{Op, nothing, ticket, told};
use crate::claim::{Claim, Name};
use crate::errors::{OrRaise, invalid};
use crate::names;
use crate::run::until_signal;
use crate::shared::Shared;
use crate::store::Store;

/// What a request is, by its head.
pub(crate) enum Sorted {
    Passes,
    Token(TokenRoute),
    Refused(Problem),
    Guarded {
        guard: Arc<Guard>,
        key: Option<String>,
        incoming: Result<Incoming, Problem>,
    },
}

/// A request that was asked about.
#[pyclass(frozen, module = "semel._native", name = "HttpAsked")]
pub(crate) struct HttpAsked {
    method: String,
    path: String,
    query: String,
    content_type: Option<String>,
    pub(super) sorted: Sorted,
}

/// A request to the store, or what it is answered with instead; `None`: it passes.
type Asking = Result<Request<'static>, Option<Problem>>;

impl HttpAsked {
    pub(super) fn new(
        method: String,
        path: String,
        query: String,
        content_type: Option<String>,
    ) -> Self {
        Self {
            method,
            path,
            query,
            content_type,
            sorted: Sorted::Passes,
        }
    }

    pub(super) fn head(&self) -> Head<'_> {
        Head {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            content_type: self.content_type.as_deref(),
        }
    }

    fn guard(&self, py: Python<'_>) -> PyResult<&Arc<Guard>> {
        match &self.sorted {
            Sorted::Guarded { guard, .. } => Ok(guard),
            _ => Err(invalid(py, "the request is not guarded")),
        }
    }

    fn asking(&self, py: Python<'_>, scope: Scope<'static>, body: &[u8]) -> PyResult<Asking> {
        let Sorted::Guarded {
            guard,
            key,
            incoming,
        } = &self.sorted
        else {
            return Ok(Err(None));
        };
        let whole = match incoming {
            Ok(incoming) => incoming.whole(body.len()),
            Err(problem) => Err(problem.clone()),
        };
        if let Err(problem) = whole {
            return Ok(Err(Some(problem)));
        }
        Ok(py.detach(|| {
            let request = guard.request(&self.head(), key.clone(), Some(scope), body);
            request.map_err(|problem| problem.map(|problem| *problem))
        }))
    }
}

fn name(guard: &Guard, scope: &Scope<'_>, request: &Request<'_>) -> Name {
    (
        scope.text().map(str::to_owned),
        guard.operation_name().to_owned(),
        binding::id(request).to_owned(),
    )
}

/// An answer of the middleware's own, a claim to execute, or `None`.
fn admitted(
    py: Python<'_>,
    claimed: semel::Result<Answer>,
    name: Name,
    shared: &Arc<Shared>,
) -> PyResult<Py<PyAny>> {
    let answered = match claimed {
        Ok(claim) => Answered::of(claim),
        Err(error) => Answered::Refused(Problem::of_error(&error)),
    };
    Ok(match answered {
        Answered::Execute(ticket) => {
            let claim = Claim::new(Answer::Execute(ticket), name, shared);
            Py::new(py, claim)?.into_any()
        }
        Answered::Replay(kept) => Py::new(py, HttpAnswer::replay(&kept))?.into_any(),
        Answered::Refused(problem) => Py::new(py, HttpAnswer::problem(&problem))?.into_any(),
    })
}

fn instead(py: Python<'_>, problem: Option<&Problem>) -> PyResult<Py<PyAny>> {
    match problem {
        Some(problem) => Ok(Py::new(py, HttpAnswer::problem(problem))?.into_any()),
        None => Ok(py.None()),
    }
}

fn owned(scope: &Bound<'_, PyAny>) -> PyResult<Scope<'static>> {
    Ok(match names::scope(scope)? {
        Scope::Of(text) => Scope::from(text.into_owned()),
        Scope::Global => Scope::Global,
    })
}

fn ending(given: &Bound<'_, PyAny>) -> PyResult<Ending> {
    if given.is_instance_of::<PyInt>() {
        return Ok(Ending::Status(given.extract().unwrap_or(0)));
    }
    match given.extract::<&str>() {
        Ok("broken") => Ok(Ending::Broken),
        Ok("not_sent") => Ok(Ending::NotSent),
        _ => Err(invalid(
            given.py(),
            format!("the ending is {given:?}; it is a status, \"broken\" or \"not_sent\""),
        )),
    }
}

#[pymethods]
impl HttpAsked {
    /// "passes", "token", "guarded" or "refused".
    #[getter]
    fn sort(&self) -> &'static str {
        match self.sorted {
            Sorted::Passes => "passes",
            Sorted::Token(_) => "token",
            Sorted::Refused(_) => "refused",
            Sorted::Guarded { .. } => "guarded",
        }
    }

    /// What it is answered with before a byte of its body is read; None when that is not known yet.
    #[getter]
    fn refusal(&self) -> Option<HttpAnswer> {
        match &self.sorted {
            Sorted::Refused(problem) => Some(HttpAnswer::problem(problem)),
            Sorted::Guarded {
                incoming: Err(problem),
                ..
            } => Some(HttpAnswer::problem(problem)),
            _ => None,
        }
    }

    /// The name of its operation.
    #[getter]
    fn operation(&self, py: Python<'_>) -> PyResult<&str> {
        self.guard(py).map(|guard| guard.operation_name())
    }

    /// The most bytes of its body that are compared.
    #[getter]
    fn limit_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.guard(py).map(|guard| guard.body_limit_bytes())
    }

    /// The most bytes of an answer's body that are kept.
    #[getter]
    fn kept_limit_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.guard(py).map(|guard| guard.kept_limit_bytes())
    }

    /// Whether its key has to be a token, which is to be bound before the claim.
    #[getter]
    fn binds(&self) -> bool {
        matches!(&self.sorted, Sorted::Guarded { guard, .. } if guard.purpose().is_some())
    }

    /// A problem by its word: "without_scope", "too_large", "cut_short", "broken_off", "not_recorded".
    fn problem(&self, py: Python<'_>, word: &str) -> PyResult<HttpAnswer> {
        let problem = match word {
            "without_scope" => Problem::without_scope(),
            "too_large" => Problem::too_large(self.guard(py)?.body_limit_bytes()),
            "cut_short" => Problem::cut_short(),
            "broken_off" => Problem::broken_off(),
            "not_recorded" => Problem::not_recorded(),
            _ => return Err(invalid(py, format!("there is no problem {word:?}"))),
        };
        Ok(HttpAnswer::problem(&problem))
    }

    /// Issues a token of the route that was asked.
    fn issue(
        &self,
        py: Python<'_>,
        store: &Bound<'_, Store>,
        scope: &Bound<'_, PyAny>,
    ) -> PyResult<HttpAnswer> {
        let Sorted::Token(route) = &self.sorted else {
            return Err(invalid(py, "the request asks for no token"));
        };
        let scope = owned(scope)?;
        let store = &store.get().shared.store;
        let issued = py.detach(|| {
            let tokens = store.tokens().scope(scope);
            tokens.issue(route.purpose(), route.ttl())
        });
        Ok(match issued {
            Ok(token) => HttpAnswer::token(route, &token),
            Err(error) => HttpAnswer::problem(&Problem::of_error(&error)),
        })
    }

    /// Binds the token that is its key: what the request is answered with when it is refused.
    fn bind(
        &self,
        py: Python<'_>,
        store: &Bound<'_, Store>,
        scope: &Bound<'_, PyAny>,
        body: PyBackedBytes,
    ) -> PyResult<Py<PyAny>> {
        let scope = owned(scope)?;
        let request = match self.asking(py, scope.clone(), &body)? {
            Ok(request) => request,
            Err(problem) => return instead(py, problem.as_ref()),
        };
        let Some(purpose) = self.guard(py)?.purpose() else {
            return Ok(py.None());
        };
        let store = &store.get().shared.store;
        let bound = py.detach(|| binding::bind_token(store, scope, purpose, &request));
        let problem = match bound {
            Ok(Redeem::Redeemed) => None,
            Ok(Redeem::Refused(refusal)) => Some(Problem::of_refusal(refusal)),
            Err(error) => Some(Problem::of_error(&error)),
        };
        instead(py, problem.as_ref())
    }

    /// Claims it: a Claim that is to be executed, what it is answered with, or None when it passes.
    fn admit(
        &self,
        py: Python<'_>,
        store: &Bound<'_, Store>,
        scope: &Bound<'_, PyAny>,
        body: PyBackedBytes,
    ) -> PyResult<Py<PyAny>> {
        let scope = owned(scope)?;
        let request = match self.asking(py, scope.clone(), &body)? {
            Ok(request) => request,
            Err(problem) => return instead(py, problem.as_ref()),
        };
        let name = name(self.guard(py)?, &scope, &request);
        let shared = &store.get().shared;
        let claimed = until_signal(py, |stop| {
            binding::claim_unless(&shared.store, &request, stop)
        })?;
        admitted(py, claimed, name, shared)
    }

    /// What its answer says of the operation, by its status, "broken" or "not_sent": "keep", "release" or "doubt".
    fn verdict(&self, py: Python<'_>, ended: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let policy = self.guard(py)?.status_policy();
        Ok(match policy.judge(ending(ended)?) {
            Verdict::Keep => "keep",
            Verdict::Release => "release",
            Verdict::Doubt => "doubt",
        })
    }

    /// Whether an answer with these fields is held back to be kept; one that is not goes out as it comes.
    fn holds(&self, py: Python<'_>, fields: Fields) -> PyResult<bool> {
        let limit_bytes = self.guard(py)?.kept_limit_bytes();
        let buffering = text(&fields, "x-accel-buffering");
        let length =
            text(&fields, "content-length").and_then(|text| text.trim().parse::<u64>().ok());
        Ok(!is_stream(text(&fields, "content-type"), buffering)
            && length.is_none_or(|bytes| bytes <= limit_bytes as u64))
    }

    /// Keeps an answer as the result of a claim.
    fn keep(
        &self,
        claim: &Bound<'_, Claim>,
        status: u16,
        fields: Fields,
        body: PyBackedBytes,
    ) -> PyResult<()> {
        let py = claim.py();
        let (ticket, guard) = (ticket(claim)?, self.guard(py)?);
        py.detach(|| binding::block_on(keep(&ticket, guard, status, &fields, &body)))
            .or_raise(py)
    }
}

/// Records an answer; one that cannot be kept, that there was one.
async fn keep(
    ticket: &Ticket,
    guard: &Guard,
    status: u16,
    fields: &[Field],
    body: &[u8],
) -> semel::Result<()> {
    let fields = fields
        .iter()
        .filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, &value[..])));
    let kept = Kept::new(status, fields, body, guard.field_rules());
    match kept.to_value() {
        Ok(value) => ticket.complete_value_async(value).await,
        Err(_) => binding::complete_nothing(ticket).await,
    }
}

/// Begins to claim a request by the task of a number, which does the work of the tasks `within`; see `HttpAsked.admit`. None
/// when there is nothing to wait for: the request passes.
#[pyfunction]
pub(crate) fn begin_admit(
    asked: &Bound<'_, HttpAsked>,
    store: &Bound<'_, Store>,
    scope: &Bound<'_, PyAny>,
    body: PyBackedBytes,
    task: u64,
    within: Vec<u64>,
) -> PyResult<Op> {
    let py = asked.py();
    let scope = owned(scope)?;
    let asked = asked.get();
    let shared = Arc::clone(&store.get().shared);
    let request = match asked.asking(py, scope.clone(), &body)? {
        Ok(request) => request,
        Err(problem) => {
            return Ok(Op::new(async move {
                told(move |py| instead(py, problem.as_ref()))
            }));
        }
    };
    let name = name(asked.guard(py)?, &scope, &request);
    Ok(Op::new(async move {
        let claimed = binding::claim_within(&shared.store, &request, task, within).await;
        told(move |py| admitted(py, claimed, name, &shared))
    }))
}

/// Begins to keep an answer as the result of a claim; see `HttpAsked.keep`.
#[pyfunction]
pub(crate) fn begin_keep(
    asked: &Bound<'_, HttpAsked>,
    claim: &Bound<'_, Claim>,
    status: u16,
    fields: Fields,
    body: PyBackedBytes,
) -> PyResult<Op> {
    let ticket = ticket(claim)?;
    let guard = Arc::clone(asked.get().guard(claim.py())?);
    Ok(Op::new(async move {
        nothing(keep(&ticket, &guard, status, &fields, &body).await)
    }))
}
