//! The watchdog: a lease lives as long as its ticket, and a holder hears of its loss as soon as it can be known.

use std::sync::mpsc;
use std::time::Duration;

use semel::{Claim, Clock, ErrorKind, Lease, Policy, Renew, Request, Store};

use super::fixture::{LONG, answer, answered, eventually, execute, frozen, memory, seconds};

fn until(store: &Store, request: &Request<'_>) -> Option<u64> {
    let info = store
        .lookup(&request.into())
        .expect("looks up")
        .expect("a record");
    info.lease_until_us
}

/// Lets a lease of 30 s be renewed, a third at a time.
fn third(store: &Store, clock: &Clock, request: &Request<'_>) {
    let before = until(store, request);
    clock.advance(seconds(10));
    eventually("a renewal", || until(store, request) > before);
}

#[test]
fn a_lease_is_renewed_at_a_third_as_long_as_the_ticket_lives() {
    let (store, clock) = frozen();
    let request = Request::new("pay", "P-1").lease(seconds(30));
    let ticket = execute(&store, &request);
    for _ in 0..10 {
        third(&store, &clock, &request);
    }
    assert_eq!(answer(&store, &request), "busy");
    let twin = ticket.clone();
    drop(ticket);
    third(&store, &clock, &request);
    drop(twin);
    assert_eq!(answer(&store, &request), "in_doubt");
}

#[test]
fn a_short_lease_outlives_itself_in_real_time() {
    let store = memory();
    let request = Request::new("pay", "P-1").lease(Duration::from_millis(150));
    let ticket = execute(&store, &request);
    let first = until(&store, &request);
    eventually("three renewals", || {
        until(&store, &request) > first.map(|us| us + 250_000)
    });
    ticket.complete("done").expect("completes");
    assert_eq!(store.stats().totals().lost_leases, 0);
}

#[test]
fn renewal_can_be_off_and_done_by_hand() {
    let (store, clock) = frozen();
    let request = Request::new("pay", "P-1")
        .lease(seconds(30))
        .renew(Renew::Off);
    let ticket = execute(&store, &request);
    let watched = Request::new("pay", "P-2").lease(seconds(30));
    let _other = execute(&store, &watched);
    let first = until(&store, &request);
    third(&store, &clock, &watched);
    assert_eq!(until(&store, &request), first);
    ticket.renew().expect("renews");
    assert_eq!(until(&store, &request), first.map(|us| us + 10_000_000));
    clock.advance(seconds(30));
    assert_eq!(answer(&store, &request), "in_doubt");
    ticket.renew().expect("it was not replaced");
    assert_eq!(answer(&store, &request), "busy");
    assert_eq!(
        until(&store, &Request::new("pay", "P-2")).map(|us| us > 0),
        Some(true)
    );
}

#[test]
fn a_holder_that_was_replaced_is_told_once_by_signal_and_by_call() {
    let (store, clock) = frozen();
    let (tell, told) = mpsc::channel();
    let request = Request::new("pay", "P-1")
        .in_doubt(Policy::Rerun)
        .lease(seconds(30))
        .renew(Renew::Off);
    let ticket = execute(
        &store,
        &request
            .clone()
            .on_lost(move |why| tell.send(why.to_owned()).expect("sends")),
    );
    clock.advance(seconds(30));
    let second = execute(&store, &request);
    assert!(!ticket.lost(), "it has not asked");
    assert_eq!(ticket.renew().expect_err("lost").kind(), ErrorKind::Lost);
    assert!(ticket.lost());
    assert!(told.recv_timeout(LONG).expect("a call").contains("another"));
    for error in [ticket.renew(), ticket.release(), ticket.complete("late")] {
        assert_eq!(error.expect_err("lost").kind(), ErrorKind::Lost);
    }
    drop(ticket);
    assert!(
        told.recv_timeout(LONG).is_err(),
        "once, and then the sender is gone"
    );
    assert_eq!(store.stats().totals().lost_leases, 1);
    second.complete("done").expect("completes");
}

#[test]
fn the_watchdog_tells_a_holder_whose_operation_was_ended() {
    let (store, clock) = frozen();
    let (tell, told) = mpsc::channel();
    let request = Request::new("pay", "P-1").lease(seconds(30));
    let ticket = execute(
        &store,
        &request
            .clone()
            .on_lost(move |why| tell.send(why.to_owned()).expect("sends")),
    );
    // Somebody resolves a lease that has lapsed before the watchdog looks; if it is too late, it lapses once more.
    eventually("the end of the lease", || {
        clock.advance(seconds(31));
        store
            .resolve(&(&request).into(), semel::Resolution::Executed)
            .expect("answers")
            == semel::Resolved::Resolved
    });
    clock.advance(seconds(31));
    assert!(
        told.recv_timeout(LONG)
            .expect("a call")
            .contains("ended the operation")
    );
    assert!(ticket.lost());
    assert_eq!(answer(&store, &request), "gone");
    assert_eq!(
        ticket.complete("late").expect_err("lost").kind(),
        ErrorKind::Lost
    );
    assert_eq!(store.stats().totals().possible_double_effects, 1);
}

#[test]
fn a_leaked_ticket_is_renewed_up_to_its_limit_and_told() {
    let (store, clock) = frozen();
    let (tell, told) = mpsc::channel();
    let request = Request::new("pay", "P-1")
        .lease(seconds(30))
        .renew_limit(seconds(60));
    let ticket = execute(
        &store,
        &request
            .clone()
            .on_lost(move |why| tell.send(why.to_owned()).expect("sends")),
    );
    for _ in 0..5 {
        third(&store, &clock, &request);
    }
    let last = until(&store, &request);
    clock.advance(seconds(29));
    assert_eq!(answer(&store, &request), "busy");
    assert!(told.try_recv().is_err());
    clock.advance(seconds(1));
    assert!(told.recv_timeout(LONG).expect("a call").contains("limit"));
    assert!(ticket.lost());
    assert_eq!(answer(&store, &request), "in_doubt");
    assert_eq!(until(&store, &request), last);
    assert_eq!(semel::DEFAULT_RENEW_LIMIT, seconds(24 * 3600));
}

#[test]
fn the_end_of_a_ticket_is_not_its_loss() {
    let store = memory();
    for n in 0..300 {
        let id = n.to_string();
        let request = Request::new("pay", id.as_str())
            .lease(Duration::from_micros(50))
            .on_lost(|why| panic!("{why}"));
        let ticket = execute(&store, &request);
        let twin = ticket.clone();
        let ended = std::thread::scope(|scope| {
            let other = scope.spawn(move || twin.complete("a"));
            let here = ticket.release();
            [other.join().expect("no panic").is_ok(), here.is_ok()]
        });
        assert_eq!(
            ended.iter().filter(|ended| **ended).count(),
            1,
            "one of two ends it"
        );
    }
    assert_eq!(store.stats().totals().lost_leases, 0);
}

#[test]
fn a_holder_is_told_when_its_store_is_closed() {
    let store = memory();
    let (tell, told) = mpsc::channel();
    let request =
        Request::new("pay", "P-1").on_lost(move |why| tell.send(why.to_owned()).expect("sends"));
    let ticket = execute(&store, &request);
    store.close().expect("closes");
    assert!(told.recv_timeout(LONG).expect("a call").contains("closed"));
    assert!(ticket.lost());
    assert_eq!(
        ticket.complete("late").expect_err("closed").kind(),
        ErrorKind::Closed
    );
}

#[test]
fn a_lease_without_end_is_neither_renewed_nor_stolen() {
    let (store, clock) = frozen();
    let request = Request::new("pay", "P-1").lease(Lease::Never);
    let ticket = execute(&store, &request);
    clock.advance(seconds(1_000 * 24 * 3600));
    let busy = answered!(Busy, store.claim(&request).expect("claims"));
    assert_eq!(busy.lease_remaining, None);
    ticket.renew().expect("nothing to renew");
    assert_eq!(until(&store, &request), None);
    drop(ticket);
    let Claim::InDoubt(_) = store.claim(&request).expect("claims") else {
        panic!("dropped")
    };
}
