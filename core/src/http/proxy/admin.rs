//! What whoever looks after the proxy reaches: its health, its measures, and what is in doubt.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use super::body::{Body, whole};
use super::fault;
use super::front::{HEALTH, nothing_here};
use super::resolution::Asked;
use super::server::aside;
use crate::error::{Error, Result};
use crate::http::{Problem, ProblemKind};
use crate::store::{Resolved, Store};

/// How long the store may take to say that it serves.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// How many records in doubt are listed, unless another number is asked for.
const LISTED: usize = 1_000;
/// The longest request to resolve a doubt, in bytes (8 MiB: an answer of 4 MiB as text with escapes).
const MAX_REQUEST_BYTES: usize = 8 << 20;

const METRICS: &str = "/.semel/metrics";
const UNRESOLVED: &str = "/.semel/unresolved";
const JSON: &str = "application/json";
/// The type of Prometheus text.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the store says to whoever looks after it.
#[derive(Clone)]
pub(super) struct Admin {
    store: Store,
    /// Operations of this proxy, whose results are answers of HTTP.
    operations: Arc<[String]>,
    /// One question of health at a time: the store may block.
    asking: Arc<Semaphore>,
}

impl Admin {
    pub(super) fn new(store: Store, operations: Vec<String>) -> Self {
        Self {
            store,
            operations: operations.into(),
            asking: Arc::new(Semaphore::new(1)),
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path());
        match (path, method) {
            (HEALTH, Method::GET | Method::HEAD) => self.health().await,
            (METRICS, Method::GET | Method::HEAD) => {
                text(StatusCode::OK, PROMETHEUS, self.store.metrics())
            }
            (UNRESOLVED, Method::GET | Method::HEAD) => self.unresolved(&request).await,
            (UNRESOLVED, Method::POST) => self.resolve(request).await,
            (HEALTH | METRICS, _) => not_allowed("GET, HEAD"),
            (UNRESOLVED, _) => not_allowed("GET, HEAD, POST"),
            _ => nothing_here(),
        }
    }

    /// Whether the store serves: what it was given before has to be on disk.
    async fn health(&self) -> Response<Body> {
        let store = self.store.clone();
        let asking = Arc::clone(&self.asking);
        let asked = async move {
            let turn = asking.acquire_owned().await;
            // The turn lasts as long as the call does, whoever still waits for it.
            aside(move || {
                let _turn = turn;
                store.sync()
            })
            .await
        };
        match tokio::time::timeout(HEALTH_TIMEOUT, asked).await {
            Ok(Ok(())) => of_json(StatusCode::OK, &json!({ "status": "ok" })),
            Ok(Err(error)) => unwell(error.message()),
            Err(_) => unwell("the store does not answer"),
        }
    }

    async fn unresolved(&self, request: &Request<Incoming>) -> Response<Body> {
        let limit = match limit(request.uri().query().unwrap_or_default()) {
            Ok(limit) => limit,
            Err(words) => return bad_request(&words),
        };
        let store = self.store.clone();
        match aside(move || store.unresolved(limit)).await {
            Ok(found) => {
                let records: Vec<Json> = found.iter().map(crate::info::Info::json).collect();
                of_json(StatusCode::OK, &json!({ "unresolved": records }))
            }
            Err(error) => failed(&error),
        }
    }

    async fn resolve(&self, request: Request<Incoming>) -> Response<Body> {
        // A page in a browser can send other types without being asked where it comes from.
        let content_type = request.headers().get(CONTENT_TYPE);
        if content_type.is_none_or(|value| !value.as_bytes().starts_with(JSON.as_bytes())) {
            return bad_request("send it with Content-Type: application/json");
        }
        let body = Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect();
        let Ok(body) = body.await else {
            return bad_request(&format!(
                "its body broke off, or has more than {MAX_REQUEST_BYTES} bytes"
            ));
        };
        let asked = match Asked::parse(&body.to_bytes(), &self.operations) {
            Ok(asked) => asked,
            Err(words) => return bad_request(&words),
        };
        let store = self.store.clone();
        match aside(move || asked.resolve(&store)).await {
            Ok(Resolved::Resolved) => of_json(StatusCode::OK, &json!({ "answer": "resolved" })),
            Ok(Resolved::NotInDoubt) => of_json(
                StatusCode::CONFLICT,
                &json!({ "answer": "not_in_doubt", "detail": "it is not in doubt about the attempt of this fence; list what is" }),
            ),
            Ok(Resolved::Absent) => of_json(
                StatusCode::NOT_FOUND,
                &json!({ "answer": "absent", "detail": "the store knows no such key; name its operation and its scope as they are listed" }),
            ),
            Err(error) => failed(&error),
        }
    }
}

/// The number in `limit=N`.
fn limit(query: &str) -> Result<usize, String> {
    match query.split_once('=') {
        None if query.is_empty() => Ok(LISTED),
        Some(("limit", number)) => number
            .parse()
            .map_err(|_| format!("{number:?} is no number of records")),
        _ => Err("there is only limit=N to ask with".to_owned()),
    }
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Body> {
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

fn of_json(status: StatusCode, body: &Json) -> Response<Body> {
    text(status, JSON, format!("{body}\n"))
}

fn unwell(words: &str) -> Response<Body> {
    let body = json!({ "status": "unavailable", "detail": words });
    of_json(StatusCode::SERVICE_UNAVAILABLE, &body)
}

fn bad_request(words: &str) -> Response<Body> {
    fault::answer(&Problem::new(ProblemKind::RequestMalformed, words))
}

fn failed(error: &Error) -> Response<Body> {
    fault::answer(&Problem::of_error(error))
}

fn not_allowed(methods: &'static str) -> Response<Body> {
    let words = format!("the method is not allowed here; use {methods}");
    let mut answer = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "text/plain; charset=utf-8",
        words,
    );
    answer
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(methods));
    answer
}
