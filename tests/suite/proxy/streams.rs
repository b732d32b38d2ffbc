//! What is too long or too lively to be held: it streams through, either way; and HTTP/2.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::client::{all, ask, get, request, say};
use super::service::{Service, Then, respond};
use super::sidecar::Sidecar;
use crate::cli_process::Place;

#[test]
fn an_answer_comes_while_it_is_made_and_a_long_one_whole() {
    let (let_go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let long: Vec<u8> = (0..=250u8).cycle().take(6 << 20).collect();
    let body = long.clone();
    let service = Service::new(move |heard, stream| {
        if heard.path() == "/long" {
            respond(stream, "200 OK", "", &body);
            return Then::Next;
        }
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        let _ = stream.write_all(head);
        // The rest comes when the client has seen the beginning.
        let _ = gate.lock().expect("not poisoned").recv();
        let _ = stream.write_all(b"4\r\nlast\r\n0\r\n\r\n");
        Then::Next
    });
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "");
    let mut stream = say(proxy.address, &request("GET /slow", "", b""));
    let mut seen = Vec::new();
    while !seen.ends_with(b"first\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).expect("reads"), 1);
        seen.push(byte[0]);
    }
    let_go.send(()).expect("waits");
    assert!(String::from_utf8_lossy(&all(stream)).contains("last"));
    assert!(get(proxy.address, "/long").body == long);
}

#[test]
fn a_long_request_goes_through_and_is_asked_for() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    let long: Vec<u8> = (0..=250u8).cycle().take(6 << 20).collect();
    assert_eq!(
        ask(proxy.address, &request("PUT /file", "", &long)).status,
        201
    );
    assert!(service.heard()[0].body == long);
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-User: ann\r\nIdempotency-Key: k\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut stream = say(proxy.address, head.as_bytes());
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).expect("reads");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"later").expect("writes");
    assert!(String::from_utf8_lossy(&all(stream)).starts_with("HTTP/1.1 201"));
    let heard = &service.heard()[1];
    assert_eq!(
        (heard.body.as_slice(), heard.all("expect").len()),
        (&b"later"[..], 0)
    );
}

#[test]
fn a_connection_can_change_its_protocol() {
    let service = Service::new(|heard, stream| {
        if heard.all("upgrade").is_empty() {
            respond(stream, "426 Upgrade Required", "", b"");
            return Then::Next;
        }
        let _ = stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nhello",
        );
        let mut heard = [0; 4];
        while stream.read_exact(&mut heard).is_ok() {
            heard.reverse();
            let _ = stream.write_all(&heard);
        }
        Then::Close
    });
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "");
    let head = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";
    let mut stream = say(proxy.address, head.as_bytes());
    let mut told = String::new();
    while !told.ends_with("hello") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).expect("reads"), 1, "{told}");
        told.push(char::from(byte[0]));
    }
    assert!(
        told.starts_with("HTTP/1.1 101") && told.contains("sec-websocket-accept: x"),
        "{told}"
    );
    for (said, expect) in [(b"abcd", b"dcba"), (b"1234", b"4321")] {
        stream.write_all(said).expect("writes");
        let mut heard = [0; 4];
        stream.read_exact(&mut heard).expect("reads");
        assert_eq!(&heard, expect);
    }
    drop(stream);
    // Without being asked for, or in a request that does something, it is not changed.
    let plain = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: close\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(ask(proxy.address, plain.as_bytes()).status, 426);
    let post = request(
        "POST /chat",
        "Connection: upgrade\r\nUpgrade: websocket\r\nIdempotency-Key: k\r\n",
        b"",
    );
    assert_eq!(ask(proxy.address, &post).status, 426);
}

#[test]
fn http_2_is_spoken_to_clients_and_http_1_to_the_service() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build_http::<Full<Bytes>>();
        let send = |key: &str| {
            let request = http::Request::post(format!("http://{}/orders?a=1", proxy.address))
                .header("x-user", "ann")
                .header("idempotency-key", key)
                .body(Full::from("{}"))
                .expect("a request");
            client.request(request)
        };
        let mut bodies = Vec::new();
        for (key, replayed) in [("k", false), ("k", true), ("l", false)] {
            let answer = send(key).await.expect("an answer");
            assert_eq!(
                (answer.status().as_u16(), answer.version()),
                (201, http::Version::HTTP_2)
            );
            assert_eq!(
                answer.headers().contains_key("idempotent-replayed"),
                replayed,
                "{key}"
            );
            bodies.push(
                answer
                    .into_body()
                    .collect()
                    .await
                    .expect("a body")
                    .to_bytes(),
            );
        }
        assert_eq!(bodies, ["made 1", "made 1", "made 2"]);
        // Many at a time on one connection are one operation.
        let (one, two, three) = tokio::join!(send("m"), send("m"), send("m"));
        for answer in [one, two, three] {
            let status = answer.expect("an answer").status().as_u16();
            assert!([201, 409].contains(&status), "{status}");
        }
    });
    let heard = service.heard();
    assert_eq!(heard.len(), 3);
    assert_eq!(heard[0].line, "POST /orders?a=1 HTTP/1.1");
    assert_eq!(heard[0].all("host"), [proxy.address.to_string()]);
}
