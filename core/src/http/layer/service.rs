//! The service that the layer makes of another one.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body as HttpBody;
use tower_service::Service;

use super::admission::{Admitted, Sorted};
use super::body::{Body, BoxError};
use super::builder::Shared;
use super::cors::Told;
use super::execution::execute;

/// A service whose guarded requests take effect once. Made by [`IdempotencyLayer`](super::IdempotencyLayer).
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Idempotency<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }
}

type Answering<P, E> = Pin<Box<dyn Future<Output = Result<Response<Body<P>>, E>> + Send>>;

impl<S, Q, P> Service<Request<Q>> for Idempotency<S>
where
    S: Service<Request<Body<Q>>, Response = Response<P>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    Q: HttpBody + Send + 'static,
    Q::Data: Send,
    Q::Error: Into<BoxError>,
    P: HttpBody + Send + 'static,
    P::Data: Send,
    P::Error: Into<BoxError> + Send,
{
    type Response = Response<Body<P>>;
    type Error = S::Error;
    type Future = Answering<P, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // The one that is ready is called; its clone has to become so.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        let (parts, body) = request.into_parts();
        let told = Told::of(&shared, &parts);
        match shared.sort(&parts) {
            Sorted::Passes => {
                let request = Request::from_parts(parts, Body::passing(body));
                let passing = pass(inner, request);
                Box::pin(async move { Ok(with(told, &shared, passing.await?)) })
            }
            sorted => Box::pin(async move {
                let response = match shared.admit(sorted, parts, body).await {
                    Admitted::Answered(short) => short.response(),
                    Admitted::Passes(request) => pass(inner, *request).await?,
                    Admitted::Guarded(guarded) => execute(&shared, inner, *guarded).await?,
                };
                Ok(with(told, &shared, response))
            }),
        }
    }
}

fn with<P>(told: Told, shared: &Shared, mut response: Response<Body<P>>) -> Response<Body<P>> {
    told.add(shared, response.headers_mut());
    response
}

/// Calls at once what was ready, and passes on what it answers.
fn pass<S, Q, P>(
    mut inner: S,
    request: Request<Body<Q>>,
) -> impl Future<Output = Result<Response<Body<P>>, S::Error>> + Send
where
    S: Service<Request<Body<Q>>, Response = Response<P>>,
    S::Future: Send + 'static,
{
    let answering = inner.call(request);
    async move { Ok(answering.await?.map(Body::passing)) }
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
