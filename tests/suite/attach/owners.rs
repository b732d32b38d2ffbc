//! The owner ends, well or badly, and another process holds the store: callers see a delay and nothing else.

use std::time::Duration;

use semel::{Claim, Durability, ErrorKind, Policy, Request, Stopwatch, Store};

use super::{Place, signal};

#[test]
fn the_next_owner_has_what_was_acknowledged() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let held = store.claim(&Request::new("guest", "held")).expect("claims");
    let Claim::Execute(held) = held else {
        panic!("first")
    };
    for n in 0..50 {
        let claim = store.claim(&Request::new("guest", format!("done {n}")));
        let Claim::Execute(ticket) = claim.expect("claims") else {
            panic!("first")
        };
        ticket.complete(&n).expect("completes");
    }
    assert_eq!(owner.does("claim theirs"), "execute");
    drop(owner); // killed
    // The first call after it makes this process the owner.
    for n in 0..50 {
        let claim = store.claim(&Request::new("guest", format!("done {n}")));
        let Claim::Replay(replay) = claim.expect("claims") else {
            panic!("done {n} is lost")
        };
        assert_eq!(replay.decode::<i32>().expect("decodes"), n);
    }
    assert_eq!(place.owner(), Some(std::process::id()));
    held.renew().expect("the lease goes on");
    held.complete("held").expect("completes at the new owner");
    let theirs = store
        .claim(&Request::new("guest", "theirs"))
        .expect("claims");
    assert_eq!(
        theirs.name(),
        "busy",
        "the dead owner's lease runs out by itself"
    );
    // And others attach to this one.
    let mut guest = place.guest(&[]);
    assert_eq!(guest.does("claim held"), "replay");
}

#[test]
fn an_owner_that_closes_hands_over_and_calls_go_on() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    let mut first = place.guest(&[]);
    let mut second = place.guest(&[]);
    assert_eq!(first.does("claim K"), "execute");
    assert_eq!(second.does("await K 20000"), "awaiting");
    assert_eq!(owner.does("close"), "closed");
    assert_eq!(owner.does("claim K").split(':').next(), Some("Closed"));
    assert_eq!(first.does("renew K"), "renewed");
    assert_eq!(first.does("complete K"), "ended");
    // Whoever waited at the old owner waits at the new one.
    assert_eq!(second.0.line(), "awaited K replay");
    let new = place.owner();
    assert!(
        new == Some(first.0.id()) || new == Some(second.0.id()),
        "{new:?}"
    );
}

#[test]
fn who_waits_finds_the_next_owner_by_himself() {
    let place = Place::new();
    let owner = place.guest(&[]);
    let mut holder = place.guest(&[]);
    let mut waiter = place.guest(&[]);
    assert_eq!(holder.does("claim K lease 400"), "execute");
    assert_eq!(waiter.does("await K 20000"), "awaiting");
    std::thread::sleep(Duration::from_millis(50));
    let gap = Stopwatch::start();
    drop(owner);
    drop(holder);
    // Its lease ends at the owner that the waiter has become.
    assert_eq!(waiter.0.line(), "awaited K in_doubt");
    assert!(gap.elapsed() < Duration::from_secs(5));
    assert_eq!(place.owner(), Some(waiter.0.id()));
}

/// Work that is not on disk when it is acknowledged.
fn relaxed(store: &Store, key: &str) {
    let request = Request::new("guest", key)
        .in_doubt(Policy::Rerun)
        .durability(Durability::Relaxed);
    let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
        panic!("first")
    };
    ticket.complete(key).expect("completes");
}

#[test]
fn a_sync_tells_when_relaxed_work_may_have_gone_with_its_owner() {
    let place = Place::new();
    let owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    relaxed(&store, "kept");
    store.sync().expect("it is on disk");
    relaxed(&store, "perhaps lost");
    drop(owner);
    let told = store.sync().expect_err("the owner is gone");
    assert_eq!(told.kind(), ErrorKind::Unavailable);
    store.sync().expect("told once");
    let kept = store.claim(&Request::new("guest", "kept"));
    assert_eq!(kept.expect("claims").name(), "replay");
}

#[test]
fn an_owner_that_closes_takes_no_relaxed_work_along() {
    let place = Place::new();
    let mut owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let mut other = place.guest(&[]);
    relaxed(&store, "first");
    assert_eq!(owner.does("close"), "closed");
    // Another one owns it now, which closes in its turn.
    assert_eq!(other.does("claim K"), "execute");
    relaxed(&store, "second");
    assert_eq!(other.does("close"), "closed");
    store.sync().expect("all of it is on disk");
    assert_eq!(place.owner(), Some(std::process::id()));
    for key in ["first", "second"] {
        let claim = store.claim(&Request::new("guest", key)).expect("claims");
        assert_eq!(claim.name(), "replay", "{key}");
    }
}

#[test]
fn a_killed_owner_among_many_is_followed_by_one() {
    let place = Place::new();
    let mut guests: Vec<_> = (0..5).map(|_| place.guest(&[])).collect();
    for round in 0..4 {
        let owner = place.owner().expect("somebody holds it");
        let at = guests.iter().position(|guest| guest.0.id() == owner);
        let at = at.expect("one of them");
        signal(owner, libc::SIGKILL);
        drop(guests.remove(at));
        // All of them call at once.
        for guest in &mut guests {
            guest.0.send(&format!("claim K{round}"));
        }
        let told: Vec<String> = guests.iter_mut().map(|guest| guest.0.line()).collect();
        let executed = told.iter().filter(|answer| *answer == "execute").count();
        assert_eq!(executed, 1, "{told:?}");
        assert!(
            told.iter()
                .all(|answer| answer == "execute" || answer == "busy"),
            "{told:?}"
        );
        assert_ne!(place.owner(), Some(owner));
    }
}
