//! Under ask, the caller's `confirm` finds out whether an attempt of unknown effect took effect.

use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Confirmation, Doubt, Policy, Renew, Request, Store, Value};

use super::fixture::{
    answer, answered, at, block_on, directory, execute, frozen, memory, replayed, seconds,
};

fn asked<'a>(confirm: impl Fn(&semel::Info) -> Confirmation + Send + Sync + 'a) -> Request<'a> {
    plain().confirm(confirm)
}

fn plain<'a>() -> Request<'a> {
    Request::new("pay", "P-1")
        .in_doubt(Policy::Ask)
        .renew(Renew::Off)
}

#[test]
fn done_is_replayed_from_then_on() {
    let store = memory();
    drop(execute(&store, &plain()));
    let request = asked(|_| Confirmation::Done(Value::of("paid").expect("a value")));
    assert_eq!(replayed(store.claim(&request).expect("claims")), "paid");
    assert_eq!(replayed(store.claim(&plain()).expect("claims")), "paid");
}

#[test]
fn not_done_runs_it_once_more_on_the_terms_of_who_was_asked() {
    let (store, clock) = frozen();
    drop(execute(&store, &plain().lease(seconds(1))));
    let request = asked(|_| Confirmation::NotDone)
        .lease(seconds(100))
        .holder("second");
    let ticket = execute(&store, &request);
    assert_eq!((ticket.attempt(), ticket.is_takeover()), (2, false));
    clock.advance(seconds(99));
    let busy = answered!(Busy, store.claim(&plain()).expect("claims"));
    assert_eq!((busy.attempt, busy.holder.as_deref()), (2, Some("second")));
    ticket.complete("paid").expect("completes");
    assert_eq!(store.stats().totals().possible_double_effects, 0);
}

#[test]
fn still_and_a_panic_leave_it_in_doubt_and_the_next_is_asked_again() {
    let store = memory();
    drop(execute(&store, &plain()));
    let times = AtomicU32::new(0);
    let request = asked(|_| match times.fetch_add(1, Ordering::Relaxed) {
        0 => Confirmation::Still,
        1 => panic!("the bank does not answer"),
        _ => Confirmation::Done(Value::of("paid").expect("a value")),
    });
    for _ in 0..2 {
        let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
        assert_eq!(doubt.doubt, Doubt::Dropped);
        assert_eq!(store.stats().unresolved, 1);
    }
    assert_eq!(replayed(store.claim(&request).expect("claims")), "paid");
    let counted = store.stats().totals();
    assert_eq!(
        (counted.claims, counted.in_doubt, counted.replayed),
        (4, 2, 1)
    );
}

#[test]
fn who_is_asked_sees_the_record_and_why_it_is_in_doubt() {
    let (store, clock) = frozen();
    let ticket = execute(&store, &plain().lease(seconds(30)).holder("first"));
    clock.advance(seconds(40));
    let request = asked(|info| {
        assert_eq!(
            (info.operation.as_str(), info.id.as_str(), info.attempt),
            ("pay", "P-1", 1)
        );
        assert_eq!((info.state, info.fence), ("confirming", ticket.fence()));
        assert_eq!(info.holder.as_deref(), Some("first"));
        assert_eq!(info.doubt, Some((at(seconds(30)), Doubt::LeaseEnded)));
        Confirmation::Still
    });
    assert_eq!(answer(&store, &request), "in_doubt");
}

#[test]
fn others_are_busy_while_one_is_asked_and_nothing_is_locked() {
    let store = memory();
    drop(execute(&store, &plain()));
    let other = Request::new("pay", "another");
    let request = asked(|_| {
        assert_eq!(answer(&store, &plain()), "busy");
        let second = asked(|_| panic!("one is asked at a time"));
        assert_eq!(answer(&store, &second), "busy");
        // The store works on, also for this key.
        execute(&store, &other).complete("done").expect("completes");
        let seen = store
            .lookup(&(&plain()).into())
            .expect("looks up")
            .expect("a record");
        assert_eq!(seen.state, "confirming");
        assert_eq!(
            store.forget(&(&plain()).into()).expect("forgets"),
            semel::Forgotten::Busy
        );
        Confirmation::NotDone
    });
    assert_eq!(execute(&store, &request).attempt(), 2);
}

#[test]
fn a_holder_that_completes_meanwhile_wins() {
    let (store, clock) = frozen();
    let ticket = execute(&store, &plain().lease(seconds(30)));
    clock.advance(seconds(30));
    let request = asked(|_| {
        ticket.complete("the holder's").expect("completes");
        Confirmation::Done(Value::of("the asker's").expect("a value"))
    });
    assert_eq!(
        replayed(store.claim(&request).expect("claims")),
        "the holder's"
    );
}

#[test]
fn an_asker_who_takes_too_long_is_overtaken() {
    let (store, clock) = frozen();
    drop(execute(&store, &plain()));
    let late = asked(|_| {
        clock.advance(seconds(30));
        let second = asked(|_| Confirmation::Done(Value::of("second").expect("a value")));
        assert_eq!(replayed(store.claim(&second).expect("claims")), "second");
        Confirmation::NotDone
    });
    assert_eq!(replayed(store.claim(&late).expect("claims")), "second");
}

#[test]
fn a_caller_that_is_always_overtaken_ends_with_in_doubt_and_blocks_nobody() {
    let (store, clock) = frozen();
    drop(execute(&store, &plain()));
    let times = AtomicU32::new(0);
    let request = asked(|_| {
        times.fetch_add(1, Ordering::Relaxed);
        clock.advance(seconds(30));
        assert_eq!(answer(&store, &asked(|_| Confirmation::Still)), "in_doubt");
        Confirmation::NotDone
    });
    assert_eq!(answer(&store, &request), "in_doubt");
    assert!((1..=16).contains(&times.load(Ordering::Relaxed)));
    let last = asked(|_| Confirmation::NotDone);
    assert_eq!(execute(&store, &last).attempt(), 2);
}

#[test]
fn used_up_attempts_are_asked_about_and_fail_when_nothing_was_done() {
    let store = memory();
    let once = || plain().max_attempts(1);
    drop(execute(&store, &once()));
    let request = asked(|_| Confirmation::NotDone).max_attempts(1);
    for _ in 0..2 {
        let failed = answered!(Failed, store.claim(&request).expect("claims"));
        assert_eq!(failed.failure.code, semel::ATTEMPTS_EXHAUSTED);
    }
}

#[test]
fn a_result_that_is_too_long_is_confirmed_without_it() {
    let store = Store::builder("memory:")
        .max_result_bytes(10)
        .open()
        .expect("opens");
    drop(execute(&store, &plain()));
    let request = asked(|_| Confirmation::Done(Value::bytes(vec![0; 11])));
    assert_eq!(answer(&store, &request), "gone");
    assert_eq!(store.stats().totals().results_not_kept, 1);
}

#[test]
fn an_asker_who_goes_away_leaves_the_question_to_the_next() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    for polls in 1..50 {
        let id = format!("P-{polls}");
        let request = Request::new("pay", id.as_str())
            .in_doubt(Policy::Ask)
            .confirm(|_| Confirmation::NotDone);
        drop(execute(&store, &request));
        let cancelled = super::fixture::polled(store.claim_async(&request), polls);
        let next = block_on(store.claim_async(&request)).expect("claims");
        if let Some(claim) = cancelled {
            assert_eq!(
                (claim.expect("claims").name(), next.name()),
                ("execute", "busy")
            );
            return;
        }
        assert_eq!(
            super::fixture::ticket(next).attempt(),
            2,
            "after {polls} polls"
        );
    }
    panic!("the claim never ended");
}
