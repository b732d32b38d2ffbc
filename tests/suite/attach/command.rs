//! The command line at a live store: several commands at a time, and an operator who looks on.

use std::process::Child;
use std::time::Duration;

use semel::Stopwatch;

use super::{Place as Shared, signal};
use crate::cli_process::{Place, Said, say, semel, until};

/// A script that works until its file is there, or its place is gone: whoever started it may be killed.
fn script(place: &Place) -> String {
    let (here, go) = (place.path("."), place.path("go"));
    format!(
        "echo begun >> \"$1\"; while [ -d {here} ] && [ ! -e {go} ]; do sleep 0.02; done; echo its output"
    )
}

/// A `semel run` of it.
fn long_run(place: &Place, key: &str) -> Child {
    let child = place.running(key, &[], &script(place)).spawn();
    let child = child.expect("starts");
    until("the command to begin", || place.effects() > 0);
    child
}

#[test]
fn a_second_run_of_a_key_is_busy_while_the_first_works() {
    let place = Place::new();
    let first = long_run(&place, "nightly");
    let second = place.run("nightly", &[], &script(&place));
    assert_eq!(second.status, 75, "{}", second.err());
    // Another key runs beside it, and the operator sees both.
    let other = place.run("other", &[], "echo other >> \"$1\"");
    assert_eq!(other.status, 0, "{}", other.err());
    let store = place.store();
    let listed = say(&["list", "--store", &store, "--json"]);
    assert_eq!(
        (listed.status, listed.out().lines().count()),
        (0, 2),
        "{}",
        listed.err()
    );
    let found = say(&["lookup", "--store", &store, "--key", "nightly", "--json"]);
    assert!(
        found.out().contains("\"running\""),
        "{}{}",
        found.out(),
        found.err()
    );
    for command in ["stats", "sweep", "verify", "unresolved"] {
        let told = say(&[command, "--store", &store]);
        assert_eq!(told.status, 0, "{command}: {}", told.err());
    }
    // Who waits gets the first one's output.
    let waiter = place
        .running("nightly", &["--wait", "20s"], &script(&place))
        .spawn()
        .expect("starts");
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(place.path("go"), "").expect("written");
    let waited = Said::of(waiter.wait_with_output().expect("ends"));
    assert_eq!(
        (waited.status, waited.out().as_str()),
        (0, "its output\n"),
        "{}",
        waited.err()
    );
    let first = Said::of(first.wait_with_output().expect("ends"));
    assert_eq!((first.status, first.out().as_str()), (0, "its output\n"));
    assert_eq!(place.effects(), 2);
}

#[test]
fn an_operator_resolves_a_doubt_at_a_live_store() {
    let place = Shared::new();
    let mut service = place.guest(&[]);
    let mut worker = place.guest(&[]);
    assert_eq!(worker.does("claim W-1 lease 100"), "execute");
    drop(worker);
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(service.does("claim W-1"), "in_doubt");
    let which = [
        "--store",
        &*place.name,
        "--operation",
        "guest",
        "--key",
        "W-1",
    ];
    let listed = say(&["unresolved", "--store", &place.name]);
    assert!(
        listed.out().contains("W-1"),
        "{}{}",
        listed.out(),
        listed.err()
    );
    let resolved = say(&[&["resolve"], &which[..], &["--rerun"]].concat());
    assert_eq!(resolved.status, 0, "{}", resolved.err());
    assert_eq!(service.does("claim W-1"), "execute");
    assert_eq!(service.does("complete W-1"), "ended");
    assert_eq!(
        place.owner(),
        Some(service.0.id()),
        "the operator took nothing over"
    );
}

#[test]
fn the_store_goes_on_when_the_run_that_held_it_ends() {
    let place = Place::new();
    let mut first = long_run(&place, "one");
    let second = place.run("two", &[], "sleep 0.3; echo two >> \"$1\"; echo out");
    assert_eq!(second.status, 0, "{}", second.err());
    let work = "sleep 0.5; echo three >> \"$1\"; echo out";
    let mut third = place.running("three", &[], work).spawn().expect("starts");
    std::thread::sleep(Duration::from_millis(150));
    first.kill().expect("is killed");
    first.wait().expect("ends");
    let ending = Stopwatch::start();
    assert!(
        third.wait().expect("ends").success(),
        "it completes at itself"
    );
    assert!(ending.elapsed() < Duration::from_secs(10));
    let again = place.run("three", &[], work);
    assert_eq!(
        (again.status, again.out().as_str()),
        (0, "out\n"),
        "{}",
        again.err()
    );
    std::fs::write(place.path("go"), "").expect("written");
}

#[test]
fn a_holder_owns_a_store_for_others_and_hands_it_over_when_it_is_told_to_end() {
    let place = Shared::new();
    let hold = |options: &[&str]| semel(&[&["hold", "--store", &*place.name], options].concat());
    // It makes no store, so that a typing error creates nothing.
    assert_eq!(say(&["hold", "--store", &place.name]).status, 69);
    let mut first = place.guest(&[]);
    assert_eq!(first.does("claim K"), "execute");
    let told = say(&["hold", "--store", &place.name]);
    assert!(
        told.status == 69 && told.err().contains("holds the store"),
        "{}",
        told.err()
    );
    drop(first);
    let mut holder = hold(&[]).spawn().expect("starts");
    until("the holder to hold it", || {
        place.owner() == Some(holder.id())
    });
    let mut guest = place.guest(&[]);
    assert_eq!(guest.does("claim K"), "busy");
    assert_eq!(place.owner(), Some(holder.id()));
    signal(holder.id(), libc::SIGTERM);
    assert!(holder.wait().expect("ends").success());
    assert_eq!(guest.does("claim L"), "execute");
    assert_eq!(place.owner(), Some(guest.0.id()));
    // One that is there for others alone goes when they have gone.
    drop(guest);
    let mut idle = hold(&["--idle", "100ms"]).spawn().expect("starts");
    assert!(idle.wait().expect("ends").success());
}
