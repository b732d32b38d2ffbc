//! A second process, and a second opening.

use std::thread;
use std::time::Duration;

use semel::{Claim, ErrorKind, Request, Shared, Stopwatch, Store};
use semel_tests::scratch::{in_memory, on_disk};

use super::process::{Process, victim};

/// How often a store is opened right after it was closed.
const REOPENINGS: usize = 200;

#[test]
fn a_second_process_is_refused_and_told_the_holder() {
    let dir = on_disk();
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    let mut holder = Process::start(&mut victim(&["hold", place, "bare"]));
    assert_eq!(holder.line(), "open");
    let waiting = Stopwatch::start();
    let refused = Store::builder(place)
        .shared(Shared::Never)
        .open()
        .expect_err("held");
    assert_eq!(refused.kind(), ErrorKind::StoreLocked);
    assert!(
        refused
            .message()
            .contains(&format!("process {}", holder.id())),
        "{refused}"
    );
    assert!(refused.message().contains("another directory"), "{refused}");
    assert!(waiting.elapsed() < Duration::from_secs(5));
    // Who waits longer gets it when the holder is done.
    let late = thread::scope(|scope| {
        let late = scope.spawn(|| {
            Store::builder(place)
                .lock_timeout(Duration::from_secs(20))
                .open()
        });
        thread::sleep(Duration::from_millis(300));
        holder.send("close");
        assert_eq!(holder.line(), "closed");
        late.join().expect("waits")
    });
    late.expect("opens when the holder has closed");
}

#[test]
fn an_opening_waits_for_a_holder_that_is_closing() {
    let dir = on_disk();
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    let mut holder = Process::start(&mut victim(&["hold", place, "bare"]));
    assert_eq!(holder.line(), "open");
    // The holder says so in its lock, and takes longer than anybody would wait for one that does not.
    std::fs::write(
        dir.path().join("store/owner"),
        format!("{} closing\n", holder.id()),
    )
    .expect("written");
    let opened = thread::scope(|scope| {
        let opened = scope.spawn(|| Store::open(place));
        thread::sleep(Duration::from_millis(800));
        holder.send("close");
        opened.join().expect("waits")
    });
    opened.expect("opens after the holder has closed");
}

#[test]
fn a_store_opens_again_right_after_it_was_closed_or_dropped() {
    let dir = in_memory();
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    for round in 0..REOPENINGS {
        let store = Store::open(place).unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        let key = format!("r-{round}");
        let Claim::Execute(ticket) = store.claim(&Request::new("reopen", &*key)).expect("claims")
        else {
            panic!("a new key in round {round}");
        };
        ticket.complete(&round).expect("completes");
        if round % 2 == 0 {
            store.close().expect("closes");
            assert_eq!(
                store
                    .claim(&Request::new("reopen", "late"))
                    .expect_err("closed")
                    .kind(),
                ErrorKind::Closed
            );
        } else if round % 4 == 1 {
            // The ticket is the last that keeps the store, and goes on another thread.
            drop(store);
            thread::spawn(move || drop(ticket)).join().expect("drops");
        }
    }
    let store = Store::open(place).expect("opens");
    assert_eq!(store.len(), REOPENINGS as u64);
}

#[test]
fn one_process_holds_a_store_once() {
    let dir = in_memory();
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    let store = Store::open(place).expect("opens");
    let again = Store::builder(place)
        .shared(Shared::Never)
        .open()
        .expect_err("held by this process");
    assert_eq!(again.kind(), ErrorKind::StoreLocked);
    assert!(
        again.message().contains(&std::process::id().to_string()),
        "{again}"
    );
    drop(store);
    Store::open(place).expect("free again");
}
