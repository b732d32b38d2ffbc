//! How a request ends whose service cannot be reached, breaks off, or says nothing: free again, or in doubt, and never sent twice.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;

use super::client::{get, post};
use super::service::{Service, Then, gated, reset, respond};
use super::sidecar::Sidecar;
use crate::cli_process::Place;

#[test]
fn a_service_that_is_not_there_frees_the_key() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let place = Place::new();
    let proxy = Sidecar::start(&place, address, "");
    let refused = post(proxy.address, "/", "k", "{}");
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "upstream-unreachable")
    );
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert!(
        refused.text().contains("connection refused"),
        "{}",
        refused.text()
    );
    assert_eq!(get(proxy.address, "/").problem(), "upstream-unreachable");
    assert!(proxy.unresolved().is_empty());
    // Somebody else may have taken the port meanwhile.
    let Ok(listener) = TcpListener::bind(address) else {
        return;
    };
    let service = Service::at(listener, |_, stream| {
        respond(stream, "200 OK", "", b"done");
        Then::Next
    });
    assert_eq!(post(proxy.address, "/", "k", "{}").text(), "done");
    assert_eq!(service.heard()[0].all("semel-attempt"), ["2"]);
}

/// What the service does once it has read a request.
type Break = fn(&mut std::net::TcpStream) -> Then;

#[test]
fn a_service_that_breaks_off_leaves_a_doubt_and_hears_nothing_again() {
    let cases: [(&str, Break, u16, &str); 5] = [
        ("closes", |_| Then::Close, 502, "upstream-broken"),
        (
            "resets",
            |stream| {
                reset(stream);
                Then::Close
            },
            502,
            "upstream-broken",
        ),
        (
            "half a head",
            |stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le");
                Then::Close
            },
            502,
            "upstream-broken",
        ),
        (
            "half a body",
            |stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
                Then::Close
            },
            500,
            "broken-off",
        ),
        (
            "no HTTP",
            |stream| {
                let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
                Then::Close
            },
            502,
            "upstream-broken",
        ),
    ];
    for (name, then, status, problem) in cases {
        let service = Service::new(move |_, stream| then(stream));
        let place = Place::new();
        let proxy = Sidecar::start(&place, service.address, "");
        let first = post(proxy.address, "/", "k", "{}");
        assert_eq!(
            (first.status, first.problem().as_str()),
            (status, problem),
            "{name}"
        );
        let again = post(proxy.address, "/", "k", "{}");
        assert_eq!(
            (again.status, again.problem().as_str()),
            (409, "in-doubt"),
            "{name}"
        );
        assert_eq!(again.field("retry-after"), None, "{name}");
        assert_eq!(service.heard().len(), 1, "{name}");
        assert_eq!(proxy.unresolved().len(), 1, "{name}");
    }
}

#[test]
fn a_service_that_says_nothing_in_time_leaves_a_doubt() {
    let cases = [
        ("", 504, "upstream-timeout"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
            500,
            "broken-off",
        ),
    ];
    for (said, status, problem) in cases {
        let service = Service::new(move |_, stream| {
            let _ = stream.write_all(said.as_bytes());
            // Until the proxy has had enough.
            let _ = stream.read(&mut [0]);
            Then::Close
        });
        let place = Place::new();
        let options = "[timeouts]\nanswer = \"300ms\"\nstall = \"300ms\"";
        let proxy = Sidecar::start(&place, service.address, options);
        let first = post(proxy.address, "/", "k", "{}");
        assert_eq!(
            (first.status, first.problem().as_str()),
            (status, problem),
            "{said}"
        );
        assert_eq!(
            post(proxy.address, "/", "k", "{}").problem(),
            "in-doubt",
            "{said}"
        );
        assert_eq!(service.heard().len(), 1, "{said}");
        if said.is_empty() {
            assert_eq!(get(proxy.address, "/").problem(), "upstream-timeout");
        }
    }
}

#[test]
fn a_kept_connection_that_the_service_closes_never_gets_a_request_to_run_twice() {
    // After each answer the service closes, now at once and now when the next request has come, without a word before.
    let turn = Mutex::new(0u32);
    let service = Service::new(move |_, stream| {
        let mut turn = turn.lock().expect("not poisoned");
        *turn += 1;
        if turn.is_multiple_of(3) {
            return Then::Close;
        }
        respond(stream, "200 OK", "", b"done");
        match turn.is_multiple_of(2) {
            true => Then::Close,
            false => Then::Next,
        }
    });
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "[timeouts]\nidle = \"1m\"");
    let mut sent = Vec::new();
    for number in 0..60 {
        let key = format!("k{number}");
        let answer = post(proxy.address, "/", &key, "{}");
        sent.push((key, answer.status));
    }
    let heard = service.heard();
    for (key, status) in sent {
        let times = heard
            .iter()
            .filter(|heard| heard.all("idempotency-key") == [key.as_str()]);
        let times = times.count();
        match status {
            200 => assert_eq!(times, 1, "{key}"),
            // Sent or not, nobody could know.
            502 => assert!(times <= 1, "{key}"),
            // Not sent, for certain.
            503 => assert_eq!(times, 0, "{key}"),
            other => panic!("{key}: {other}"),
        }
    }
}

#[test]
fn a_client_that_leaves_finds_the_answer_when_it_asks_again() {
    let (service, here, let_go) = gated();
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "wait = \"30s\"");
    let fields = "Idempotency-Key: k\r\nContent-Type: application/json\r\n";
    let request = super::client::request("POST /", fields, b"{}");
    let stream = super::client::say(proxy.address, &request);
    here.recv().expect("the service has it");
    drop(stream);
    let again = std::thread::spawn({
        let address = proxy.address;
        move || post(address, "/", "k", "{}")
    });
    let_go.send(()).expect("waits");
    let again = again.join().expect("an answer");
    assert_eq!(
        (again.status, again.text().as_str(), again.replayed()),
        (201, "made", true)
    );
    assert_eq!(service.heard().len(), 1);
}
