//! What whoever looks after the proxy reaches, where clients do not, and what they reach of it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::json;

use super::client::{ask, get, post, request};
use super::service::{Service, Then, respond};
use super::sidecar::Sidecar;
use crate::cli_process::{Place, until};

/// A service that breaks off the first time and answers the second.
fn wavering() -> Service {
    let first = std::sync::atomic::AtomicBool::new(true);
    Service::new(move |_, stream| {
        if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            return Then::Close;
        }
        respond(stream, "201 Created", "", b"made");
        Then::Next
    })
}

#[test]
fn a_doubt_is_listed_and_ended_in_each_way_and_only_that_one() {
    let ways = [
        (
            r#""value":{"status":201,"fields":{"Location":"/o/1"},"json":{"id":1}}"#,
            201,
            "{\"id\":1}",
            1,
        ),
        (
            r#""error":{"code":"declined","message":"no money"}"#,
            409,
            "declined",
            1,
        ),
        (r#""executed":true"#, 410, "answer-gone", 1),
        (r#""rerun":true"#, 201, "made", 2),
    ];
    for (how, status, words, heard) in ways {
        let (place, service) = (Place::new(), wavering());
        let proxy = Sidecar::start(&place, service.address, "");
        assert_eq!(post(proxy.address, "/orders", "k-1", "{}").status, 502);
        let listed = proxy.unresolved();
        let [record] = &listed[..] else {
            panic!("one: {listed:?}");
        };
        assert_eq!(
            (&record["id"], &record["scope"], &record["state"]),
            (&json!("k-1"), &json!("ann"), &json!("in_doubt"))
        );
        assert!(
            record["doubt"]["since"].is_string() && record["doubt"]["why"].is_string(),
            "{record}"
        );
        let mut other = record.clone();
        other["fence"] = json!(record["fence"].as_u64().expect("a fence") - 1);
        let refused = proxy.resolve(&other, how);
        assert_eq!(
            (refused.status, refused.json()["answer"].clone()),
            (409, json!("not_in_doubt")),
            "{how}"
        );
        other["id"] = json!("k-2");
        assert_eq!(proxy.resolve(&other, how).status, 404, "{how}");
        let resolved = proxy.resolve(record, how);
        assert_eq!(
            (resolved.status, resolved.json()),
            (200, json!({ "answer": "resolved" })),
            "{how}"
        );
        let again = post(proxy.address, "/orders", "k-1", "{}");
        assert_eq!(again.status, status, "{how}: {}", again.text());
        assert!(again.text().contains(words), "{how}: {}", again.text());
        assert_eq!(service.heard().len(), heard, "{how}");
        assert!(proxy.unresolved().is_empty(), "{how}");
        if how.contains("Location") {
            assert!(
                again.replayed() && again.field("location") == Some("/o/1"),
                "{}",
                again.head
            );
        }
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    let record = json!({ "operation": "http", "id": "k", "scope": "ann", "fence": 1 });
    for (how, words) in [
        (r#""rerun":true,"executed":true"#, "one thing"),
        (r#""valeu":{}"#, "unknown field"),
        (r#""value":{"status":99}"#, "no status"),
    ] {
        let refused = proxy.resolve(&record, how);
        assert_eq!(refused.status, 400, "{how}");
        assert!(refused.text().contains(words), "{how}: {}", refused.text());
    }
    let form = request(
        "POST /.semel/unresolved",
        "Content-Type: text/plain\r\n",
        b"{}",
    );
    assert!(ask(proxy.admin, &form).text().contains("application/json"));
    assert_eq!(
        get(proxy.admin, "/.semel/unresolved?limit=many").status,
        400
    );
    let deleted = ask(proxy.admin, &request("DELETE /.semel/unresolved", "", b""));
    assert_eq!(
        (deleted.status, deleted.field("allow")),
        (405, Some("GET, HEAD, POST"))
    );
    assert_eq!(get(proxy.admin, "/orders").problem(), "not-found");
    assert!(
        service.heard().is_empty(),
        "the admin address passes nothing on"
    );
}

#[test]
fn measures_and_health_are_told_and_clients_reach_health_alone() {
    let (place, service) = (Place::new(), Service::counting());
    let proxy = Sidecar::start(&place, service.address, "");
    post(proxy.address, "/", "k", "{}");
    post(proxy.address, "/", "k", "{}");
    let measures = get(proxy.admin, "/.semel/metrics");
    assert_eq!(
        measures.field("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = measures.text();
    let line = text.lines().find(|line| {
        line.starts_with("semel_") && line.contains("replay") && line.contains("operation=\"http\"")
    });
    assert!(line.is_some_and(|line| line.ends_with(" 1")), "{text}");
    for address in [proxy.address, proxy.admin] {
        let health = get(address, "/.semel/health");
        assert_eq!(
            (health.status, health.json()),
            (200, json!({ "status": "ok" }))
        );
    }
    for path in [
        "/.semel/metrics",
        "/.semel/unresolved",
        "/.semel/token",
        "/.semel/",
    ] {
        assert_eq!(get(proxy.address, path).problem(), "not-found", "{path}");
    }
    assert_eq!(service.heard().len(), 1);
}

#[test]
fn a_socket_for_admins_is_its_owners_alone() {
    let (place, service) = (Place::new(), Service::counting());
    let socket = place.path("admin.sock");
    let (store, upstream) = (place.store(), format!("http://{}", service.address));
    let admin = format!("unix:{socket}");
    let args = [
        "proxy",
        "--listen",
        "127.0.0.1:0",
        "--upstream",
        &upstream,
        "--store",
        &store,
        "--scope",
        "global",
        "--admin",
        &admin,
    ];
    // What a killed one has left is replaced.
    for round in 0..2 {
        let mut child = crate::cli_process::semel(&args)
            .spawn()
            .expect("semel starts");
        let answered = || {
            let mut stream = UnixStream::connect(&socket).ok()?;
            stream
                .write_all(b"GET /.semel/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                .ok()?;
            let mut told = String::new();
            stream.read_to_string(&mut told).ok()?;
            Some(told)
        };
        until("an answer", || {
            answered().is_some_and(|told| told.starts_with("HTTP/1.1 200"))
        });
        let mode = fs::symlink_metadata(&socket)
            .expect("a socket")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        if round == 1 {
            let said = crate::cli_process::say(&args);
            assert_eq!(said.status, 69);
            assert!(
                said.err().contains("another process listens there"),
                "{}",
                said.err()
            );
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
    }
}

#[test]
fn tokens_are_issued_and_good_for_one_operation() {
    let (place, service) = (Place::new(), Service::counting());
    let options = "tokens = true\n[token]\nttl = \"5m\"";
    let proxy = Sidecar::start(&place, service.address, options);
    let issued = ask(proxy.address, &request("POST /.semel/token", "", b""));
    assert_eq!(
        (issued.status, issued.json()["expires_in"].as_u64()),
        (201, Some(300))
    );
    let token = issued.json()["token"].as_str().expect("a token").to_owned();
    let first = post(proxy.address, "/", &token, "{}");
    let again = post(proxy.address, "/", &token, "{}");
    assert_eq!(
        (first.status, again.status, again.replayed()),
        (201, 201, true)
    );
    assert_eq!(
        post(proxy.address, "/", "made-up", "{}").problem(),
        "token-refused"
    );
    assert_eq!(service.heard().len(), 1);
}
