//! What follows an attempt of unknown effect: held, run again, or asked about; frozen by the first claim.

use semel::{Policy, Request, Store};

use super::fixture::{answer, answered, at, execute, frozen, memory, seconds};

fn request(policy: Policy) -> Request<'static> {
    Request::new("pay", "P-1")
        .in_doubt(policy)
        .renew(semel::Renew::Off)
}

#[test]
fn a_lease_is_busy_to_its_last_microsecond_and_then_goes_by_the_policy() {
    for (policy, after) in [
        (Policy::Hold, "in_doubt"),
        (Policy::Rerun, "execute"),
        (Policy::Ask, "in_doubt"),
    ] {
        let (store, clock) = frozen();
        let request = request(policy).lease(seconds(30));
        let ticket = execute(&store, &request);
        clock.advance(seconds(30) - std::time::Duration::from_micros(1));
        assert_eq!(answer(&store, &request), "busy", "{policy:?}");
        clock.advance(std::time::Duration::from_micros(1));
        assert_eq!(answer(&store, &request), after, "{policy:?}");
        drop(ticket);
    }
}

#[test]
fn the_default_holds_and_a_store_can_name_another() {
    let plain = Request::new("pay", "P-2");
    let store = memory();
    drop(store.claim(&plain));
    assert_eq!(answer(&store, &plain), "in_doubt");
    let store = Store::builder("memory:")
        .in_doubt(Policy::Rerun)
        .open()
        .expect("opens");
    drop(store.claim(&plain));
    let again = execute(&store, &plain);
    assert_eq!((again.attempt(), again.is_takeover()), (2, true));
    let held = Request::new("pay", "P-3").in_doubt(Policy::Hold);
    drop(store.claim(&held));
    assert_eq!(answer(&store, &held), "in_doubt", "a claim names its own");
}

#[test]
fn a_later_caller_cannot_weaken_the_policy() {
    let store = memory();
    drop(store.claim(&request(Policy::Hold)));
    assert_eq!(answer(&store, &request(Policy::Rerun)), "in_doubt");
    let asked = request(Policy::Ask).confirm(|_| panic!("nobody is asked"));
    assert_eq!(answer(&store, &asked), "in_doubt");
    let info = store
        .lookup(&(&asked).into())
        .expect("looks up")
        .expect("a record");
    assert_eq!(info.in_doubt, Policy::Hold);
}

#[test]
fn the_policy_stays_when_the_operation_was_released_in_between() {
    let store = memory();
    execute(&store, &request(Policy::Hold))
        .release()
        .expect("releases");
    drop(store.claim(&request(Policy::Rerun)));
    assert_eq!(answer(&store, &request(Policy::Rerun)), "in_doubt");
}

#[test]
fn fences_rise_over_release_takeover_forgetting_and_expiry() {
    let (store, clock) = frozen();
    let request = request(Policy::Rerun).retain(seconds(60));
    let mut fences = Vec::new();
    for round in 0..8 {
        let ticket = execute(&store, &request);
        fences.push(ticket.fence());
        match round % 4 {
            0 => ticket.release().expect("releases"),
            1 => drop(ticket),
            2 => {
                ticket.complete("done").expect("completes");
                clock.advance(seconds(61));
            }
            _ => {
                ticket.complete("done").expect("completes");
                store.forget(&(&request).into()).expect("forgets");
            }
        }
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    assert!(fences[0] >= at(seconds(0)));
}

#[test]
fn busy_says_who_runs_since_when_and_when_to_ask_again() {
    let (store, clock) = frozen();
    let request = Request::new("pay", "P-4")
        .holder("worker 7")
        .lease(seconds(30));
    let _ticket = execute(&store, &request);
    clock.advance(seconds(5));
    let busy = answered!(Busy, store.claim(&request).expect("claims"));
    assert_eq!(
        (busy.attempt, busy.since_us, busy.first_executed_us),
        (1, at(seconds(0)), at(seconds(0)))
    );
    assert_eq!(busy.holder.as_deref(), Some("worker 7"));
    let left = busy.lease_remaining.expect("an end");
    assert!(left >= seconds(25) && left <= seconds(30), "{left:?}");
    assert!(!busy.retry_after.is_zero() && busy.retry_after <= left);
    assert!(busy.to_string().contains("worker 7"), "{busy}");

    let endless = Request::new("pay", "P-5").lease(semel::Lease::Never);
    let _ticket = execute(&store, &endless);
    clock.advance(seconds(1_000_000));
    let busy = answered!(Busy, store.claim(&endless).expect("claims"));
    assert_eq!(busy.lease_remaining, None);
}

#[test]
fn every_answer_tells_its_attempt_and_when_it_was_first_executed() {
    let (store, clock) = frozen();
    let with = |id: &'static str, amount: u32| {
        Request::new("pay", id)
            .payload(&amount)
            .expect("a payload")
            .retain(seconds(90))
            .remember(seconds(90))
    };
    let mut seen = Vec::new();
    let mut note = |claim: semel::Claim| {
        assert_eq!(
            claim.first_executed_us(),
            at(seconds(0)),
            "{}",
            claim.name()
        );
        assert_eq!(claim.attempt(), 2, "{}", claim.name());
        seen.push((claim.name(), claim.replayed()));
        claim
    };
    for id in ["done", "failed", "doubtful", "running"] {
        execute(&store, &with(id, 1)).release().expect("releases");
    }
    clock.advance(seconds(7));
    let claim = |id, amount| store.claim(&with(id, amount)).expect("claims");
    super::fixture::ticket(note(claim("done", 1)))
        .complete("x")
        .expect("completes");
    super::fixture::ticket(note(claim("failed", 1)))
        .fail(semel::Failure::new("no", "funds"))
        .expect("fails");
    drop(note(claim("doubtful", 1)));
    let running = note(claim("running", 1));
    for id in ["done", "failed", "doubtful", "running"] {
        note(claim(id, 1));
    }
    note(claim("done", 2));
    clock.advance(seconds(100));
    note(claim("done", 1));
    drop(running);
    let known = |name| {
        seen.iter()
            .find(|(seen, _)| *seen == name)
            .map(|(_, replayed)| *replayed)
    };
    for (name, replayed) in [
        ("execute", false),
        ("replay", true),
        ("failed", true),
        ("in_doubt", false),
        ("busy", false),
        ("mismatch", false),
        ("gone", true),
    ] {
        assert_eq!(known(name), Some(replayed), "{name}");
    }
}
