//! A storm of orders, with repeats among them, through a proxy that is killed twice: no order is placed twice, and each that is
//! missing is known to be in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, sleep};
use std::time::Duration;

use super::client::{all, request, try_to_say};
use super::service::{Service, Then, respond};
use super::sidecar::Sidecar;
use crate::cli_process::Place;

const REQUESTS: usize = 10_000;
/// Three in ten are repeats.
const ORDERS: usize = 7_000;
const CLIENTS: usize = 64;
/// After how many answers the proxy is killed.
const KILLS: [usize; 2] = [3_000, 6_500];
/// How long a client waits before it asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// The order of each request: every order once, then repeats, shuffled by a rule that is the same each time.
fn orders() -> Vec<usize> {
    let mut orders: Vec<usize> = (0..ORDERS)
        .chain((0..REQUESTS - ORDERS).map(|at| at * 2))
        .collect();
    let mut state = 1u64;
    for at in (1..orders.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).expect("small") % (at + 1);
        orders.swap(at, other);
    }
    orders
}

/// A shop whose database is a file: a line for each order that is placed.
fn shop(ledger: String) -> Service {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(ledger)
        .expect("a ledger");
    let file = Mutex::new(file);
    Service::new(move |heard, stream| {
        let order = heard.all("idempotency-key").join(",");
        let mut file = file.lock().expect("not poisoned");
        file.write_all(format!("{order}\n").as_bytes())
            .expect("writes");
        drop(file);
        respond(stream, "201 Created", "", order.as_bytes());
        Then::Next
    })
}

fn placed(ledger: &str) -> BTreeMap<String, usize> {
    let mut placed = BTreeMap::new();
    for order in fs::read_to_string(ledger).expect("a ledger").lines() {
        *placed.entry(order.to_owned()).or_insert(0) += 1;
    }
    placed
}

/// One request, asked again until it is answered for good: whether the order is placed; if not, it is in doubt.
fn order(proxy: &RwLock<SocketAddr>, key: &str) -> bool {
    let fields = format!("Idempotency-Key: {key}\r\nContent-Type: application/json\r\n");
    let request = request("POST /orders", &fields, br#"{"amount":10}"#);
    loop {
        let address = *proxy.read().expect("not poisoned");
        // It may be down.
        let answer = try_to_say(address, &request).map(all).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        match answer.get(9..12) {
            Some("201") if answer.ends_with(key) => return true,
            Some("409") if answer.contains("in-doubt") => return false,
            // Under way, not to be reached, or killed in mid-answer.
            Some("409" | "503") | None => sleep(PAUSE),
            Some("201") => sleep(PAUSE),
            Some(_) => panic!("{key}: {answer}"),
        }
    }
}

#[test]
fn no_order_is_placed_twice_and_each_in_doubt_is_known() {
    let place = Place::new();
    let ledger = place.path("ledger");
    let service = shop(ledger.clone());
    let options = "lease = \"1s\"\nretain = \"1h\"";
    let mut proxy = Sidecar::start(&place, service.address, options);
    let address = Arc::new(RwLock::new(proxy.address));
    let (next, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let orders = Arc::new(orders());
    let in_doubt = Arc::new(Mutex::new(BTreeSet::new()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (address, next, answered) = (address.clone(), next.clone(), answered.clone());
            let (orders, in_doubt) = (orders.clone(), in_doubt.clone());
            thread::spawn(move || {
                while let Some(number) = orders.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let key = format!("o-{number}");
                    if !order(&address, &key) {
                        in_doubt.lock().expect("not poisoned").insert(key);
                    }
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for kill in KILLS {
        while answered.load(Ordering::SeqCst) < kill {
            sleep(PAUSE);
        }
        proxy.signal(libc::SIGKILL);
        proxy.end();
        proxy = Sidecar::start(&place, service.address, options);
        *address.write().expect("not poisoned") = proxy.address;
    }
    for client in clients {
        client.join().expect("a client");
    }

    let before = placed(&ledger);
    assert!(before.values().all(|times| *times == 1), "placed twice");
    let in_doubt = in_doubt.lock().expect("not poisoned").clone();
    let listed = proxy.unresolved();
    let known: BTreeSet<String> = listed
        .iter()
        .map(|record| record["id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(known, in_doubt);
    for number in 0..ORDERS {
        let key = format!("o-{number}");
        assert!(
            before.contains_key(&key) || known.contains(&key),
            "{key} is missing, and nobody knows"
        );
    }
    // Somebody looks into the shop's books.
    for record in &listed {
        let key = record["id"].as_str().expect("an id");
        let how = match before.contains_key(key) {
            true => format!(r#""value":{{"status":201,"body":"{key}"}}"#),
            false => r#""rerun":true"#.to_owned(),
        };
        assert_eq!(proxy.resolve(record, &how).status, 200, "{key}");
        assert!(order(&address, key), "{key}");
    }
    let after = placed(&ledger);
    assert_eq!(after.len(), ORDERS);
    assert!(after.values().all(|times| *times == 1), "placed twice");
}
