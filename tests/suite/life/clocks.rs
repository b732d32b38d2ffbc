//! Steps of the wall clock: no lease ends early by them, and none is kept from ending.

use semel::{Clock, Policy, Renew, Request, Store};

use super::fixture::{START, answer, answered, directory, eventually, execute, frozen, seconds};

const YEAR: u64 = 365 * 24 * 3600;

fn request(policy: Policy) -> Request<'static> {
    Request::new("pay", "P-1")
        .in_doubt(policy)
        .renew(Renew::Off)
        .lease(seconds(30))
}

#[test]
fn a_step_of_the_wall_ends_no_lease_and_keeps_none_from_ending() {
    for (policy, after) in [(Policy::Hold, "in_doubt"), (Policy::Rerun, "execute")] {
        let (store, clock) = frozen();
        let _ticket = execute(&store, &request(policy));
        for step in [
            START + seconds(YEAR),
            START - seconds(3600),
            START,
            seconds(0),
        ] {
            clock.step_wall(step);
            assert_eq!(answer(&store, &request(policy)), "busy", "{step:?}");
        }
        clock.advance(seconds(29));
        assert_eq!(answer(&store, &request(policy)), "busy");
        clock.advance(seconds(1));
        assert_eq!(answer(&store, &request(policy)), after);
    }
}

#[test]
fn a_result_is_kept_as_long_as_was_said_whatever_the_wall_shows() {
    let (store, clock) = frozen();
    let request = request(Policy::Hold).retain(seconds(60));
    execute(&store, &request)
        .complete("done")
        .expect("completes");
    clock.step_wall(START + seconds(YEAR));
    store.sweep().expect("sweeps");
    assert_eq!(answer(&store, &request), "replay");
    clock.step_wall(START - seconds(YEAR));
    clock.advance(seconds(60));
    assert_eq!(answer(&store, &request), "execute");
}

#[test]
fn fences_and_times_do_not_fall_when_the_store_is_opened_with_a_clock_an_hour_back() {
    let (_dir, path) = directory();
    let open = |since| {
        Store::builder(&path)
            .clock(Clock::manual(since))
            .sweep_by_hand()
            .open()
            .expect("opens")
    };
    let store = open(START);
    let first = execute(&store, &request(Policy::Rerun));
    let fence = first.fence();
    first.release().expect("releases");
    store
        .forget(&(&request(Policy::Rerun)).into())
        .expect("forgets");
    store.close().expect("closes");
    drop(store);
    let store = open(START - seconds(3600));
    let second = execute(&store, &request(Policy::Rerun));
    assert!(second.fence() > fence, "{} and {fence}", second.fence());
    assert!(second.first_executed_us() >= START.as_micros() as u64);
}

#[test]
fn a_lease_ends_over_a_restart_though_the_clock_went_back() {
    let (_dir, path) = directory();
    let store = Store::builder(&path)
        .clock(Clock::manual(START))
        .open()
        .expect("opens");
    std::mem::forget(execute(&store, &request(Policy::Rerun)));
    store.close().expect("closes");
    drop(store);
    let clock = Clock::manual(START - seconds(3600));
    let store = Store::builder(&path)
        .clock(clock.clone())
        .open()
        .expect("reopens");
    let busy = answered!(Busy, store.claim(&request(Policy::Rerun)).expect("claims"));
    assert!(busy.lease_remaining.expect("an end") <= seconds(30));
    clock.advance(seconds(30));
    assert_eq!(answer(&store, &request(Policy::Rerun)), "execute");
}

#[test]
fn waiting_and_renewing_go_by_store_time() {
    let (store, clock) = frozen();
    let renewed = Request::new("pay", "P-2").lease(seconds(30));
    let _ticket = execute(&store, &renewed);
    let until = || {
        let info = store
            .lookup(&(&renewed).into())
            .expect("looks up")
            .expect("a record");
        info.lease_until_us.expect("an end")
    };
    let first = until();
    clock.step_wall(START + seconds(YEAR));
    assert_eq!(until(), first);
    clock.advance(seconds(10));
    eventually("a renewal at a third", || until() == first + 10_000_000);
}
