//! The concurrency core under a scheduler that plays its interleavings: claim, wait, promote, complete, transaction, lock.
//!
//! Only in a build with `--cfg semel_shuttle`, where the locks, conditions and threads of the engine are shuttle's
//! (`core/src/sync.rs`). Nobody waits for time there: the clock stands still, and whoever is not woken shows as a deadlock.
//! What is asserted must hold in each of the interleavings that are tried, some by chance and some by few preemptions at
//! chosen places. `scripts/interleavings.sh` runs them; `SEMEL_INTERLEAVINGS` says how many of each.
#![cfg(semel_shuttle)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semel::{
    Claim, Clock, Error, ErrorKind, Lease, Lock, Policy, Post, Renew, Request, Store, Ticket,
};
use shuttle::thread;

const LEASE: Duration = Duration::from_secs(30);
/// Longer than anybody waits, on a clock that stands still.
const LONG: Duration = Duration::from_secs(3600);

/// Plays so many interleavings of a scene.
fn play(scene: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("SEMEL_INTERLEAVINGS").ok();
    let times = times.map_or(500, |times| times.parse().expect("a number"));
    let scene = Arc::new(scene);
    let once = Arc::clone(&scene);
    shuttle::check_random(move || once(), times);
    for preemptions in 1..=3 {
        let once = Arc::clone(&scene);
        shuttle::check_pct(move || once(), times / 3, preemptions);
    }
}

fn store() -> (Store, Clock) {
    let clock = Clock::manual(Duration::from_secs(1_800_000_000));
    let store = Store::builder("memory:").clock(clock.clone());
    (store.sweep_by_hand().open().expect("opens"), clock)
}

/// A request that waits, and whose lease nobody renews. It has a payload, so that it is always decided under the key's lock.
fn request() -> Request<'static> {
    Request::new("pay", "1")
        .payload(&1)
        .expect("a payload")
        .in_doubt(Policy::Rerun)
        .lease(LEASE)
        .renew(Renew::Off)
        .wait(LONG)
}

fn ticket(claim: Claim) -> Ticket {
    match claim {
        Claim::Execute(ticket) => ticket,
        other => panic!("to be executed, but {other:?}"),
    }
}

/// An attempt whose lease is over, and one who claims its key meanwhile.
fn overtaken() -> (Store, Ticket, thread::JoinHandle<Claim>) {
    let (store, clock) = store();
    let first = ticket(store.claim(&request()).expect("claims"));
    clock.advance(LEASE);
    let claiming = store.clone();
    let taker = thread::spawn(move || claiming.claim(&request()).expect("claims"));
    (store, first, taker)
}

/// What is on the account that the scenes post to.
fn balance(store: &Store) -> i64 {
    store.ledger("wallet").balance("anna").expect("reads")
}

/// Polls a future once, with nobody to wake.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Does the same on so many threads, and waits for all.
fn threads(count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let running: Vec<_> = (0..count)
        .map(|at| {
            let work = Arc::clone(&work);
            thread::spawn(move || work(at))
        })
        .collect();
    for thread in running {
        thread.join().expect("no panic");
    }
}

#[test]
fn of_those_who_ask_at_once_one_runs_and_the_others_get_its_result() {
    play(|| {
        let (store, _) = store();
        let runs = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&runs);
        threads(3, move |_| match store.claim(&request()).expect("claims") {
            Claim::Execute(ticket) => {
                counted.fetch_add(1, SeqCst);
                ticket.complete(&7).expect("completes");
            }
            Claim::Replay(replay) => assert_eq!(replay.decode::<u32>().expect("a number"), 7),
            other => panic!("{other:?}"),
        });
        assert_eq!(runs.load(SeqCst), 1);
    });
}

/// Found two lost wake-ups that were put in for a try: a promotion (`Line::promote`) that did not call the waker it took, and a
/// waiter (`Waiting::poll`) that looked before it had left its waker.
#[test]
fn what_is_released_goes_from_one_who_waits_to_the_next() {
    play(|| {
        let (store, _) = store();
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&attempts);
        threads(3, move |_| {
            let ticket = ticket(store.claim(&request()).expect("claims"));
            let attempt = counted.fetch_add(1, SeqCst) + 1;
            assert_eq!(ticket.attempt(), attempt);
            match attempt {
                3 => ticket.complete(&1).expect("completes"),
                _ => ticket.release().expect("releases"),
            }
        });
        assert_eq!(attempts.load(SeqCst), 3);
    });
}

/// Found a turn that was put aside for a try: a waiter (`Waiting::drop`) that left without passing its turn on.
#[test]
fn who_goes_away_while_it_waits_takes_no_turn_along() {
    play(|| {
        let (store, _) = store();
        let held = ticket(store.claim(&request()).expect("claims"));
        let leaver = {
            let store = store.clone();
            thread::spawn(move || {
                let _ = poll_once(store.claim_async(&request()));
            })
        };
        let stayer = {
            let store = store.clone();
            thread::spawn(move || drop(ticket(store.claim(&request()).expect("claims"))))
        };
        held.release().expect("releases");
        leaver.join().expect("no panic");
        stayer.join().expect("no panic");
    });
}

#[test]
fn of_a_late_completion_and_a_takeover_one_counts() {
    play(|| {
        let (_store, first, taker) = overtaken();
        let completed = first.complete(&"first");
        match (completed, taker.join().expect("no panic")) {
            (Ok(()), Claim::Replay(replay)) => {
                assert_eq!(replay.decode::<String>().expect("text"), "first");
            }
            (Err(lost), Claim::Execute(next)) => {
                assert_eq!(lost.kind(), ErrorKind::Lost);
                assert!(next.fence() > first.fence());
            }
            (completed, claim) => panic!("both or neither: {completed:?}, {claim:?}"),
        }
    });
}

#[test]
fn a_transaction_that_completes_and_a_takeover_leave_all_or_nothing() {
    play(|| {
        let (store, first, taker) = overtaken();
        let committed = store.transaction(|tx| {
            let posted = tx.ledger("wallet").post("anna", "1", 10, None)?;
            assert_eq!(posted, Post::Posted(10));
            tx.complete(&first, &"first")
        });
        let balance = balance(&store);
        match (committed, taker.join().expect("no panic")) {
            (Ok(()), Claim::Replay(_)) => assert_eq!(balance, 10),
            (Err(lost), Claim::Execute(_)) => {
                assert_eq!((lost.kind(), balance), (ErrorKind::Lost, 0));
            }
            (committed, claim) => panic!("both or neither: {committed:?}, {claim:?}"),
        }
    });
}

/// Found a fault: a message was answered with a rejection although its last worker, whose lease was over, had handled it after all.
#[test]
fn a_message_is_rejected_or_handled_and_never_both() {
    play(|| {
        let (store, clock) = store();
        let worker = {
            let store = store.clone();
            thread::spawn(move || {
                let message = store.message("billing", "1").max_attempts(1).lease(LEASE);
                message.consume(|tx| {
                    clock.advance(LEASE * 2); // it was away for longer than its lease
                    tx.ledger("wallet").post("anna", "1", 10, None).map(drop)
                })
            })
        };
        let other = store.message("billing", "1").max_attempts(1).lease(LEASE);
        let other = other.consume(|tx| tx.ledger("wallet").post("anna", "1", 10, None).map(drop));
        let worker = worker.join().expect("no panic");
        let names = [worker, other].map(|end| match end {
            Ok(consumed) => consumed.name(),
            Err(error) => error.kind().name(),
        });
        let done = names.contains(&"done");
        let balance = balance(&store);
        assert_eq!(balance, if done { 10 } else { 0 }, "{names:?}");
        assert!(!(done && names.contains(&"rejected")), "{names:?}");
    });
}

/// Found a lost update that was put in for a try: a commit (`commit_locked`) that did not compare the version of its first key; and
/// a lost wake-up: a lane (`Lane::drop`) that was left without a word to those behind it.
#[test]
fn no_transaction_is_lost_and_none_waits_for_ever() {
    play(|| {
        let (store, _) = store();
        let moved = store.clone();
        threads(3, move |at| {
            // In either order, and each reads what the others write.
            let (one, two) = if at == 1 { ("b", "a") } else { ("a", "b") };
            let moved = moved.transaction(|tx| {
                // What it reads may be of different moments; what it returns is not.
                let from = tx.table("t").get::<i64>(one)?.map_or(0, |row| row.value);
                let to = tx.table("t").get::<i64>(two)?.map_or(0, |row| row.value);
                tx.table("t").put(one, &(from - 1))?;
                tx.table("t").put(two, &(to + 1))?;
                Ok::<_, Error>(from + to)
            });
            assert_eq!(moved.expect("commits"), 0, "a mixture");
        });
        let row = |id| {
            store
                .table("t")
                .get::<i64>(id)
                .expect("reads")
                .map(|row| row.value)
        };
        assert_eq!((row("a"), row("b")), (Some(-1), Some(1)));
    });
}

/// Found a fault: absence was compared key by key, and what goes away and comes back between two looks is absent at both.
#[test]
fn what_moves_between_two_rows_is_never_seen_in_neither() {
    play(|| {
        let (store, _) = store();
        store.table("t").put("a", &1).expect("puts");
        let mover = {
            let store = store.clone();
            thread::spawn(move || {
                for (from, to) in [("a", "b"), ("b", "a"), ("a", "b")] {
                    let moved = store.transaction(|tx| {
                        tx.table("t").delete(from)?;
                        tx.table("t").put(to, &1)
                    });
                    moved.expect("commits");
                }
            })
        };
        let seen = store.transaction(|tx| {
            let (b, a) = (tx.table("t").get::<u8>("b")?, tx.table("t").get::<u8>("a")?);
            Ok::<_, Error>((a.is_some(), b.is_some()))
        });
        let (a, b) = seen.expect("reads");
        assert!(a != b, "in {}", if a { "both" } else { "neither" });
        mover.join().expect("no panic");
    });
}

#[test]
fn rows_that_are_locked_in_either_order_and_written_past_the_lock_all_get_through() {
    play(|| {
        let (store, _) = store();
        let shared = store.clone();
        threads(3, move |at| {
            let add = |value: Option<i64>| value.unwrap_or(0) + 1;
            if at == 2 {
                shared
                    .table("t")
                    .timeout(LONG)
                    .modify("a", add)
                    .expect("modifies");
                return;
            }
            let ids = if at == 0 { ["a", "b"] } else { ["b", "a"] };
            let locked = shared.lock_rows("t", &ids).timeout(LONG).lock::<i64>();
            let mut rows = locked.expect("locks");
            let value = add(rows.get("a").expect("locked"));
            rows.set("a", value).expect("locked");
            rows.commit().expect("commits");
        });
        let row = store.table("t").get::<i64>("a").expect("reads");
        assert_eq!(row.map(|row| row.value), Some(3));
    });
}

#[test]
fn a_renewal_that_meets_the_release_leaves_no_lock_behind() {
    play(|| {
        let (store, clock) = store();
        let Lock::Held(guard) = store.lock("pay").lease(LEASE).acquire().expect("answers") else {
            panic!("it is free")
        };
        let passing = thread::spawn(move || clock.advance(LEASE / 3));
        guard.release().expect("held");
        passing.join().expect("no panic");
        store.close().expect("closes"); // with the thread that renews
        assert_eq!(store.len(), 0);
    });
}

/// Who came to wait for a lock that was let go of at that moment once left the cell of an absent key behind.
#[test]
fn locks_that_are_waited_for_and_given_up_leave_no_residue() {
    play(|| {
        let (store, _) = store();
        let shared = store.clone();
        threads(3, move |at| {
            let request = shared.lock("pay").renew(Renew::Off).wait(LONG);
            match poll_once(request.acquire_async()) {
                Poll::Ready(lock) if at > 0 => drop(lock.expect("answers")),
                Poll::Ready(lock) => match lock.expect("answers") {
                    Lock::Held(guard) => guard.release().expect("held"),
                    Lock::Busy(busy) => panic!("it waits, but {busy:?}"),
                },
                Poll::Pending => {} // given up
            }
        });
        store.close().expect("closes"); // with the timer's thread
        assert_eq!(store.len(), 0);
    });
}

#[test]
fn a_store_that_is_closed_ends_every_wait() {
    play(|| {
        let (store, _) = store();
        let held = store
            .claim(&request().lease(Lease::For(LEASE)))
            .expect("claims");
        let waiter = {
            let store = store.clone();
            thread::spawn(move || store.claim(&request()).map(|claim| claim.name()))
        };
        store.close().expect("closes");
        match waiter.join().expect("no panic") {
            Ok(name) => assert_eq!(name, "busy"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
        drop(held);
    });
}
