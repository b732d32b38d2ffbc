//! What clients reach: the service behind its guard, and below `/.semel/` the little that is the proxy's own.

use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower_layer::Layer;
use tower_service::Service;

use super::admin::Admin;
use super::body::{Body, BodyError, Paced};
use super::config::Plan;
use super::fault;
use super::fields::Peer;
use super::upstream::Upstream;
use crate::http::{Idempotency, IdempotencyLayer, Problem, ProblemKind, TokenRoute};

/// What is the proxy's own begins so, and is never passed on.
pub(super) const OWN: &str = "/.semel/";
/// Where it says whether it can serve.
pub(super) const HEALTH: &str = "/.semel/health";

/// What clients reach.
#[derive(Clone)]
pub(super) struct Front {
    service: Idempotency<Upstream>,
    token: Option<TokenRoute>,
    admin: Admin,
    patience: Option<Duration>,
}

impl Front {
    /// `admin` is asked for health, and nothing else.
    pub(super) fn new(plan: &Plan, layer: &IdempotencyLayer, admin: Admin) -> Self {
        let upstream = Upstream::new(
            plan.target.clone(),
            plan.host,
            plan.timeouts,
            plan.own_fields(),
        );
        Self {
            service: layer.layer(upstream),
            token: plan.token.clone(),
            admin,
            patience: plan.timeouts.client,
        }
    }

    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        peer: Option<Peer>,
    ) -> Response<Body> {
        if let Some(why) = unfit(&request) {
            return fault::answer(&Problem::new(ProblemKind::RequestMalformed, why));
        }
        let (method, path) = (request.method().as_str(), request.uri().path());
        let is_token = self
            .token
            .as_ref()
            .is_some_and(|token| token.takes(method, path));
        if path == HEALTH {
            return self.admin.answer(request).await;
        }
        if path.starts_with(OWN) && !is_token {
            return nothing_here();
        }
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        let patience = self.patience;
        let request = request.map(|body| Paced::new(body, patience, || {}));
        // Always ready: it holds nothing back.
        match self.service.clone().call(request).await {
            Ok(answer) => answer.map(boxed),
            Err(never) => match never {},
        }
    }
}

fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// There is nothing at this path.
pub(super) fn nothing_here() -> Response<Body> {
    fault::answer(&Problem::new(
        ProblemKind::NotFound,
        "there is nothing at this path of the proxy, and what begins so is not passed on",
    ))
}

/// Why a request is none that can be passed on, if it is not.
fn unfit(request: &Request<Incoming>) -> Option<&'static str> {
    let uri = request.uri();
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    match () {
        () if request.method() == Method::CONNECT => Some("CONNECT is for proxies of another kind"),
        () if !uri.path().starts_with('/') => Some("its target is no path"),
        () if hosts.next().is_some() => Some("it has more than one Host"),
        () if host.is_none()
            && uri.authority().is_none()
            && request.version() == Version::HTTP_11 =>
        {
            Some("it has no Host")
        }
        () => None,
    }
}
