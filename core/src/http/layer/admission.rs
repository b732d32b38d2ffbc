//! What becomes of a request before the service behind sees it: sorted by its head, read, and claimed.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Request};
use http_body::Body as HttpBody;
use http_body_util::LengthLimitError;

use super::super::answered::Answered;
use super::super::guard::{Guard, Head, Judged};
use super::super::problem::Problem;
use super::super::token::TokenRoute;
use super::body::{Body, BoxError, Collected, Whole, collect};
use super::builder::Shared;
use super::running::Running;
use super::short::Short;
use crate::caller::Caller;
use crate::error::Error;
use crate::key::Scope;
use crate::nonce;
use crate::request::Request as Asked;
use crate::scheme::token::Redeem;
use crate::ticket::Ticket;

/// What a request is, by its head.
pub(super) enum Sorted {
    Passes,
    Token(TokenRoute),
    Guarded(Arc<Guard>, Option<String>),
    Refused(Problem),
}

/// What becomes of it.
pub(super) enum Admitted<Q> {
    Answered(Short),
    Passes(Box<Request<Body<Q>>>),
    Guarded(Box<Guarded<Q>>),
}

/// A request that may be passed on once.
pub(super) struct Guarded<Q> {
    pub(super) guard: Arc<Guard>,
    pub(super) ticket: Ticket,
    /// The task that holds it: what it claims by itself meanwhile would wait for itself.
    pub(super) task: u64,
    pub(super) request: Request<Body<Q>>,
}

impl Shared {
    pub(super) fn sort(&self, parts: &Parts) -> Sorted {
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let mut token_routes = self.token_routes.iter();
        if let Some(route) = token_routes.find(|route| route.takes(method, path)) {
            return Sorted::Token(route.clone());
        }
        let Some(guard) = self.routes.guard_of(method, path, &self.guard) else {
            return Sorted::Passes;
        };
        let name = guard.key_field().map(HeaderName::try_from);
        let values = name
            .and_then(Result::ok)
            .map(|name| values(&parts.headers, name));
        match guard.judge(&head(parts), values.into_iter().flatten()) {
            Judged::Passes => Sorted::Passes,
            Judged::Guarded(key) => Sorted::Guarded(Arc::clone(guard), key),
            Judged::Refused(problem) => Sorted::Refused(problem),
        }
    }

    /// Reads what has to be read, and claims what is guarded. Whoever drops this before its end has claimed nothing.
    pub(super) async fn admit<Q>(&self, sorted: Sorted, parts: Parts, body: Q) -> Admitted<Q>
    where
        Q: HttpBody,
        Q::Error: Into<BoxError>,
    {
        let admitted = match sorted {
            Sorted::Passes => {
                let request = Request::from_parts(parts, Body::passing(body));
                Ok(Admitted::Passes(Box::new(request)))
            }
            Sorted::Refused(problem) => Err(problem),
            Sorted::Token(route) => self.issue(route, &parts).await.map(Admitted::Answered),
            Sorted::Guarded(guard, key) => self.guarded(guard, key, parts, body).await,
        };
        admitted.unwrap_or_else(|problem| Admitted::Answered(problem.into()))
    }

    async fn guarded<Q>(
        &self,
        guard: Arc<Guard>,
        key: Option<String>,
        parts: Parts,
        body: Q,
    ) -> Result<Admitted<Q>, Problem>
    where
        Q: HttpBody,
        Q::Error: Into<BoxError>,
    {
        let scope = (self.scope)(&parts).ok_or_else(Problem::without_scope)?;
        let whole = read(&guard, &parts.headers, body).await?;
        let asked = guard.request(&head(&parts), key, Some(scope.clone()), &whole.bytes);
        let mut request = Request::from_parts(parts, Body::whole(whole));
        let asked = match asked {
            Ok(asked) => asked,
            Err(Some(problem)) => return Err(*problem),
            Err(None) => return Ok(Admitted::Passes(Box::new(request))),
        };
        let task = nonce::fresh();
        Ok(match self.claim(&guard, scope, &asked, task).await? {
            Answered::Refused(problem) => return Err(problem),
            Answered::Replay(kept) => Admitted::Answered(Short::replay(&kept)),
            Answered::Execute(ticket) => {
                request.extensions_mut().insert(Running::new(&ticket));
                Admitted::Guarded(Box::new(Guarded {
                    guard,
                    ticket,
                    task,
                    request,
                }))
            }
        })
    }

    async fn claim(
        &self,
        guard: &Guard,
        scope: Scope<'static>,
        asked: &Asked<'static>,
        task: u64,
    ) -> Result<Answered, Problem> {
        if let Some(purpose) = guard.purpose() {
            let (store, purpose, asked) = (self.store.clone(), purpose.to_owned(), asked.clone());
            let bound = unblocked(move || {
                let tokens = store.tokens().scope(scope);
                tokens.bind(&asked.id, &purpose, &asked)
            });
            if let Redeem::Refused(refusal) = bound.await? {
                return Err(Problem::of_refusal(refusal));
            }
        }
        let claim = self.store.0.claim(asked, Caller::Task(task)).await;
        Ok(Answered::of(
            claim.map_err(|error| Problem::of_error(&error))?,
        ))
    }

    async fn issue(&self, route: TokenRoute, parts: &Parts) -> Result<Short, Problem> {
        let scope = (self.scope)(parts).ok_or_else(Problem::without_scope)?;
        let (store, asked) = (self.store.clone(), route.clone());
        let token = unblocked(move || {
            let tokens = store.tokens().scope(scope);
            tokens.issue(asked.purpose(), asked.ttl())
        });
        Ok(Short::token(&route, &token.await?))
    }
}

/// What waits for the disk, on a thread that may.
async fn unblocked<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Problem::of_error(&error)),
        Err(_) => Err(Problem::unavailable()),
    }
}

fn head(parts: &Parts) -> Head<'_> {
    let content_type = parts.headers.get(CONTENT_TYPE);
    Head {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query().unwrap_or_default(),
        content_type: content_type.and_then(|value| value.to_str().ok()),
    }
}

fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(name);
    values.into_iter().map(|value| value.as_bytes())
}

/// Reads a body whole, or says why the request cannot be compared.
async fn read<Q>(guard: &Guard, headers: &HeaderMap, body: Q) -> Result<Whole, Problem>
where
    Q: HttpBody,
    Q::Error: Into<BoxError>,
{
    let incoming = guard.incoming(values(headers, CONTENT_LENGTH))?;
    match collect(body, incoming.limit_bytes()).await {
        Ok(Collected::Whole(whole)) => {
            incoming.whole(whole.bytes.len())?;
            Ok(whole)
        }
        Ok(Collected::Over(..)) => Err(Problem::too_large(incoming.limit_bytes())),
        Err(error) => match error.into().downcast_ref::<LengthLimitError>() {
            // A limit of somebody in front.
            Some(_) => Err(Problem::too_large(incoming.limit_bytes())),
            None => Err(Problem::cut_short()),
        },
    }
}
