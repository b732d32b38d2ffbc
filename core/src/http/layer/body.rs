//! Bodies as they go through the layer: held whole, passed on untouched, or handed on by the task that reads them.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use pin_project_lite::pin_project;
use tokio::sync::mpsc;

/// An error of a body, whatever it is.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the task that reads an answer hands on.
pub(super) enum Piece {
    Frame(Frame<Bytes>),
    Broken(BoxError),
    /// It was all, and it is recorded.
    End,
}

pin_project! {
    /// A body that has gone through the layer: of a request as the service behind gets it, of an answer as the client does.
    ///
    /// One that was held is whole, with its length; any other comes as it comes, byte for byte.
    pub struct Body<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = Projected]
    enum Kind<B> {
        Whole { bytes: Bytes, trailers: Option<HeaderMap> },
        Passing { #[pin] body: B },
        Piped { pieces: mpsc::Receiver<Piece>, over: bool },
    }
}

impl<B> Body<B> {
    pub(super) fn whole(whole: Whole) -> Self {
        let Whole { bytes, trailers } = whole;
        Self {
            kind: Kind::Whole { bytes, trailers },
        }
    }

    pub(super) fn passing(body: B) -> Self {
        Self {
            kind: Kind::Passing { body },
        }
    }

    pub(super) fn piped(pieces: mpsc::Receiver<Piece>) -> Self {
        Self {
            kind: Kind::Piped {
                pieces,
                over: false,
            },
        }
    }
}

impl<B> HttpBody for Body<B>
where
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().kind.project() {
            Projected::Whole { bytes, trailers } => Poll::Ready(match bytes.is_empty() {
                false => Some(Ok(Frame::data(std::mem::take(bytes)))),
                true => trailers.take().map(|fields| Ok(Frame::trailers(fields))),
            }),
            Projected::Passing { body } => {
                let frame = ready!(body.poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map(in_bytes).map_err(Into::into)))
            }
            Projected::Piped { over: true, .. } => Poll::Ready(None),
            Projected::Piped { pieces, over } => {
                let piece = ready!(pieces.poll_recv(context));
                *over = !matches!(piece, Some(Piece::Frame(_)));
                Poll::Ready(match piece {
                    Some(Piece::Frame(frame)) => Some(Ok(frame)),
                    Some(Piece::End) => None,
                    Some(Piece::Broken(error)) => Some(Err(error)),
                    // Whoever read it is gone: what came so far must not pass for all of it.
                    None => Some(Err("the answer broke off".into())),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole { bytes, trailers } => bytes.is_empty() && trailers.is_none(),
            Kind::Passing { body } => body.is_end_stream(),
            Kind::Piped { over, .. } => *over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Kind::Passing { body } => body.size_hint(),
            Kind::Piped { .. } => SizeHint::default(),
        }
    }
}

impl<B> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.kind {
            Kind::Whole { .. } => "Body(whole)",
            Kind::Passing { .. } => "Body(passing)",
            Kind::Piped { .. } => "Body(piped)",
        })
    }
}

pub(super) fn in_bytes<D: Buf>(frame: Frame<D>) -> Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}

/// A body that was read to its end.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

/// A body that was read up to a limit.
pub(super) enum Collected<B> {
    Whole(Whole),
    /// It has more: what was read, and the rest.
    Over(Bytes, Pin<Box<B>>),
}

/// Reads a body, at most a frame beyond the limit.
pub(super) async fn collect<B>(body: B, limit_bytes: usize) -> Result<Collected<B>, B::Error>
where
    B: HttpBody,
{
    let mut body = Box::pin(body);
    let mut read = Read::default();
    let mut trailers: Option<HeaderMap> = None;
    while let Some(frame) = body.frame().await {
        match in_bytes(frame?).into_data() {
            Ok(data) => read.add(data),
            Err(frame) => {
                if let Ok(fields) = frame.into_trailers() {
                    trailers.get_or_insert_default().extend(fields);
                }
            }
        }
        if read.len() > limit_bytes {
            return Ok(Collected::Over(read.bytes(), body));
        }
    }
    Ok(Collected::Whole(Whole {
        bytes: read.bytes(),
        trailers,
    }))
}

/// What was read: one piece as it came, or several in one.
#[derive(Default)]
struct Read {
    first: Bytes,
    all: BytesMut,
}

impl Read {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn add(&mut self, data: Bytes) {
        match self.len() {
            0 => self.first = data,
            _ => {
                self.all.extend_from_slice(&std::mem::take(&mut self.first));
                self.all.extend_from_slice(&data);
            }
        }
    }

    fn bytes(self) -> Bytes {
        match self.all.is_empty() {
            true => self.first,
            false => self.all.freeze(),
        }
    }
}
