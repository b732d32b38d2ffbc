//! Requests that two readers could read in two ways: the service gets one that has one reading, or none.

use super::client::{all, ask, say};
use super::service::Service;
use super::sidecar::Sidecar;
use crate::cli_process::Place;

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn what_has_two_readings_reaches_the_service_with_one_or_not_at_all() {
    let head = "POST /open HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-User: ann\r\nIdempotency-Key: k\r\n";
    let chunks = format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len());
    let cases = [
        (
            "both lengths",
            format!(
                "{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{HIDDEN}"
            ),
        ),
        (
            "both, the other way",
            format!(
                "{head}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n{chunks}{HIDDEN}"
            ),
        ),
        (
            "two lengths",
            format!(
                "{head}Content-Length: 0\r\nContent-Length: {}\r\n\r\n{HIDDEN}",
                HIDDEN.len()
            ),
        ),
        (
            "a list of lengths",
            format!("{head}Content-Length: 0, {}\r\n\r\n{HIDDEN}", HIDDEN.len()),
        ),
        (
            "a signed length",
            format!("{head}Content-Length: +{}\r\n\r\n{HIDDEN}", HIDDEN.len()),
        ),
        (
            "a length in hex",
            format!("{head}Content-Length: 0x1\r\n\r\n{HIDDEN}"),
        ),
        (
            "an unknown coding",
            format!("{head}Transfer-Encoding: gzip\r\n\r\n{HIDDEN}"),
        ),
        (
            "chunked, then another",
            format!("{head}Transfer-Encoding: chunked, identity\r\n\r\n{chunks}"),
        ),
        (
            "a folded line",
            format!("{head}X-A: b\r\n Content-Length: 9\r\nContent-Length: 0\r\n\r\n{HIDDEN}"),
        ),
        (
            "a space before the colon",
            format!("{head}Content-Length : {}\r\n\r\n{HIDDEN}", HIDDEN.len()),
        ),
        (
            "a broken chunk",
            format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{HIDDEN}"),
        ),
        (
            "a chunk of no length",
            format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{HIDDEN}"),
        ),
        (
            "NUL in a field",
            format!("{head}X-A: a\0b\r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "a bare CR",
            format!("{head}X-A: a\rContent-Length: 9\r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "two hosts",
            format!("{head}Host: b\r\nContent-Length: 0\r\n\r\n"),
        ),
        (
            "no host",
            "POST /open HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
        (
            "a target that is no path",
            format!("GET open HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{HIDDEN}"),
        ),
        (
            "a tunnel",
            "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n".to_owned(),
        ),
        (
            "another version",
            format!("POST /open HTTP/3.0\r\nHost: a\r\n\r\n{HIDDEN}"),
        ),
    ];
    for (name, bytes) in cases {
        let (place, service) = (Place::new(), Service::counting());
        let proxy = Sidecar::start(&place, service.address, "");
        let answered = all(say(proxy.address, bytes.as_bytes()));
        let answered = String::from_utf8_lossy(&answered);
        let heard = service.heard();
        for heard in &heard {
            // What was hidden may be the body of the one, and never a request.
            assert_eq!(heard.path(), "/open", "{name}: {heard:?}");
            let lengths = heard.all("content-length").len() + heard.all("transfer-encoding").len();
            assert!(lengths <= 1, "{name}: {heard:?}");
        }
        match heard.len() {
            0 => assert!(
                answered.starts_with("HTTP/1.1 4") || answered.is_empty(),
                "{name}: {answered}"
            ),
            1 => assert_eq!(
                answered.matches("HTTP/1.1 ").count(),
                1,
                "{name}: {answered}"
            ),
            more => panic!("{name}: {more}"),
        }
    }
}

#[test]
fn a_bare_newline_ends_a_line_on_both_sides_alike() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    let text = "GET /open HTTP/1.1\nHost: a\nConnection: close\nX-A: 1\n\n";
    let answered = all(say(proxy.address, text.as_bytes()));
    let heard = service.heard();
    // A reader of HTTP may take it for an end of a line (RFC 9112, section 2.2); what goes on has none of it.
    assert!(heard.len() == 1 || String::from_utf8_lossy(&answered).starts_with("HTTP/1.1 400"));
    assert!(
        heard.iter().all(|heard| heard.all("x-a") == ["1"]),
        "{heard:?}"
    );
}

#[test]
fn a_body_that_is_shorter_than_it_said_is_not_passed_on() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "[timeouts]\nclient = \"300ms\"");
    let head = "POST /open HTTP/1.1\r\nHost: a\r\nX-User: ann\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\nshort";
    let stream = say(proxy.address, head.as_bytes());
    stream.shutdown(std::net::Shutdown::Write).expect("shuts");
    all(stream);
    // One that goes on for ever is not waited for.
    let answered = String::from_utf8_lossy(&all(say(proxy.address, head.as_bytes()))).into_owned();
    assert!(
        answered.is_empty() || answered.starts_with("HTTP/1.1 4"),
        "{answered}"
    );
    assert!(service.heard().is_empty());
    let whole = super::client::post(proxy.address, "/open", "k", "{}");
    assert_eq!(whole.status, 201, "the key is free");
}

#[test]
fn a_head_has_its_limits() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(
        &place,
        service.address,
        "[limits]\nhead = 16384\nfields = 20",
    );
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: {}\r\n\r\n",
        "a".repeat(20_000)
    );
    assert_eq!(ask(proxy.address, long.as_bytes()).status, 431);
    let many: String = (0..30).map(|number| format!("X-{number}: 1\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{many}\r\n");
    assert_eq!(ask(proxy.address, many.as_bytes()).status, 431);
    assert!(service.heard().is_empty());
}

#[test]
fn a_client_that_says_nothing_is_shown_out() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "[timeouts]\nclient = \"300ms\"");
    for said in ["", "P", "GET / HT", "PRI * HTTP/2.0\r\n"] {
        // It is closed, by whoever has waited long enough: reading would fail after half a minute.
        all(say(proxy.address, said.as_bytes()));
    }
    assert!(service.heard().is_empty());
}
