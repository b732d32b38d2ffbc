//! A client that says what a test writes, byte for byte, and reads what comes back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value as Json;

/// How long an answer may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut values = pairs.filter(|(given, _)| given.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The last part of the type of a problem.
    pub(super) fn problem(&self) -> String {
        assert_eq!(
            self.field("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["status"].as_u64(), Some(u64::from(self.status)));
        let kind = problem["type"]
            .as_str()
            .and_then(|kind| kind.rsplit(':').next());
        kind.expect("a type").to_owned()
    }

    pub(super) fn replayed(&self) -> bool {
        self.field("idempotent-replayed") == Some("true")
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status: u16 = status.expect("a status");
        // What comes before the answer proper.
        if status == 100 {
            return Self::parse(&bytes[end + 4..]);
        }
        let mut answer = Self {
            status,
            head,
            body: bytes[end + 4..].to_vec(),
        };
        if answer.field("transfer-encoding") == Some("chunked") {
            answer.body = unchunked(&answer.body);
        }
        answer
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let length = std::str::from_utf8(&rest[..end]).expect("a length");
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
    body
}

/// A connection on which this was said, if somebody takes one.
pub(super) fn try_to_say(address: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    // Who refuses a request may close before he has read it all.
    let _ = stream.write_all(bytes);
    Some(stream)
}

/// A connection on which this was said.
pub(super) fn say(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    try_to_say(address, bytes).expect("connects")
}

/// All that comes back on a connection until it is closed.
pub(super) fn all(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset after the answer is an end like any other.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// What these bytes are answered; they have to say that the connection closes.
pub(super) fn ask(address: SocketAddr, bytes: &[u8]) -> Answer {
    Answer::parse(&all(say(address, bytes)))
}

/// A request of ann's, with more fields, and its length.
pub(super) fn request(line: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\nX-User: ann\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A POST of ann's under a key.
pub(super) fn post(address: SocketAddr, path: &str, key: &str, body: &str) -> Answer {
    let line = format!("POST {path}");
    let fields = format!("Idempotency-Key: {key}\r\nContent-Type: application/json\r\n");
    ask(address, &request(&line, &fields, body.as_bytes()))
}

/// A GET of ann's.
pub(super) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &request(&format!("GET {path}"), "", b""))
}
