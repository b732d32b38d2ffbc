//! Bodies on their way through: pieces that come, each within its time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use tokio::time::Sleep;

/// What can go wrong with a body.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A body of any making.
pub(super) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, BodyError>;

/// A body that is whole.
pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pin_project_lite::pin_project! {
    /// A body whose every piece has to come within a time, and is told of when it has.
    pub(super) struct Paced<B, T> {
        #[pin]
        body: B,
        limit: Option<Duration>,
        waiting: Option<Pin<Box<Sleep>>>,
        told: T,
    }
}

impl<B, T> Paced<B, T> {
    /// `limit` is how long each piece may take; `told` is called with each.
    pub(super) fn new(body: B, limit: Option<Duration>, told: T) -> Self {
        Self {
            body,
            limit,
            waiting: None,
            told,
        }
    }
}

impl<B, T> http_body::Body for Paced<B, T>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BodyError>,
    T: FnMut(),
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.project();
        if let Poll::Ready(piece) = this.body.poll_frame(context) {
            *this.waiting = None;
            (this.told)();
            return Poll::Ready(piece.map(|piece| piece.map_err(Into::into)));
        }
        let Some(limit) = *this.limit else {
            return Poll::Pending;
        };
        let waiting = this
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(waiting.as_mut().poll(context));
        let late = io::Error::new(io::ErrorKind::TimedOut, "nothing came for too long");
        Poll::Ready(Some(Err(late.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
