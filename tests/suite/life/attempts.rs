//! How often an operation may be attempted, and what it answers when no attempt is left.

use semel::{
    ATTEMPTS_EXHAUSTED, Claim, Doubt, Policy, Renew, Request, Resolution, Resolved, RunError,
    retryable,
};

use super::fixture::{answer, answered, execute, frozen, given_up, memory, seconds};

fn request(policy: Policy) -> Request<'static> {
    Request::new("sms", "S-1")
        .in_doubt(policy)
        .max_attempts(2)
        .renew(Renew::Off)
}

#[test]
fn released_attempts_are_counted_and_then_fail_for_good() {
    for policy in [Policy::Hold, Policy::Rerun, Policy::Ask] {
        let (store, clock) = frozen();
        let request = request(policy).retain(seconds(60));
        for attempt in 1..=2 {
            let ticket = execute(&store, &request);
            assert_eq!((ticket.attempt(), ticket.is_takeover()), (attempt, false));
            ticket.release().expect("releases");
        }
        let failed = answered!(Failed, store.claim(&request).expect("claims"));
        assert_eq!(
            (failed.failure.code.as_str(), failed.attempt),
            (ATTEMPTS_EXHAUSTED, 2)
        );
        let more = request.clone().max_attempts(99);
        assert_eq!(
            answer(&store, &more),
            "failed",
            "the first claim has frozen it"
        );
        assert_eq!(store.stats().unresolved, 0);
        clock.advance(seconds(60));
        assert_eq!(execute(&store, &request).attempt(), 1, "forgotten");
    }
}

#[test]
fn one_attempt_of_unknown_effect_makes_the_end_of_all_a_doubt() {
    let (store, clock) = frozen();
    let request = request(Policy::Rerun).retain(seconds(60));
    drop(execute(&store, &request));
    let second = execute(&store, &request);
    assert!(second.is_takeover());
    second.release().expect("releases");
    let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::AttemptsUsedUp);
    clock.advance(seconds(1_000_000));
    assert_eq!(answer(&store, &request), "in_doubt", "it is not forgotten");
    assert_eq!(store.sweep().expect("sweeps"), 0);
    assert_eq!(
        (
            store.stats().unresolved,
            store.unresolved(9).expect("lists").len()
        ),
        (1, 1)
    );
    assert_eq!(
        store
            .resolve(&(&request).into(), Resolution::Rerun)
            .expect("resolves"),
        Resolved::Resolved
    );
    let third = execute(&store, &request);
    assert_eq!((third.attempt(), third.is_takeover()), (3, false));
    third.release().expect("releases");
    assert_eq!(
        answered!(Failed, store.claim(&request).expect("claims"))
            .failure
            .code,
        ATTEMPTS_EXHAUSTED
    );
}

#[test]
fn the_last_attempt_of_unknown_effect_is_held_under_rerun_too() {
    let (store, clock) = frozen();
    let request = request(Policy::Rerun).lease(seconds(30));
    drop(execute(&store, &request));
    let _last = execute(&store, &request);
    assert_eq!(answer(&store, &request), "busy");
    clock.advance(seconds(30));
    assert_eq!(answer(&store, &request), "in_doubt");
    assert_eq!(store.stats().unresolved, 1);
}

#[test]
fn a_rerun_with_attempts_left_is_not_unresolved() {
    let store = memory();
    drop(execute(&store, &request(Policy::Rerun)));
    assert_eq!(store.stats().unresolved, 0);
    assert!(store.unresolved(9).expect("lists").is_empty());
}

#[test]
fn run_counts_retries_and_tells_the_first_caller_his_own_error() {
    let store = memory();
    let run = || {
        store.run(&request(Policy::Hold), |ticket| {
            Err::<(), _>(retryable(format!("line busy {}", ticket.attempt())))
        })
    };
    for attempt in 1..=2 {
        let Err(RunError::Work(own)) = run() else {
            panic!("its own error")
        };
        assert_eq!(own, format!("line busy {attempt}"));
    }
    let Err(RunError::Failed(failed)) = run() else {
        panic!("used up")
    };
    assert_eq!(failed.failure.code, ATTEMPTS_EXHAUSTED);
}

#[test]
fn a_claim_that_nobody_saw_is_no_attempt() {
    let (_dir, path) = super::fixture::directory();
    let store = semel::Store::open(&path).expect("opens");
    // The claim waits for the disk; its caller goes away meanwhile.
    let of = |id: String| Request::new("sms", id).max_attempts(1);
    let request = of(given_up(&store, of));
    let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
        panic!("it has not run")
    };
    assert_eq!(ticket.attempt(), 1);
}
