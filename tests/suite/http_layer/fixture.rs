//! What the tests of the layer stand on: a layer, a handler that counts, requests, and answers that can be compared.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Frame;
use semel::http::{Body, IdempotencyLayer, LayerBuilder};
use semel::{Scope, Store};
use serde_json::Value as Json;
use tokio::sync::{Semaphore, mpsc};
use tower::{Service, ServiceExt};

/// The body of requests that come from no network.
pub(super) type Sent = Full<Bytes>;
/// The request as the handler gets it.
pub(super) type Seen = Request<Body<Sent>>;

pub(super) fn store() -> Store {
    Store::open("memory:").expect("opens")
}

/// A layer that takes whose a request is from the field `x-user`.
pub(super) fn by_user(store: &Store) -> LayerBuilder {
    IdempotencyLayer::builder(store.clone()).scope(|request| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        Some(Scope::from(user.to_owned()))
    })
}

/// A POST of ann.
pub(super) fn post(path: &str, key: &str, body: &str) -> Request<Sent> {
    Request::post(path)
        .header("x-user", "ann")
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(Full::from(body.to_owned()))
        .expect("a request")
}

/// How often a handler has run.
#[derive(Clone, Default)]
pub(super) struct Runs(Arc<AtomicU32>);

impl Runs {
    /// Counts a run; its number, from 1.
    pub(super) fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// An answer that was read to its end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) body: Bytes,
}

impl Got {
    pub(super) async fn of<B>(response: Response<B>) -> Self
    where
        B: hyper::body::Body,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Self {
            status: parts.status.as_u16(),
            fields: parts.headers,
            body,
        }
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .get(name)
            .map(|value| value.to_str().expect("ASCII"))
    }

    pub(super) fn replayed(&self) -> bool {
        self.field("idempotent-replayed") == Some("true")
    }

    pub(super) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The kind of problem that it is; the status and the media type are checked beside.
    pub(super) fn problem(&self) -> String {
        assert_eq!(
            self.field("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let body = self.json();
        assert_eq!(body["status"], self.status);
        let kind = body["type"].as_str().expect("a type");
        kind.strip_prefix("urn:semel:problem:")
            .expect("ours")
            .to_owned()
    }
}

/// Asks a service once.
pub(super) async fn ask<S, B>(service: &S, request: Request<Sent>) -> Got
where
    S: Service<Request<Sent>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
    B: hyper::body::Body,
    B::Error: std::fmt::Debug,
{
    let response = service.clone().oneshot(request).await.expect("an answer");
    Got::of(response).await
}

/// A body that a test feeds piece by piece.
pub(super) struct Fed(mpsc::Receiver<Result<Frame<Bytes>, io::Error>>);

/// Feeds it; dropping this ends the body.
pub(super) struct Feeder(mpsc::Sender<Result<Frame<Bytes>, io::Error>>);

pub(super) fn fed() -> (Feeder, Fed) {
    // One piece at a time, so that feeding waits for whoever reads.
    let (feeder, body) = mpsc::channel(1);
    (Feeder(feeder), Fed(body))
}

impl Feeder {
    pub(super) async fn data(&self, bytes: &'static str) {
        let frame = Frame::data(Bytes::from_static(bytes.as_bytes()));
        self.0.send(Ok(frame)).await.expect("somebody reads");
    }

    pub(super) async fn trailer(&self, name: &'static str, value: &'static str) {
        let mut fields = HeaderMap::new();
        fields.insert(name, http::HeaderValue::from_static(value));
        self.0
            .send(Ok(Frame::trailers(fields)))
            .await
            .expect("somebody reads");
    }

    pub(super) async fn breaks(self) {
        let error = io::Error::other("the line is cut");
        self.0.send(Err(error)).await.expect("somebody reads");
    }
}

impl hyper::body::Body for Fed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(context)
    }
}

/// A place at which a handler stops until the test lets it go on.
#[derive(Clone)]
pub(super) struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(super) fn shut() -> Self {
        Self {
            arrived: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    /// What the handler does.
    pub(super) async fn pass(&self) {
        self.arrived.add_permits(1);
        self.open.acquire().await.expect("a gate").forget();
    }

    /// Waits until a handler stands here.
    pub(super) async fn reached(&self) {
        self.arrived.acquire().await.expect("a gate").forget();
    }

    /// Lets one handler go on.
    pub(super) fn open(&self) {
        self.open.add_permits(1);
    }
}
