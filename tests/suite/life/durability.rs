//! When calls return: on disk by default, at once when relaxed, and always on disk before held work begins.

use std::time::Duration;

use semel::{Durability, Policy, Request, Store};

use super::fixture::{answer, block_on, directory, execute, poll_once, polled, replayed};

fn open(path: &str) -> Store {
    Store::builder(path)
        .commit_interval(Duration::from_millis(50))
        .open()
        .expect("opens")
}

fn relaxed(id: &str, policy: Policy) -> Request<'_> {
    Request::new("op", id)
        .in_doubt(policy)
        .durability(Durability::Relaxed)
}

/// Whether the claim has its answer at once, without waiting for the disk.
fn at_once(store: &Store, request: &Request<'_>) -> bool {
    let mut claim = Box::pin(store.claim_async(request));
    let answered = poll_once(&mut claim);
    let ready = answered.is_some();
    let claim = answered.unwrap_or_else(|| block_on(claim)).expect("claims");
    std::mem::forget(claim);
    ready
}

/// Whether, of many operations, one was seen to wait; a disk may be quicker than a thread that was put aside.
fn waits(at_once: impl Fn(&str) -> bool) -> bool {
    (0..200).any(|n| !at_once(&n.to_string()))
}

#[test]
fn relaxed_claims_return_at_once_and_others_wait_for_the_disk() {
    let (_dir, path) = directory();
    let store = open(&path);
    assert!(waits(|id| at_once(&store, &Request::new("sync", id))));
    assert!(!waits(|id| at_once(&store, &relaxed(id, Policy::Rerun))));
    for (scope, policy) in [("held", Policy::Hold), ("asked", Policy::Ask)] {
        let on_disk_before_it_begins =
            waits(|id| at_once(&store, &relaxed(id, policy).scope(scope)));
        assert!(on_disk_before_it_begins, "{scope}");
    }
}

#[test]
fn the_policy_that_was_frozen_decides_and_not_the_one_of_a_later_caller() {
    let (_dir, path) = directory();
    let store = open(&path);
    let then = |id: &str, first: Policy, later: Policy| {
        let scope = if first == Policy::Hold {
            "held"
        } else {
            "rerun"
        };
        let of = |policy| relaxed(id, policy).scope(scope);
        execute(&store, &of(first)).release().expect("releases");
        store.sync().expect("syncs");
        at_once(&store, &of(later))
    };
    assert!(waits(|id| then(id, Policy::Hold, Policy::Rerun)));
    assert!((0..5).all(|n| then(&n.to_string(), Policy::Rerun, Policy::Hold)));
}

#[test]
fn a_replay_shows_no_earlier_than_it_is_as_durable_as_was_promised() {
    let (_dir, path) = directory();
    let store = open(&path);
    let shown = |id: &str| {
        let request = Request::new("op", id);
        let ticket = execute(&store, &request);
        polled(ticket.complete_async("done"), 1);
        // The completion is on its way to the disk: nobody is shown it before.
        let shown = at_once(&store, &request);
        assert!(at_once(&store, &request), "it is on disk by now");
        shown
    };
    assert!(waits(shown));
    let quick = relaxed("quick", Policy::Rerun);
    let ticket = execute(&store, &quick);
    assert!(polled(ticket.complete_async("done"), 1).is_some());
    assert!(
        at_once(&store, &quick),
        "what was promised to no one waits for nothing"
    );
}

#[test]
fn what_is_relaxed_is_there_after_an_orderly_end() {
    let (_dir, path) = directory();
    for round in 0..3 {
        let store = open(&path);
        for n in 0..20 {
            let id = format!("{round}-{n}");
            execute(&store, &relaxed(&id, Policy::Rerun))
                .complete(&id)
                .expect("completes");
        }
        match round {
            0 => drop(store),
            1 => store.close().expect("closes"),
            _ => store.sync().expect("syncs"),
        }
    }
    let store = open(&path);
    for round in 0..3 {
        for n in 0..20 {
            let id = format!("{round}-{n}");
            let claim = store.claim(&relaxed(&id, Policy::Rerun)).expect("claims");
            assert_eq!(replayed(claim), id);
        }
    }
}

#[test]
fn a_store_can_be_relaxed_and_an_operation_sync() {
    let (_dir, path) = directory();
    let store = Store::builder(&path)
        .durability(Durability::Relaxed)
        .in_doubt(Policy::Rerun)
        .commit_interval(Duration::from_millis(50))
        .open()
        .expect("opens");
    assert!(at_once(&store, &Request::new("op", "1")));
    let synced = |id: &str| {
        at_once(
            &store,
            &Request::new("sync", id).durability(Durability::Sync),
        )
    };
    assert!(waits(synced));
    assert_eq!(answer(&store, &Request::new("op", "1")), "busy");
}
