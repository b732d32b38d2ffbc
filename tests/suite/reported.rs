//! Faults that other systems have shipped and that no other file holds, each as a test. `tests/CASES.md` says which are held where.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use semel::{
    Claim, Clock, ErrorKind, Insert, Lock, LockGuard, Policy, Redeem, Refusal, Renew, Request,
    Store, Ticket,
};

use super::schemes::{Place, SECOND, START_S, TICK, on_each, threads};

const LEASE: Duration = Duration::from_secs(30);

fn ticket(claim: Claim) -> Ticket {
    match claim {
        Claim::Execute(ticket) => ticket,
        other => panic!("to be executed, but {other:?}"),
    }
}

fn held(lock: Lock) -> LockGuard {
    match lock {
        Lock::Held(guard) => guard,
        Lock::Busy(busy) => panic!("to be held, but {busy:?}"),
    }
}

/// A request whose lease ends when it is over.
fn rerun(id: &str) -> Request<'_> {
    Request::new("pay", id)
        .in_doubt(Policy::Rerun)
        .renew(Renew::Off)
        .lease(LEASE)
        .retain(SECOND)
}

#[test]
fn of_many_who_find_a_lease_over_one_takes_it_over() {
    on_each(|place| {
        let store = place.open();
        for round in 0..20 {
            let id = round.to_string();
            let dead = ticket(store.claim(&rerun(&id)).expect("claims"));
            place.clock.advance(LEASE);
            let claims = threads(16, |_| store.claim(&rerun(&id)).expect("claims"));
            let names: Vec<&str> = claims.iter().map(Claim::name).collect();
            let ran = names.iter().filter(|name| **name == "execute").count();
            let busy = names.iter().filter(|name| **name == "busy").count();
            assert_eq!((ran, busy), (1, 15), "{names:?}");
            for claim in claims {
                if let Claim::Execute(next) = claim {
                    assert!(next.fence() > dead.fence() && next.attempt() == 2);
                    next.complete(&1).expect("completes");
                }
            }
            assert_eq!(kind(dead.complete(&2)), ErrorKind::Lost);
        }
    });
}

fn kind(result: semel::Result<()>) -> ErrorKind {
    result.expect_err("an error").kind()
}

#[test]
fn of_a_late_completion_and_a_takeover_at_once_one_counts() {
    let place = Place::memory();
    let store = place.open();
    let (mut replays, mut takeovers) = (0, 0);
    for round in 0..2_000 {
        let id = round.to_string();
        let first = ticket(store.claim(&rerun(&id)).expect("claims"));
        place.clock.advance(LEASE);
        let mut ends = threads(2, |thread| match thread {
            0 => Ok(first.complete(&"first")),
            _ => Err(store.claim(&rerun(&id)).expect("claims")),
        });
        let (Some(Err(claim)), Some(Ok(completed))) = (ends.pop(), ends.pop()) else {
            panic!("two threads have two ends")
        };
        match (completed, claim) {
            (Ok(()), Claim::Replay(replay)) => {
                assert_eq!(replay.decode::<String>().expect("text"), "first");
                replays += 1;
            }
            (Err(lost), Claim::Execute(next)) => {
                assert!(lost.kind() == ErrorKind::Lost && next.fence() > first.fence());
                next.complete(&"second").expect("completes");
                takeovers += 1;
            }
            (completed, claim) => panic!("both or neither: {completed:?}, {claim:?}"),
        }
    }
    assert_eq!(replays + takeovers, 2_000);
}

#[test]
fn of_many_who_find_a_record_expired_one_runs() {
    on_each(|place| {
        let store = place.builder().sweep_by_hand().open().expect("opens");
        for round in 0..20 {
            let first = ticket(store.claim(&rerun("1")).expect("claims"));
            first.complete(&round).expect("completes");
            place.clock.advance(SECOND);
            let claims = threads(16, |_| store.claim(&rerun("1")).expect("claims"));
            let ran: Vec<&Claim> = claims.iter().filter(|c| c.name() == "execute").collect();
            assert_eq!(ran.len(), 1, "round {round}");
            for claim in claims {
                if let Claim::Execute(ticket) = claim {
                    ticket.complete(&round).expect("completes");
                }
            }
            place.clock.advance(SECOND);
        }
    });
}

#[test]
fn a_callback_that_panics_stops_no_renewal_of_others() {
    let place = Place::memory();
    let store = place.open();
    let (tell, told) = mpsc::channel();
    let bad = store.lock("bad").renew_limit(SECOND).on_lost(move |_| {
        tell.send(()).expect("heard");
        std::panic::resume_unwind(Box::new("in the callback"));
    });
    let bad = held(bad.acquire().expect("answers"));
    let good = held(store.lock("good").acquire().expect("answers"));
    // The bad one is lost on the way; the good one is renewed before and after.
    for round in 0..9 {
        place.clock.advance(LEASE / 3 + TICK);
        loop {
            let Lock::Busy(busy) = store.lock("good").acquire().expect("answers") else {
                panic!("it was lost in round {round}")
            };
            if busy.lease_remaining == Some(LEASE) {
                break;
            }
            std::thread::yield_now();
        }
    }
    told.recv_timeout(Duration::from_secs(60)).expect("is told");
    assert!(bad.lost() && !good.lost());
    good.release().expect("still held");
}

#[test]
fn a_waiting_thread_that_somebody_else_wakes_does_not_hold_the_lock() {
    let store = Place::memory().open_live();
    let guard = held(store.lock("pay").acquire().expect("answers"));
    let (has, released) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let waited = store.lock("pay").wait(Duration::from_secs(60)).acquire();
            has.store(true, SeqCst);
            assert!(released.load(SeqCst), "it was let in too early");
            drop(held(waited.expect("answers")));
        });
        for _ in 0..50 {
            waiter.thread().unpark();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!has.load(SeqCst));
        released.store(true, SeqCst);
        guard.release().expect("held");
    });
    assert!(has.load(SeqCst));
}

#[test]
fn a_lease_begins_when_the_lock_is_had_and_not_when_it_was_asked_for() {
    let place = Place::memory();
    let store = place.open();
    let guard = held(store.lock("pay").lease(LEASE * 10).acquire().expect("held"));
    let asks = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            asks.fetch_add(1, SeqCst);
            let request = store.lock("pay").renew(Renew::Off).lease(LEASE);
            let guard = held(request.wait(LEASE * 9).acquire().expect("answers"));
            let Lock::Busy(busy) = std::thread::scope(|scope| {
                let other = scope.spawn(|| store.lock("pay").acquire());
                other.join().expect("no panic").expect("answers")
            }) else {
                panic!("it is held")
            };
            drop(guard);
            busy.lease_remaining
        });
        while asks.load(SeqCst) == 0 {}
        std::thread::sleep(Duration::from_millis(20)); // it stands in line
        place.clock.advance(LEASE * 2);
        guard.release().expect("held");
        assert_eq!(waiter.join().expect("no panic"), Some(LEASE));
    });
}

#[test]
fn letting_go_of_what_was_lost_hides_no_error_of_the_work() {
    let place = Place::memory();
    let store = place.open();
    let guard = held(store.lock("pay").renew(Renew::Off).acquire().expect("held"));
    let works = std::panic::AssertUnwindSafe(|| {
        let _guard = guard;
        place.clock.advance(LEASE);
        let next = held(store.lock("pay").acquire().expect("answers"));
        drop(next);
        std::panic::resume_unwind(Box::new("the work's own"));
    });
    let panic = std::panic::catch_unwind(works).expect_err("panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the work's own"));
}

#[test]
fn one_name_is_another_thing_in_every_scheme() {
    on_each(|place| {
        let store = place.open();
        let x = "x";
        let claim = ticket(store.claim(&Request::new(x, x)).expect("claims"));
        let lock = held(store.lock(x).acquire().expect("free"));
        let inserted = store.unique(x).insert(x, &1).expect("inserts");
        assert_eq!(inserted, Insert::Inserted);
        store.table(x).put(x, &2).expect("puts");
        let machine = store.machine(x, &[(x, &["y"])], x).expect("a machine");
        assert_eq!(machine.create(x).expect("creates"), None);
        store.ledger(x).post(x, x, 3, None).expect("posts");
        let consumed = store.consume(x, x, |tx| tx.mark(x, x)).expect("consumes");
        assert_eq!(consumed.name(), "done");
        store.transaction(|tx| tx.emit(x, x, &4)).expect("emits");
        assert!(store.tick(x, SECOND).expect("ticks"));
        assert_eq!(store.ids().segment(x).expect("a number"), 1);
        let rows = store.lock_rows(x, &[x]).lock::<i32>().expect("locks");
        assert_eq!(rows.get(x).expect("locked"), Some(2));
        drop(rows);
        // Each is what it was, and a name of one is no token of another.
        let redeemed = store.tokens().redeem(x, x).expect("answers");
        assert_eq!(redeemed, Redeem::Refused(Refusal::Unknown));
        claim.complete(&5).expect("completes");
        lock.release().expect("held");
        assert_eq!(store.unique(x).get(x).expect("reads"), Some(1));
        assert_eq!(machine.state(x).expect("reads").as_deref(), Some(x));
        assert_eq!(store.ledger(x).balance(x).expect("reads"), 3);
        assert_eq!(store.outbox(x).len().expect("counts"), 1);
    });
}

#[test]
fn two_stores_of_one_process_know_nothing_of_each_other() {
    let (one, two) = (Place::directory(), Place::directory());
    let (one, two) = (one.open(), two.open());
    let request = Request::new("pay", "1");
    let held_in_one = held(one.lock("pay").acquire().expect("free"));
    let first = ticket(one.claim(&request).expect("claims"));
    first.complete(&"one").expect("completes");
    assert_eq!(two.claim(&request).expect("claims").name(), "execute");
    drop(held(two.lock("pay").acquire().expect("free there")));
    two.close().expect("closes");
    assert!(!held_in_one.lost());
    assert_eq!(one.claim(&request).expect("claims").name(), "replay");
}

#[test]
fn operations_of_one_store_go_by_their_own_options() {
    let clock = Clock::manual(Duration::from_secs(START_S));
    let store = Store::builder("memory:").clock(clock.clone()).open();
    let store = store.expect("opens");
    let short = Request::new("short", "1")
        .in_doubt(Policy::Rerun)
        .retain(SECOND)
        .lease(SECOND)
        .renew(Renew::Off);
    let long = Request::new("long", "1").retain(SECOND * 10).lease(LEASE);
    let tickets = [&short, &long].map(|request| ticket(store.claim(request).expect("claims")));
    clock.advance(SECOND);
    assert_eq!(store.claim(&long).expect("claims").name(), "busy");
    let again = ticket(store.claim(&short).expect("claims"));
    assert_eq!(again.attempt(), 2);
    again.complete(&1).expect("completes");
    tickets[1].complete(&1).expect("completes");
    clock.advance(SECOND);
    assert_eq!(store.claim(&short).expect("claims").name(), "execute");
    assert_eq!(store.claim(&long).expect("claims").name(), "replay");
}
