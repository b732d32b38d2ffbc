//! An answer that is not kept on its way to the client.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::body::{BoxError, Piece, in_bytes};

/// How many pieces may be on their way to a client that reads slowly.
pub(super) const MAX_PIECES: usize = 16;
/// How long an answer whose client has gone is read on, so that the service can finish.
const READ_ON: Duration = Duration::from_secs(600);

/// Hands on what was read of an answer, and then the rest as it comes, to its end.
///
/// # Errors
/// The body's error; or that it had no end within ten minutes after its client had gone.
pub(super) async fn pipe<P>(
    first: Bytes,
    mut body: Pin<Box<P>>,
    client: &mpsc::Sender<Piece>,
) -> Result<(), BoxError>
where
    P: HttpBody,
    P::Error: Into<BoxError>,
{
    let mut next = (!first.is_empty()).then(|| Frame::data(first));
    loop {
        if let Some(frame) = next.take()
            && client.send(Piece::Frame(frame)).await.is_err()
        {
            return read_on(body).await;
        }
        tokio::select! {
            frame = body.frame() => match frame {
                Some(frame) => next = Some(in_bytes(frame.map_err(Into::into)?)),
                None => return Ok(()),
            },
            () = client.closed() => return read_on(body).await,
        }
    }
}

async fn read_on<P>(mut body: Pin<Box<P>>) -> Result<(), BoxError>
where
    P: HttpBody,
    P::Error: Into<BoxError>,
{
    let reading = async {
        while let Some(frame) = body.frame().await {
            frame.map_err(Into::into)?;
        }
        Ok(())
    };
    match tokio::time::timeout(READ_ON, reading).await {
        Ok(read) => read,
        Err(_) => Err("it had no end, and its client had gone".into()),
    }
}
