//! A guarded request at work: the service behind answers it in a task of its own, and what came of it is recorded before the
//! client is told.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{HeaderMap, Request, Response};
use http_body::Body as HttpBody;
use tokio::sync::{mpsc, oneshot};
use tower_service::Service;

use super::super::guard::Guard;
use super::super::kept::Kept;
use super::super::problem::Problem;
use super::super::status::{Ending, Verdict};
use super::super::stream::is_stream;
use super::admission::Guarded;
use super::body::{Body, BoxError, Collected, Piece, Whole, collect};
use super::builder::Shared;
use super::ending::End;
use super::piping::{MAX_PIECES, pipe};
use super::short::Short;
use crate::record::Doubt;
use crate::run;
use crate::ticket::Ticket;

type Answer<P, E> = Result<Response<Body<P>>, E>;

/// Passes a request on in a task of its own, and waits for what the client is to be told. Dropping this stops nothing.
pub(super) async fn execute<S, Q, P>(
    shared: &Arc<Shared>,
    inner: S,
    guarded: Guarded<Q>,
) -> Answer<P, S::Error>
where
    S: Service<Request<Body<Q>>, Response = Response<P>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    Q: HttpBody + Send + 'static,
    Q::Data: Send,
    P: HttpBody + Send + 'static,
    P::Data: Send,
    P::Error: Into<BoxError> + Send,
{
    let (tell, told) = oneshot::channel();
    let counted = Counted::new(shared);
    let Guarded {
        guard,
        ticket,
        task,
        request,
    } = guarded;
    let attempt = Attempt {
        guard,
        ticket,
        task,
    };
    let answering = outcome(Arc::clone(&attempt.guard), inner, request);
    spawn(async move {
        let _counted = counted;
        let outcome = run::Guarded::new(&attempt.ticket, task, answering).await;
        attempt.conclude(outcome.ok(), tell).await;
    });
    // Without an answer the task was cancelled: the runtime ends.
    told.await.unwrap_or_else(|_| Ok(broken_off()))
}

/// In the caller's span, so that what the service says is found with its request.
fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "tracing")]
    let work = tracing::Instrument::in_current_span(work);
    drop(tokio::spawn(work));
}

/// What the service behind came to.
enum Outcome<P, E> {
    Failed(E),
    /// An answer whose body ended with an error.
    Broken(BoxError),
    /// An answer that is not kept, and what its status says instead.
    Unkept(End, Response<P>),
    Whole(Parts, Whole),
    /// An answer that is not held: what was read of it, and the rest.
    Streams(Parts, Bytes, Pin<Box<P>>),
}

async fn outcome<S, Q, P>(
    guard: Arc<Guard>,
    mut inner: S,
    request: Request<Q>,
) -> Outcome<P, S::Error>
where
    S: Service<Request<Q>, Response = Response<P>>,
    P: HttpBody,
    P::Error: Into<BoxError>,
{
    let response = match inner.call(request).await {
        Ok(response) => response,
        Err(error) => return Outcome::Failed(error),
    };
    let told = response.extensions().get::<Ending>().copied();
    let ending = told.unwrap_or(Ending::Status(response.status().as_u16()));
    match guard.status_policy().judge(ending) {
        Verdict::Keep => {}
        Verdict::Release => return Outcome::Unkept(End::Release, response),
        Verdict::Doubt => return Outcome::Unkept(in_doubt(ending), response),
    }
    let (parts, body) = response.into_parts();
    let limit_bytes = guard.kept_limit_bytes();
    if streams(&parts.headers) || body.size_hint().lower() > limit_bytes as u64 {
        return Outcome::Streams(parts, Bytes::new(), Box::pin(body));
    }
    match collect(body, limit_bytes).await {
        Ok(Collected::Whole(whole)) => Outcome::Whole(parts, whole),
        Ok(Collected::Over(first, rest)) => Outcome::Streams(parts, first, rest),
        Err(error) => Outcome::Broken(error.into()),
    }
}

fn in_doubt(ending: Ending) -> End {
    End::doubt(match ending {
        Ending::Status(status) => format!("it was answered with status {status}"),
        _ => "its answer broke off".to_owned(),
    })
}

fn streams(fields: &HeaderMap) -> bool {
    let text = |name| fields.get(name).and_then(|value| value.to_str().ok());
    is_stream(text(CONTENT_TYPE.as_str()), text("x-accel-buffering"))
}

fn broken_off<P>() -> Response<Body<P>> {
    Short::problem(&Problem::broken_off()).response()
}

/// An attempt that has to be ended.
struct Attempt {
    guard: Arc<Guard>,
    ticket: Ticket,
    task: u64,
}

impl Attempt {
    /// Records what came of it, and tells the client; `None` is a panic.
    async fn conclude<P, E>(
        self,
        outcome: Option<Outcome<P, E>>,
        tell: oneshot::Sender<Answer<P, E>>,
    ) where
        P: HttpBody,
        P::Error: Into<BoxError>,
    {
        let (end, answer) = match outcome {
            None => (End::Doubt(Doubt::Panicked), Ok(broken_off())),
            Some(Outcome::Failed(error)) => {
                let words = "the service behind the layer gave an error instead of an answer";
                (End::doubt(words), Err(error))
            }
            Some(Outcome::Broken(error)) => (
                End::doubt(format!("its answer broke off: {error}")),
                Ok(broken_off()),
            ),
            Some(Outcome::Unkept(end, response)) => (end, Ok(response.map(Body::passing))),
            Some(Outcome::Whole(parts, whole)) => {
                let end = self.kept(&parts, &whole.bytes);
                (end, Ok(Response::from_parts(parts, Body::whole(whole))))
            }
            Some(Outcome::Streams(parts, first, rest)) => {
                return self.stream(parts, first, rest, tell).await;
            }
        };
        let recorded = end.record(&self.ticket).await;
        let answer = match recorded.is_err() && end.comes_first() {
            true => Ok(Short::problem(&Problem::not_recorded()).response()),
            false => answer,
        };
        // A client that has gone asks again.
        drop(tell.send(answer));
        if let Err(error) = recorded {
            end.insist(&self.ticket, error).await;
        }
    }

    fn kept(&self, parts: &Parts, body: &[u8]) -> End {
        let fields = parts.headers.iter();
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_bytes()));
        let rules = self.guard.field_rules();
        let kept = Kept::new(parts.status.as_u16(), fields, body, rules);
        kept.to_value().map_or(End::Executed, End::Keep)
    }

    /// Sends an answer out as it comes, and its end when it is recorded.
    async fn stream<P, E>(
        self,
        parts: Parts,
        first: Bytes,
        rest: Pin<Box<P>>,
        tell: oneshot::Sender<Answer<P, E>>,
    ) where
        P: HttpBody,
        P::Error: Into<BoxError>,
    {
        let (client, pieces) = mpsc::channel(MAX_PIECES);
        drop(tell.send(Ok(Response::from_parts(parts, Body::piped(pieces)))));
        let piping = pipe(first, rest, &client);
        let (end, broken) = match run::Guarded::new(&self.ticket, self.task, piping).await {
            Ok(Ok(())) => (End::Executed, None),
            Ok(Err(error)) => (
                End::doubt(format!("its answer broke off: {error}")),
                Some(error),
            ),
            Err(_) => (
                End::Doubt(Doubt::Panicked),
                Some("the answer broke off".into()),
            ),
        };
        let recorded = end.record(&self.ticket).await;
        let last = match (broken, &recorded) {
            (Some(error), _) => Piece::Broken(error),
            (None, Err(_)) => Piece::Broken("the answer could not be recorded".into()),
            (None, Ok(())) => Piece::End,
        };
        // A client that has gone asks again.
        drop(client.send(last).await);
        drop(client);
        if let Err(error) = recorded {
            end.insist(&self.ticket, error).await;
        }
    }
}

/// Counts as one request that is being answered, until it is dropped.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.running.send_modify(|running| *running += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}
