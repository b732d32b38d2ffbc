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

#[test]
fn relaxed_claims_return_at_once_and_others_wait_for_the_disk() {
    let (_dir, path) = directory();
    let store = open(&path);
    assert!(!at_once(&store, &Request::new("op", "sync")));
    assert!(at_once(&store, &relaxed("rerun", Policy::Rerun)));
    assert!(
        !at_once(&store, &relaxed("hold", Policy::Hold)),
        "held work is on disk before it begins"
    );
    assert!(!at_once(&store, &relaxed("ask", Policy::Ask)));
}

#[test]
fn the_policy_that_was_frozen_decides_and_not_the_one_of_a_later_caller() {
    let (_dir, path) = directory();
    let store = open(&path);
    execute(&store, &relaxed("1", Policy::Hold))
        .release()
        .expect("releases");
    store.sync().expect("syncs");
    assert!(!at_once(&store, &relaxed("1", Policy::Rerun)));
    execute(&store, &relaxed("2", Policy::Rerun))
        .release()
        .expect("releases");
    store.sync().expect("syncs");
    assert!(at_once(&store, &relaxed("2", Policy::Hold)));
}

#[test]
fn a_replay_shows_no_earlier_than_it_is_as_durable_as_was_promised() {
    let (_dir, path) = directory();
    let store = open(&path);
    let request = Request::new("op", "1");
    let ticket = execute(&store, &request);
    assert!(polled(ticket.complete_async("done"), 1).is_none());
    // The completion is on its way to the disk: nobody is shown it before.
    assert!(!at_once(&store, &request));
    assert!(at_once(&store, &request));
    let quick = relaxed("2", Policy::Rerun);
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
    assert!(!at_once(
        &store,
        &Request::new("op", "2").durability(Durability::Sync)
    ));
    assert_eq!(answer(&store, &Request::new("op", "1")), "busy");
}
