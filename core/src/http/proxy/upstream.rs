//! The service behind: passes a request on, and says how that ended.

use std::convert::Infallible;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector, capture_connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;

use super::body::{Body, BodyError, Paced};
use super::config::{HostRule, Timeouts};
use super::fault::Fault;
use super::fields;
use super::place::Target;
use super::tunnel;
use crate::http::Running;

/// The most connections to the service that are kept for another request.
const MAX_IDLE_CONNECTIONS: usize = 1_024;

/// The service behind. Answers every request: with what the service says, or with a problem document and, in the
/// extensions, what is known of the request ([`Ending`](crate::http::Ending)).
#[derive(Clone)]
pub(super) struct Upstream(Arc<Inner>);

struct Inner {
    client: Client<HttpConnector, Body>,
    target: Target,
    host: HostRule,
    timeouts: Timeouts,
    /// Fields that no client can have removed by naming them in `Connection`.
    own_fields: Vec<String>,
}

impl Upstream {
    /// `own_fields` are those that the proxy itself reads.
    pub(super) fn new(
        target: Target,
        host: HostRule,
        timeouts: Timeouts,
        own_fields: Vec<String>,
    ) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let kept = match timeouts.idle {
            Duration::ZERO => 0,
            _ => MAX_IDLE_CONNECTIONS,
        };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(timeouts.idle)
            .pool_max_idle_per_host(kept)
            // Who sends something again is the client, and who judges it the guard.
            .retry_canceled_requests(false)
            .set_host(false)
            .build(connector);
        Self(Arc::new(Inner {
            client,
            target,
            host,
            timeouts,
            own_fields,
        }))
    }
}

impl<B> tower_service::Service<Request<B>> for Upstream
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        // A future that is not polled has sent nothing.
        Box::pin(async move { Ok(inner.answer(request).await) })
    }
}

impl Inner {
    async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        match self.exchange(request).await {
            Ok(answer) => answer,
            Err(fault) => fault.answer(),
        }
    }

    async fn exchange<B>(&self, mut request: Request<B>) -> Result<Response<Body>, Fault>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        let asked = tunnel::asked(&mut request);
        self.rewrite(&mut request)?;
        if let Some(asked) = &asked {
            asked.ask(request.headers_mut());
        }
        let moved = Arc::new(Notify::new());
        let tell = Arc::clone(&moved);
        let request =
            request.map(|body| Paced::new(body, None, move || tell.notify_one()).boxed_unsync());
        let mut answer = self.send(request, &moved).await?;
        let upgraded = match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => Some(hyper::upgrade::on(&mut answer)),
            _ => None,
        };
        let protocol = fields::upgrade(answer.headers());
        fields::remove_hop_by_hop(answer.headers_mut(), &[]);
        let stall = self.timeouts.stall;
        match (upgraded, asked) {
            (None, _) => Ok(answer.map(|body| Paced::new(body, stall, || {}).boxed_unsync())),
            (Some(upgraded), Some(asked)) => {
                asked.join(upgraded, protocol, answer.headers_mut());
                Ok(answer.map(|body| body.map_err(BodyError::from).boxed_unsync()))
            }
            (Some(_), None) => Err(Fault::broken(
                "it changed the protocol, which nobody had asked for",
            )),
        }
    }

    /// What of the head is the client's connection, and what the service's.
    fn rewrite<B>(&self, request: &mut Request<B>) -> Result<(), Fault> {
        let authority = self.target.authority();
        let host = fields::host(request)?;
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let uri = Uri::builder()
            .scheme("http")
            .authority(authority.clone())
            .path_and_query(path)
            .build();
        *request.uri_mut() = uri.map_err(|_| Fault::refused("its path cannot be passed on"))?;
        *request.version_mut() = Version::HTTP_11;
        let own: Vec<&str> = self.own_fields.iter().map(String::as_str).collect();
        fields::remove_hop_by_hop(request.headers_mut(), &own);
        let peer = request.extensions().get::<fields::Peer>().copied();
        fields::forwarded(request.headers_mut(), peer, host.as_ref());
        let host = host.filter(|_| self.host == HostRule::Keep);
        fields::set_host(request.headers_mut(), host, authority);
        let running = request.extensions().get::<Running>().cloned();
        fields::attempt(request.headers_mut(), running.as_ref());
        Ok(())
    }

    /// Sends it, and waits for the head of the answer: for a connection, and from then on as long as something moves.
    async fn send(
        &self,
        mut request: Request<Body>,
        moved: &Notify,
    ) -> Result<Response<Incoming>, Fault> {
        let connection = capture_connection(&mut request);
        let mut answer = pin!(self.client.request(request));
        let mut connected = connection.clone();
        tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|error| of_client(&error, &connection)),
            _ = connected.wait_for_connection_metadata() => {}
            () = tokio::time::sleep(self.timeouts.connect) => {
                return Err(Fault::unreachable("it took no connection in time"));
            }
        }
        loop {
            let late = async {
                match self.timeouts.answer {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = &mut answer => return answer.map_err(|error| of_client(&error, &connection)),
                () = moved.notified() => {}
                () = late => return Err(Fault::late()),
            }
        }
    }
}

/// What an error of the client says of the request.
///
/// Without a connection nothing was sent. With one, hyper says that a request is canceled if and only if it gives it back
/// unsent: the connection, one that had been used before, was found closed before the request was taken from its queue.
/// Whatever else there is may have come after the service had read the request.
fn of_client(error: &ClientError, connection: &CaptureConnection) -> Fault {
    if connection.connection_metadata().is_none() {
        return Fault::unreachable(&words_of(error));
    }
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<hyper::Error>());
    match cause {
        Some(cause) if cause.is_canceled() => {
            Fault::unreachable("it closed the connection just before")
        }
        Some(cause) if cause.is_user() => Fault::cut_short(),
        _ => Fault::broken(&words_of(error)),
    }
}

/// The root of an error, without addresses.
fn words_of(error: &ClientError) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    let mut words = "the connection failed".to_owned();
    while let Some(this) = cause {
        if let Some(error) = this.downcast_ref::<io::Error>() {
            words = error.kind().to_string();
        } else if let Some(error) = this.downcast_ref::<hyper::Error>() {
            words = error.to_string();
        }
        cause = this.source();
    }
    words
}
