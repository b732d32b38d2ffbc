//! The holder of an operation is killed in the middle of its work.

use std::thread;
use std::time::Duration;

use semel::{
    Claim, Doubt, ErrorKind, Identity, Policy, Request, Resolution, Resolved, Store, Value,
};
use semel_tests::scratch::on_disk;
use tempfile::TempDir;

use super::process::{Process, victim};

const LEASE: Duration = Duration::from_millis(900);

/// A store whose victim was killed while it held the operation; its attempt and fence.
fn killed(options: &[&str]) -> (TempDir, Store, u32, u64) {
    let dir = on_disk();
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    let mut holder = Process::start(&mut victim(&[&["hold", place], options].concat()));
    let said = holder.line();
    let words: Vec<&str> = said.split(' ').collect();
    let ["execute", attempt, fence] = words[..] else {
        panic!("the victim said {said}");
    };
    let (attempt, fence) = (
        attempt.parse().expect("a number"),
        fence.parse().expect("a number"),
    );
    holder.kill();
    let store = Store::open(place).expect("opens after a kill");
    (dir, store, attempt, fence)
}

fn claim(store: &Store, request: Request<'_>) -> Claim {
    store.claim(&request).expect("a claim is answered")
}

#[test]
fn hold_is_busy_until_the_lease_ends_then_in_doubt_until_resolved() {
    let (_dir, store, ..) = killed(&["lease=900"]);
    let request = || Request::new("work", "W-1");
    let Claim::Busy(busy) = claim(&store, request()) else {
        panic!("busy first");
    };
    assert_eq!(busy.holder.as_deref(), Some("the victim"));
    assert!(busy.lease_remaining.is_some_and(|left| left <= LEASE));
    assert!(store.unresolved(10).expect("lists").is_empty());
    // Who waits is told at the lease's end, not before.
    let Claim::InDoubt(doubt) = claim(&store, request().wait(Duration::from_secs(20))) else {
        panic!("in doubt when the lease is over");
    };
    assert!(doubt.message.contains("semel resolve"), "{}", doubt.message);
    assert_eq!(store.unresolved(10).expect("lists").len(), 1);
    let identity = Identity::new("work", "W-1");
    let value = Value::bytes(*b"found out");
    let resolved = store
        .resolve(&identity, Resolution::Value(value.clone()))
        .expect("resolves");
    assert_eq!(resolved, Resolved::Resolved);
    let Claim::Replay(replay) = claim(&store, request()) else {
        panic!("resolved");
    };
    assert_eq!(replay.value, value);
    assert_eq!(store.stats().unresolved, 0);
}

#[test]
fn rerun_takes_over_after_the_lease_with_a_higher_fence() {
    let (_dir, store, attempt, fence) = killed(&["rerun", "lease=900"]);
    let request = || {
        Request::new("work", "W-1")
            .in_doubt(Policy::Rerun)
            .lease(LEASE)
    };
    assert!(matches!(claim(&store, request()), Claim::Busy(_)));
    let Claim::Execute(ticket) = claim(&store, request().wait(Duration::from_secs(20))) else {
        panic!("taken over");
    };
    assert_eq!((attempt, ticket.attempt()), (1, 2));
    assert!(ticket.fence() > fence && ticket.is_takeover());
    ticket.complete("second").expect("completes");
    assert!(matches!(claim(&store, request()), Claim::Replay(_)));
}

#[test]
fn a_later_caller_cannot_weaken_the_policy_of_the_dead_one() {
    let (_dir, store, ..) = killed(&["lease=300"]);
    thread::sleep(Duration::from_millis(350));
    let request = Request::new("work", "W-1").in_doubt(Policy::Rerun);
    assert!(matches!(claim(&store, request), Claim::InDoubt(_)));
}

#[test]
fn a_lease_without_end_is_in_doubt_as_soon_as_its_holder_is_dead() {
    let (_dir, store, _, fence) = killed(&["never"]);
    let request = Request::new("work", "W-1");
    let Claim::InDoubt(doubt) = claim(&store, request.clone()) else {
        panic!("in doubt at once");
    };
    assert!(
        !matches!(doubt.doubt, Doubt::Stated(_)),
        "{:?}",
        doubt.doubt
    );
    assert_eq!(doubt.fence, fence);
    assert_eq!(store.unresolved(10).expect("lists").len(), 1);
    store
        .resolve(&Identity::new("work", "W-1"), Resolution::Rerun)
        .expect("resolves");
    let Claim::Execute(ticket) = claim(&store, request) else {
        panic!("rerun by resolution");
    };
    assert_eq!(ticket.attempt(), 2);
    assert!(ticket.fence() > fence);
    store.close().expect("closes");
    assert_eq!(
        ticket.complete("late").expect_err("closed").kind(),
        ErrorKind::Closed
    );
}
