//! Handles that came through a fork: each child has a place of its own at whoever holds the store.

use std::time::Duration;

use semel::{Claim, Request, Stopwatch, Store};

use super::{Place, signal};
use crate::crash::process::{Process, victim};

#[test]
fn a_forked_child_works_with_the_handle_it_inherited() {
    let place = Place::new();
    let mut parent = Process::start(&mut victim(&["forked", &place.name]));
    let told = parent.line();
    assert!(told.starts_with("children "), "{told}");
    assert!(parent.ended_well());
    let store = Store::open(&place.name).expect("opens");
    for key in ["child-0", "child-7", "held-0", "held-7"] {
        let claim = store.claim(&Request::new("forked", key)).expect("claims");
        assert!(matches!(claim, Claim::Replay(_)), "{key}: {}", claim.name());
    }
    assert!(store.verify().expect("verifies").problems.is_empty());
}

#[test]
fn children_outlive_the_parent_that_held_the_store() {
    let place = Place::new();
    let told = place.dir.path().join("told");
    let mut parent = Process::start(&mut victim(&[
        "orphans",
        &place.name,
        told.to_str().expect("text"),
    ]));
    assert_eq!(parent.line(), "working");
    signal(parent.id(), libc::SIGKILL);
    // Whoever opens it now holds it, and serves the orphans.
    let store = Store::open(&place.name).expect("no orphan keeps the lock");
    let waiting = Stopwatch::start();
    let done = loop {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        if text.lines().count() == 4 {
            break text;
        }
        assert!(waiting.elapsed() < Duration::from_secs(30), "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(
        done.lines().all(|line| line == "served by the next owner"),
        "{done}"
    );
    assert_eq!(
        store
            .list()
            .filter_map(Result::ok)
            .filter(|info| info.state == "succeeded")
            .count(),
        4
    );
}

#[test]
fn orphans_that_cannot_own_the_store_are_served_by_one_that_can() {
    let place = Place::new();
    let told = place.dir.path().join("told");
    let told_text = told.to_str().expect("text");
    let mut parent = Process::start(&mut victim(&["orphans", &place.name, told_text]));
    assert_eq!(parent.line(), "working");
    signal(parent.id(), libc::SIGKILL);
    let waiting = Stopwatch::start();
    while std::fs::read_to_string(&told)
        .unwrap_or_default()
        .lines()
        .count()
        < 4
    {
        assert!(waiting.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = std::fs::read_to_string(&told).expect("is told");
    assert!(
        done.lines().all(|line| line == "served by the next owner"),
        "{done}"
    );
    let holder = place.owner().expect("semel hold");
    signal(holder, libc::SIGTERM);
    // It closes, as it is told, and the store is free.
    let store = Store::open(&place.name).expect("opens");
    let done = store
        .list()
        .filter_map(Result::ok)
        .filter(|info| info.state == "succeeded");
    assert_eq!(done.count(), 4);
}
