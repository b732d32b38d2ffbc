//! The proxy is killed while a request is under way: the next one knows that nobody knows.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::json;

use super::client::{post, request, say};
use super::service::{Service, Then, respond};
use super::sidecar::Sidecar;
use crate::cli_process::{Place, until};

#[test]
fn what_ran_is_in_doubt_until_somebody_says_what_came_of_it() {
    let (arrived, here) = channel();
    let arrived = Mutex::new(arrived);
    let service = Service::new(move |heard, stream| {
        if heard.path() == "/before" {
            respond(stream, "201 Created", "", b"before");
            return Then::Next;
        }
        let _ = arrived.lock().expect("not poisoned").send(());
        // The proxy goes first.
        let _ = std::io::Read::read(stream, &mut [0]);
        Then::Close
    });
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "lease = \"1s\"");
    assert_eq!(post(proxy.address, "/before", "k-0", "{}").status, 201);
    let fields = "Idempotency-Key: k-1\r\nContent-Type: application/json\r\n";
    let _waiting = say(proxy.address, &request("POST /orders", fields, b"{}"));
    here.recv().expect("the service has it");
    proxy.signal(libc::SIGKILL);
    proxy.end();

    let proxy = Sidecar::start(&place, service.address, "");
    assert!(post(proxy.address, "/before", "k-0", "{}").replayed());
    // Until its lease is over, somebody might still be at it.
    until("the end of the lease", || {
        let again = post(proxy.address, "/orders", "k-1", "{}");
        match again.problem().as_str() {
            "in-flight" => false,
            "in-doubt" => true,
            other => panic!("{other}"),
        }
    });
    let listed = proxy.unresolved();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!("k-1")));
    let how = r#""value":{"status":201,"body":"it was made"}"#;
    assert_eq!(proxy.resolve(&listed[0], how).status, 200);
    let again = post(proxy.address, "/orders", "k-1", "{}");
    assert_eq!(
        (again.status, again.text().as_str(), again.replayed()),
        (201, "it was made", true)
    );
    assert_eq!(service.heard().len(), 2);
}
