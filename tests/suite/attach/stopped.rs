//! An owner that is stopped answers nobody; callers are told so in time, and nobody runs anything.

use std::time::Duration;

use semel::{Claim, ErrorKind, Request, Stopwatch, Store};

use super::{Place, signal, stop};
use crate::cli_process::say;

/// How long the owner may say nothing here.
const SILENCE: Duration = Duration::from_millis(400);

#[test]
fn a_stopped_owner_is_unavailable_and_no_leave_to_run() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    let store = Store::builder(&place.name)
        .owner_silence(SILENCE)
        .open()
        .expect("attaches");
    assert_eq!(owner.does("claim K"), "execute");
    stop(owner.0.id());
    let waiting = Stopwatch::start();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|n| {
                let store = &store;
                scope.spawn(move || {
                    let key = if n % 2 == 0 {
                        "K".to_owned()
                    } else {
                        format!("new {n}")
                    };
                    store.claim(&Request::new("guest", key).wait(Duration::from_secs(n)))
                })
            })
            .collect();
        for caller in callers {
            let told = caller.join().expect("ends").expect_err("nobody can answer");
            assert_eq!(told.kind(), ErrorKind::Unavailable, "{told}");
        }
    });
    assert!(
        waiting.elapsed() < Duration::from_secs(5),
        "{:?}",
        waiting.elapsed()
    );
    // Nor does an opening hang.
    let opened = Store::builder(&place.name).owner_silence(SILENCE).open();
    assert_eq!(
        opened.expect_err("nobody answers").kind(),
        ErrorKind::Unavailable
    );
    signal(owner.0.id(), libc::SIGCONT);
    assert_eq!(owner.does("complete K"), "ended");
    // What nobody waited for any more was not done when it woke.
    let claim = store.claim(&Request::new("guest", "new 1"));
    assert_eq!(claim.expect("claims").name(), "execute");
    let claim = store
        .claim(&Request::new("guest", "K"))
        .expect("claims again");
    assert!(matches!(claim, Claim::Replay(_)), "{}", claim.name());
}

#[test]
fn a_stopped_guest_holds_nobody_up() {
    let place = Place::new();
    let store = Store::open(&place.name).expect("opens");
    let mut guest = place.guest(&[]);
    assert_eq!(guest.does("claim K lease 200"), "execute");
    stop(guest.0.id());
    std::thread::sleep(Duration::from_millis(300));
    let calling = Stopwatch::start();
    let claim = store.claim(&Request::new("guest", "K")).expect("claims");
    assert_eq!(claim.name(), "in_doubt");
    let mut other = place.guest(&[]);
    assert_eq!(other.does("claim L"), "execute");
    assert!(calling.elapsed() < Duration::from_secs(3));
    signal(guest.0.id(), libc::SIGCONT);
    assert_eq!(guest.does("lookup L"), "running");
}

#[test]
fn what_an_operator_asks_of_a_stopped_owner_is_no_empty_store() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    assert_eq!(owner.does("claim K"), "execute");
    stop(owner.0.id());
    let commands: &[&[&str]] = &[
        &["stats"],
        &["stats", "--json"],
        &["stats", "--prometheus"],
        &["list"],
    ];
    std::thread::scope(|scope| {
        for command in commands {
            let store = &place.name;
            scope.spawn(move || {
                let told = say(&[command, &["--store", store][..]].concat());
                assert_eq!(told.status, 69, "{command:?}: {}{}", told.out(), told.err());
            });
        }
    });
    signal(owner.0.id(), libc::SIGCONT);
}
