//! A client over HTTP that asks once, and waits for as long as it has patience.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;

use super::answer::Answer;

/// A client that waits for as long as it takes.
pub(super) const PATIENT: Duration = Duration::from_secs(20);
/// The field of the key.
const KEY: &str = "idempotency-key";

/// One call of an operation.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operation: &'static str,
    /// The key in its header field; a form has it in its body alone.
    pub(super) header: bool,
    pub(super) key: String,
    /// How long the service is to work beside the effect, in milliseconds.
    pub(super) work_ms: u64,
}

impl Call {
    /// A call whose key goes in the header.
    pub(super) fn new(operation: &'static str, key: String) -> Self {
        Self {
            operation,
            header: true,
            key,
            work_ms: 0,
        }
    }

    /// Asks, and tells what came of it. It never asks again by itself.
    pub(super) async fn ask(&self, at: SocketAddr, patience: Duration) -> Answer {
        let body = json!({ "key": self.key, "work_ms": self.work_ms });
        let path = format!("/{}", self.operation);
        let key = self.header.then_some(self.key.as_str());
        match tokio::time::timeout(patience, send(at, Method::POST, &path, key, Some(&body))).await
        {
            Ok(Ok(answer)) => {
                let (head, body) = answer.into_parts();
                Answer::of(&head, &body)
            }
            Ok(Err(_)) => Answer::none("connection lost"),
            Err(_) => Answer::none("timed out"),
        }
    }
}

/// One request on a connection of its own, and its whole answer.
pub(super) async fn send(
    at: SocketAddr,
    method: Method,
    path: &str,
    key: Option<&str>,
    body: Option<&Json>,
) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(at).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Dropped with this request: who loses patience hangs up.
    let connection = AbortOnDrop(tokio::spawn(connection));
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, at.to_string());
    if let Some(key) = key {
        request = request.header(KEY, key);
    }
    let bytes = match body {
        Some(body) => {
            request = request.header(CONTENT_TYPE, "application/json");
            Bytes::from(body.to_string())
        }
        None => Bytes::new(),
    };
    let answer = sender.send_request(request.body(Full::new(bytes))?).await?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    drop(connection);
    Ok(Response::from_parts(head, body))
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
