//! What goes through the proxy, either way, and what of it is the proxy's own affair.

use super::client::{ask, get, post, request};
use super::service::{Service, Then, respond};
use super::sidecar::Sidecar;
use crate::cli_process::Place;

#[test]
fn a_repeat_gets_the_first_answer_and_the_service_hears_one() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    let first = post(proxy.address, "/orders?a=1&b=2", "k-1", r#"{"amount": 10}"#);
    assert_eq!(
        (first.status, first.text().as_str(), first.replayed()),
        (201, "made 1", false)
    );
    let again = post(
        proxy.address,
        "/orders?b=2&a=1",
        "\"k-1\"",
        r#"{"amount":1e1}"#,
    );
    assert_eq!(
        (again.status, again.text().as_str(), again.replayed()),
        (201, "made 1", true)
    );
    let other = post(proxy.address, "/orders?a=1&b=2", "k-1", r#"{"amount": 11}"#);
    assert_eq!(other.problem(), "key-reused");
    // Of another, it is another.
    let body = br#"{"amount": 10}"#;
    let head = "POST /orders?a=1&b=2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-User: bob\r\nIdempotency-Key: k-1\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n";
    let bobs = ask(proxy.address, &[head.as_bytes(), body].concat());
    assert_eq!((bobs.status, bobs.text().as_str()), (201, "made 2"));
    let nobodys = ask(
        proxy.address,
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(nobodys.problem(), "request-malformed");
    let keyless = ask(proxy.address, &request("POST /orders", "", b""));
    assert_eq!(keyless.problem(), "key-missing");
    assert_eq!(service.heard().len(), 2);
}

#[test]
fn the_service_learns_who_asked_and_which_attempt_it_is() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    let fields = "Connection: X-User, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nKeep-Alive: timeout=5\r\nX-Forwarded-For: 192.0.2.1\r\nSemel-Fence: 9\r\nIdempotency-Key: k\r\n";
    ask(proxy.address, &request("POST /a?b=%20c", fields, b"x"));
    ask(
        proxy.address,
        &request("DELETE /a", "Semel-Attempt: 9\r\n", b""),
    );
    let heard = service.heard();
    let [guarded, passed] = &heard[..] else {
        panic!("two: {heard:?}");
    };
    assert_eq!(guarded.line, "POST /a?b=%20c HTTP/1.1");
    let expect: [(&str, &[&str]); 10] = [
        ("host", &["shop.example"]),
        ("x-user", &["ann"]),
        ("x-hop", &[]),
        ("te", &[]),
        ("keep-alive", &[]),
        ("idempotency-key", &["k"]),
        ("x-forwarded-for", &["192.0.2.1, 127.0.0.1"]),
        ("x-forwarded-host", &["shop.example"]),
        ("x-forwarded-proto", &["http"]),
        ("semel-attempt", &["1"]),
    ];
    for (name, values) in expect {
        assert_eq!(guarded.all(name), values, "{name}");
    }
    let fence: u64 = guarded.all("semel-fence")[0].parse().expect("a number");
    assert!(fence > 9, "the client's own is not passed on");
    assert!(passed.all("semel-attempt").is_empty(), "{passed:?}");
}

#[test]
fn the_host_is_kept_or_that_of_the_service() {
    let place = Place::new();
    let service = Service::counting();
    let proxy = Sidecar::start(&place, service.address, "host = \"upstream\"");
    get(proxy.address, "/a");
    let heard = &service.heard()[0];
    assert_eq!(heard.all("host"), [service.address.to_string()]);
    assert_eq!(heard.all("x-forwarded-host"), ["shop.example"]);
}

#[test]
fn answers_come_as_they_are_and_replays_byte_for_byte() {
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let body = bytes.clone();
    let service = Service::new(move |_, stream| {
        let fields = "Content-Encoding: gzip\r\nContent-Type: application/x-odd\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Own: 1\r\nKeep-Alive: timeout=9\r\nLocation: /o/1\r\n";
        respond(stream, "202 Taken Up", fields, &body);
        Then::Next
    });
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "keep = [\"X-Own\"]");
    let ask = || {
        let fields = "Idempotency-Key: k\r\nContent-Encoding: br\r\n";
        super::client::ask(proxy.address, &request("POST /", fields, &bytes))
    };
    let (first, again) = (ask(), ask());
    assert!(
        first.head.starts_with("HTTP/1.1 202 Taken Up"),
        "{}",
        first.head
    );
    assert_eq!(
        first.head.matches("set-cookie").count(),
        2,
        "{}",
        first.head
    );
    assert_eq!(first.field("keep-alive"), None);
    assert!(again.replayed() && again.status == 202);
    assert_eq!(again.field("set-cookie"), None);
    for name in ["content-encoding", "content-type", "x-own", "location"] {
        assert!(first.field(name).is_some(), "{name}");
        assert_eq!(first.field(name), again.field(name), "{name}");
    }
    assert_eq!(first.body, bytes);
    assert_eq!(again.body, bytes);
    let heard = service.heard();
    assert_eq!(heard.len(), 1);
    assert_eq!(
        (&heard[0].body, heard[0].all("content-encoding")),
        (&bytes, vec!["br"])
    );
}

#[test]
fn routes_have_rules_of_their_own() {
    let service = Service::new(|heard, stream| {
        let status = if heard.path().starts_with("/busy") {
            "500 No"
        } else {
            "200 OK"
        };
        respond(stream, status, "", heard.path().as_bytes());
        Then::Next
    });
    let place = Place::new();
    let options = r#"
        required = false
        key = "header:X-Order-No"
        [[route]]
        pattern = "/webhooks/*"
        guarded = false
        [[route]]
        pattern = "/pay"
        key = "json:.order_no"
        required = true
        methods = ["PUT", "POST"]
        [[route]]
        pattern = "/busy"
        policy = "stripe-v1"
        query = "ignore"
        [[route]]
        pattern = "/short"
        max_body = 3
        max_answer = 2
    "#;
    let proxy = Sidecar::start(&place, service.address, options);
    let send = |line: &str, fields: &str, body: &str| {
        let fields = format!("Content-Type: application/json\r\n{fields}");
        ask(proxy.address, &request(line, &fields, body.as_bytes()))
    };
    let twice = |line: &str, fields: &str, body: &str| {
        send(line, fields, body);
        send(line, fields, body)
    };
    assert!(!twice("POST /webhooks/1", "X-Order-No: 1\r\n", "{}").replayed());
    assert!(
        !twice("POST /other", "", "{}").replayed(),
        "no key, and none is required"
    );
    assert!(twice("POST /other", "X-Order-No: 2\r\n", "{}").replayed());
    assert!(twice("PUT /pay", "", r#"{"order_no": "o-1"}"#).replayed());
    assert_eq!(send("POST /pay", "", "{}").problem(), "key-missing");
    let kept = twice("POST /busy?at=1", "X-Order-No: 3\r\n", "");
    assert!(kept.replayed() && kept.status == 500, "5xx is kept");
    assert!(
        send("POST /busy?at=2", "X-Order-No: 3\r\n", "").replayed(),
        "the query does not count"
    );
    assert_eq!(
        send("POST /short", "X-Order-No: 4\r\n", "1234").problem(),
        "body-too-large"
    );
    let long = send("POST /short", "X-Order-No: 5\r\n", "1");
    assert_eq!((long.status, long.text().as_str()), (200, "/short"));
    assert_eq!(
        send("POST /short", "X-Order-No: 5\r\n", "1").problem(),
        "answer-gone"
    );
}

#[test]
fn connections_to_the_service_are_used_again() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "[timeouts]\nidle = \"1m\"");
    for number in 0..5 {
        post(proxy.address, "/", &format!("k{number}"), "{}");
    }
    assert_eq!((service.heard().len(), service.connections()), (5, 1));
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "[timeouts]\nidle = \"0\"");
    for number in 0..5 {
        post(proxy.address, "/", &format!("k{number}"), "{}");
    }
    assert_eq!(service.connections(), 6, "none is kept");
}
