//! Waiting for a key: first come first served, one at a time after a release, all at once when there is an answer.

use std::pin::Pin;
use std::time::Duration;

use semel::{Claim, Policy, Renew, Request, Store};

use super::fixture::{
    LONG, answered, block_on, execute, frozen, memory, poll_once, replayed, seconds, ticket,
};

type Waiting<'a> = Pin<Box<dyn Future<Output = semel::Result<Claim>> + 'a>>;

fn request(policy: Policy) -> Request<'static> {
    Request::new("pay", "P-1")
        .in_doubt(policy)
        .renew(Renew::Off)
}

/// Claims that stand in line, in this order.
fn line<'a>(store: &'a Store, request: &'a Request<'a>, length: usize) -> Vec<Waiting<'a>> {
    (0..length)
        .map(|_| {
            let mut waiting: Waiting<'a> = Box::pin(store.claim_async(request));
            assert!(poll_once(&mut waiting).is_none(), "it has to wait");
            waiting
        })
        .collect()
}

fn nobody_moves(line: &mut [Waiting<'_>]) {
    for waiting in line {
        assert!(poll_once(waiting).is_none(), "out of turn");
    }
}

#[test]
fn who_came_first_runs_first_and_nobody_else_is_woken() {
    let store = memory();
    let request = request(Policy::Hold).wait(LONG);
    let mut holder = execute(&store, &request);
    let mut line = line(&store, &request, 4);
    while !line.is_empty() {
        nobody_moves(&mut line);
        holder.release().expect("releases");
        nobody_moves(&mut line[1..]);
        holder = ticket(block_on(line.remove(0)).expect("claims"));
    }
    assert_eq!(holder.attempt(), 5);
    holder.complete("done").expect("completes");
}

#[test]
fn a_completion_is_an_answer_for_everybody() {
    for end in ["complete", "fail", "doubt"] {
        let store = memory();
        let request = request(Policy::Hold).wait(LONG);
        let holder = execute(&store, &request);
        let line = line(&store, &request, 3);
        let expected = match end {
            "complete" => {
                holder.complete("done").expect("completes");
                "replay"
            }
            "fail" => {
                holder.fail(semel::Failure::new("no", "")).expect("fails");
                "failed"
            }
            _ => {
                drop(holder);
                "in_doubt"
            }
        };
        for waiting in line {
            assert_eq!(block_on(waiting).expect("claims").name(), expected);
        }
    }
}

#[test]
fn a_waiter_who_goes_away_holds_nobody_up() {
    let store = memory();
    let request = request(Policy::Hold).wait(LONG);
    let holder = execute(&store, &request);
    let mut line = line(&store, &request, 3);
    drop(line.remove(0)); // before it was its turn
    holder.release().expect("releases");
    drop(line.remove(0)); // after it was told, before it looked
    let last = ticket(poll_once(&mut line[0]).expect("its turn").expect("claims"));
    last.complete("done").expect("completes");
    drop(line);
    store.forget(&(&request).into()).expect("forgets");
    assert!(store.is_empty(), "nothing is left behind");
}

#[test]
fn the_first_in_line_has_the_turn_for_a_tenth_of_a_second() {
    let (store, clock) = frozen();
    let patient = request(Policy::Hold).wait(seconds(10));
    let hasty = request(Policy::Hold);
    let holder = execute(&store, &patient);
    let mut line = line(&store, &patient, 2);
    holder.release().expect("releases");
    let busy = answered!(Busy, store.claim(&hasty).expect("claims"));
    assert_eq!(busy.retry_after, Duration::from_millis(100));
    clock.advance(Duration::from_millis(99));
    assert_eq!(store.claim(&hasty).expect("claims").name(), "busy");
    // The first does not come; the turn passes on by itself.
    let mut second = line.remove(1);
    assert!(poll_once(&mut second).is_none());
    clock.advance(Duration::from_millis(1));
    let second = ticket(block_on(second).expect("claims"));
    assert!(poll_once(&mut line[0]).is_none(), "it waits again");
    second.release().expect("releases");
    ticket(block_on(line.remove(0)).expect("claims"))
        .complete("done")
        .expect("completes");
}

#[test]
fn nobody_slips_in_before_those_who_wait_when_the_key_is_forgotten() {
    let store = memory();
    let request = request(Policy::Hold).wait(LONG).lease(semel::Lease::Never);
    let holder = execute(&store, &request);
    let mut line = line(&store, &request, 1);
    store.forget(&(&request).into()).expect("forgets");
    let busy = answered!(
        Busy,
        store.claim(&self::request(Policy::Hold)).expect("claims")
    );
    assert_eq!(
        (busy.attempt, busy.lease_remaining),
        (0, Some(Duration::ZERO))
    );
    assert!(busy.to_string().contains("turn"), "{busy}");
    let next = ticket(poll_once(&mut line[0]).expect("its turn").expect("claims"));
    assert_eq!(next.attempt(), 1);
    assert_eq!(
        holder.complete("late").expect_err("lost").kind(),
        semel::ErrorKind::Lost
    );
    next.complete("done").expect("completes");
}

#[test]
fn waiting_ends_when_its_time_is_over() {
    let (store, clock) = frozen();
    let request = request(Policy::Hold).lease(seconds(60)).wait(seconds(5));
    let _holder = execute(&store, &request);
    let mut line = line(&store, &request, 1);
    clock.advance(seconds(5) - Duration::from_micros(1));
    nobody_moves(&mut line);
    clock.advance(Duration::from_micros(1));
    let busy = answered!(Busy, block_on(line.remove(0)).expect("claims"));
    assert_eq!(busy.lease_remaining, Some(seconds(55)));
}

#[test]
fn waiting_ends_at_the_end_of_the_lease_as_the_policy_says() {
    for policy in [Policy::Hold, Policy::Rerun, Policy::Ask] {
        let (store, clock) = frozen();
        let request = request(policy).lease(seconds(30)).wait(seconds(3600));
        let _holder = execute(&store, &request);
        let mut line = line(&store, &request, 3);
        clock.advance(seconds(30));
        let first = block_on(line.remove(0)).expect("claims");
        if policy == Policy::Rerun {
            let taken = ticket(first);
            assert!(taken.is_takeover());
            nobody_moves(&mut line);
            taken.complete("done").expect("completes");
            for waiting in line {
                assert_eq!(replayed(block_on(waiting).expect("claims")), "done");
            }
        } else {
            assert_eq!(first.name(), "in_doubt");
            for waiting in line {
                assert_eq!(block_on(waiting).expect("claims").name(), "in_doubt");
            }
        }
    }
}

#[test]
fn a_lease_that_is_renewed_is_waited_for_to_its_new_end() {
    let (store, clock) = frozen();
    let request = request(Policy::Rerun)
        .lease(seconds(30))
        .wait(seconds(3600));
    let holder = execute(&store, &request);
    let mut line = line(&store, &request, 1);
    for _ in 0..3 {
        clock.advance(seconds(29));
        holder.renew().expect("renews");
        nobody_moves(&mut line);
    }
    clock.advance(seconds(30));
    assert!(ticket(block_on(line.remove(0)).expect("claims")).is_takeover());
}

#[test]
fn the_end_of_the_last_attempt_answers_everybody() {
    let store = memory();
    let request = request(Policy::Hold).max_attempts(1).wait(LONG);
    let holder = execute(&store, &request);
    let line = line(&store, &request, 2);
    holder.release().expect("releases");
    for waiting in line {
        assert_eq!(block_on(waiting).expect("claims").name(), "failed");
    }
}

#[test]
fn a_resolution_lets_one_run_or_answers_all() {
    let (store, clock) = frozen();
    let request = request(Policy::Ask).lease(seconds(30)).wait(LONG);
    let asked = request.clone().confirm(|_| semel::Confirmation::Still);
    let holder = execute(&store, &request);
    clock.advance(seconds(30));
    assert_eq!(store.claim(&asked).expect("claims").name(), "in_doubt");
    holder.complete("late").expect("it was not replaced");
    assert_eq!(replayed(store.claim(&request).expect("claims")), "late");
}

#[test]
fn threads_wait_and_are_served_too() {
    let store = memory();
    let request = request(Policy::Hold).wait(LONG);
    let first = execute(&store, &request);
    let ran = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let got = store.claim(&request).expect("claims");
                if let Claim::Execute(ticket) = got {
                    let n = ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    match n {
                        0..4 => ticket.release().expect("releases"),
                        _ => ticket.complete("done").expect("completes"),
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        first.release().expect("releases");
    });
    assert_eq!(ran.into_inner(), 5);
    assert_eq!(store.stats().totals().replayed, 3);
}

#[test]
fn closing_the_store_ends_all_waiting() {
    let (_dir, path) = super::fixture::directory();
    for place in ["memory:", path.as_str()] {
        let store = Store::open(place).expect("opens");
        let request = request(Policy::Hold)
            .wait(Duration::MAX)
            .lease(semel::Lease::Never);
        let holder = execute(&store, &request);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| store.claim(&request));
            std::thread::sleep(Duration::from_millis(20));
            store.close().expect("closes");
            let error = waiting.join().expect("no panic").expect_err("closed");
            assert_eq!(error.kind(), semel::ErrorKind::Closed, "{place}");
        });
        std::mem::forget(holder);
    }
}

#[test]
fn a_million_waits_are_not_needed_to_see_that_lines_go_away() {
    let store = memory();
    for n in 0..2_000 {
        let id = n.to_string();
        let request = Request::new("op", id.as_str()).wait(LONG);
        let holder = execute(&store, &request);
        let mut line = line(&store, &request, 2);
        drop(line.remove(n % 2));
        holder.release().expect("releases");
        drop(ticket(block_on(line.remove(0)).expect("claims")));
        store.forget(&(&request).into()).expect("forgets");
    }
    assert!(store.is_empty());
}
