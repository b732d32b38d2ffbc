//! How the proxy ends: what runs is finished, within its time, and the store is closed.

use std::net::TcpStream;

use super::client::{Answer, all, get, post, request, say};
use super::service::{Service, Then, gated, respond};
use super::sidecar::Sidecar;
use crate::cli_process::{Place, say as semel, until};

fn begun(proxy: &Sidecar, key: &str) -> TcpStream {
    let fields = format!("Idempotency-Key: {key}\r\nContent-Type: application/json\r\n");
    say(proxy.address, &request("POST /", &fields, b"{}"))
}

fn told(proxy: &Sidecar) {
    until("the first signal", || proxy.said().contains("told to end"));
}

fn states(place: &Place) -> Vec<String> {
    let listed = semel(&["list", "--store", &place.store(), "--json"]).out();
    let states = listed.lines().map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        record["state"].as_str().expect("a state").to_owned()
    });
    states.collect()
}

#[test]
fn what_runs_is_finished_also_when_its_client_has_gone() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let (service, here, let_go) = gated();
        let place = Place::new();
        let proxy = Sidecar::start(&place, service.address, "");
        let stays = begun(&proxy, "stays");
        here.recv().expect("the service has it");
        let goes = begun(&proxy, "goes");
        drop(goes);
        proxy.signal(signal);
        told(&proxy);
        let address = proxy.address;
        until("no more connections", || {
            TcpStream::connect(address).is_err()
        });
        let_go.send(()).expect("waits");
        let_go.send(()).expect("waits");
        let answer = String::from_utf8_lossy(&all(stays)).into_owned();
        assert!(
            answer.starts_with("HTTP/1.1 201") && answer.ends_with("made"),
            "{answer}"
        );
        let (status, said) = proxy.end();
        assert_eq!(status, 0, "{said}");
        let states = states(&place);
        assert!(
            !states.is_empty() && states.iter().all(|state| state == "succeeded"),
            "{states:?}"
        );
    }
}

#[test]
fn what_does_not_end_in_time_is_in_doubt() {
    let (service, here, _let_go) = gated();
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "grace = \"200ms\"\nlease = \"1s\"");
    let _waiting = begun(&proxy, "k");
    here.recv().expect("the service has it");
    proxy.signal(libc::SIGTERM);
    let (status, said) = proxy.end();
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("1 guarded requests did not end in time"),
        "{said}"
    );
    until("the end of the lease", || states(&place) == ["in_doubt"]);
}

#[test]
fn a_second_signal_ends_at_once() {
    let (service, here, _let_go) = gated();
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "lease = \"1s\"");
    let _waiting = begun(&proxy, "k");
    here.recv().expect("the service has it");
    proxy.signal(libc::SIGTERM);
    told(&proxy);
    proxy.signal(libc::SIGINT);
    let (status, said) = proxy.end();
    assert_eq!(status, 130, "{said}");
    until("the end of the lease", || states(&place) == ["in_doubt"]);
    // The place opens again, and knows.
    let proxy = Sidecar::start(&place, service.address, "");
    assert_eq!(post(proxy.address, "/", "k", "{}").problem(), "in-doubt");
}

#[test]
fn connections_that_are_kept_or_have_changed_their_protocol_hold_nothing_up() {
    let service = Service::new(|heard, stream| {
        if heard.all("upgrade").is_empty() {
            respond(stream, "200 OK", "", b"");
            return Then::Next;
        }
        let switched =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
        let _ = std::io::Write::write_all(stream, switched.as_bytes());
        let _ = std::io::Read::read(stream, &mut [0]);
        Then::Close
    });
    let place = Place::new();
    let proxy = Sidecar::start(&place, service.address, "");
    let mut kept = say(proxy.address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut tunnel = say(
        proxy.address,
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
    );
    for stream in [&mut kept, &mut tunnel] {
        std::io::Read::read_exact(stream, &mut [0; 12]).expect("an answer");
    }
    proxy.signal(libc::SIGTERM);
    let (status, said) = proxy.end();
    assert_eq!(status, 0, "{said}");
    all(kept);
    all(tunnel);
}

#[test]
fn a_proxy_beside_another_one_shares_its_store() {
    let service = Service::counting();
    let place = Place::new();
    let one = Sidecar::start(&place, service.address, "");
    let two = Sidecar::start(&place, service.address, "");
    let first = post(one.address, "/", "k", "{}");
    let again: Answer = post(two.address, "/", "k", "{}");
    assert_eq!(
        (first.text(), first.replayed()),
        ("made 1".to_owned(), false)
    );
    assert_eq!(
        (again.text(), again.replayed()),
        ("made 1".to_owned(), true)
    );
    one.signal(libc::SIGTERM);
    assert_eq!(one.end().0, 0);
    assert!(
        post(two.address, "/", "k", "{}").replayed(),
        "the other one holds it now"
    );
    assert_eq!(get(two.admin, "/.semel/health").status, 200);
}
