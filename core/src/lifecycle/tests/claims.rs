//! What a claim is answered, in every state, under every policy, around every deadline.

use super::*;
use crate::time::NEVER_US;

/// A row of the table: hold, rerun, ask.
type Row = [&'static str; 3];

const EXECUTE: Row = ["execute 1"; 3];
const AGAIN: Row = ["execute 2"; 3];
const BUSY: Row = ["busy"; 3];
const REPLAY: Row = ["replay"; 3];
const DECLINED: Row = ["failed declined"; 3];
const EXHAUSTED: Row = ["failed attempts_exhausted"; 3];
const GONE: Row = ["gone"; 3];
const DOUBT: Row = ["in doubt", "takeover 2", "ask"];
/// In doubt, and no attempt is left.
const LAST_DOUBT: Row = ["in doubt", "in doubt", "ask"];
/// In doubt under hold and ask, which never forget; forgotten under rerun.
const DOUBT_OR_FORGOTTEN: Row = ["in doubt", "execute 1", "ask"];

fn check(name: &str, given: Option<&Record>, moment: Moment, expect: Row) {
    for (policy, want) in POLICIES.into_iter().zip(expect) {
        let kept = given.map(|record| record.clone().under(policy));
        let unprinted = kept.clone().map(|mut record| {
            record.fingerprint = None;
            record
        });
        let (same, other) = (print(r#"{"amount":1.0}"#), print(r#"{"amount":2}"#));
        let live = given.is_some() && want != "execute 1";
        let differs = if live { "mismatch amount" } else { want };
        let cells = [
            (&kept, same.clone(), want),
            (&kept, None, want),
            (&kept, other.clone(), differs),
            (&unprinted, same, want),
            (&unprinted, None, want),
            (&unprinted, other, want),
        ];
        for (at, (record, fingerprint, want)) in cells.into_iter().enumerate() {
            let claim = event(FRESH, Verb::Claim(claiming(fingerprint)));
            let step = decide(record.as_ref(), &claim, moment);
            let when = moment.now_us as i64 - T as i64;
            assert_eq!(
                told(&step),
                want,
                "{name} under {policy:?} at {when}, case {at}"
            );
        }
    }
}

/// Checks the microsecond before a deadline, the deadline, and the one after.
fn around(name: &str, given: &Record, deadline_us: u64, before: Row, from_then_on: Row) {
    for (now_us, expect) in [
        (deadline_us - 1, before),
        (deadline_us, from_then_on),
        (deadline_us + 1, from_then_on),
    ] {
        check(name, Some(given), at(now_us), expect);
    }
}

#[test]
fn an_absent_key_is_executed() {
    check("absent", None, at(T), EXECUTE);
}

#[test]
fn a_live_lease_is_busy_and_one_that_is_over_goes_by_the_policy() {
    let end = T + LEASE;
    around("running", &running(), end, BUSY, DOUBT);
    around(
        "lapsed",
        &running(),
        end + RETAIN,
        DOUBT,
        DOUBT_OR_FORGOTTEN,
    );
    around("last", &running().last_attempt(), end, BUSY, LAST_DOUBT);
    around(
        "last, lapsed",
        &running().last_attempt(),
        end + RETAIN,
        LAST_DOUBT,
        LAST_DOUBT,
    );
}

#[test]
fn a_doubt_goes_by_the_policy_and_is_forgotten_under_rerun_alone() {
    check("in doubt", Some(&in_doubt()), at(T), DOUBT);
    around(
        "in doubt",
        &in_doubt(),
        T + RETAIN,
        DOUBT,
        DOUBT_OR_FORGOTTEN,
    );
    around(
        "last",
        &in_doubt().last_attempt(),
        T + RETAIN,
        LAST_DOUBT,
        LAST_DOUBT,
    );
}

#[test]
fn a_key_that_is_being_asked_about_is_busy_for_thirty_seconds() {
    assert_eq!(CONFIRM_US, 30_000_000);
    around("confirming", &confirming(9), T + CONFIRM_US, BUSY, DOUBT);
}

#[test]
fn what_was_released_runs_again_until_it_is_forgotten() {
    check("released", Some(&released()), at(T), AGAIN);
    around("released", &released(), T + RETAIN, AGAIN, EXECUTE);
    let doubted = released().after_a_doubt();
    check(
        "released after a doubt",
        Some(&doubted),
        at(T),
        ["takeover 2"; 3],
    );
}

#[test]
fn what_has_ended_is_told_again_then_known_then_forgotten() {
    let (retained, forgotten) = (T + RETAIN, T + RETAIN + REMEMBER);
    check("succeeded", Some(&succeeded()), at(T), REPLAY);
    around("succeeded", &succeeded(), retained, REPLAY, GONE);
    around("succeeded", &succeeded(), forgotten, GONE, EXECUTE);
    around("failed", &failed(), retained, DECLINED, GONE);
    around("failed", &failed(), forgotten, GONE, EXECUTE);
    around(
        "swept of its result",
        &succeeded().without_result(),
        forgotten,
        GONE,
        EXECUTE,
    );
    let unkept = record(State::Succeeded {
        at_us: T,
        value: None,
    });
    around("not kept", &unkept, retained, GONE, GONE);
    let mut at_once = succeeded();
    at_once.terms.remember_us = 0;
    around("not remembered", &at_once, retained, REPLAY, EXECUTE);
    let mut for_ever = succeeded();
    for_ever.terms.retain_us = NEVER_US;
    check("for ever", Some(&for_ever), at(NEVER_US - 1), REPLAY);
}

#[test]
fn used_up_attempts_are_a_failure_when_all_are_known_to_have_failed_and_a_doubt_otherwise() {
    let known = released().last_attempt();
    around("known", &known, T + RETAIN, EXHAUSTED, EXECUTE);
    let unknown = known.after_a_doubt();
    check("unknown", Some(&unknown), at(T), LAST_DOUBT);
    around("unknown", &unknown, T + RETAIN, LAST_DOUBT, LAST_DOUBT);
}

#[test]
fn a_lease_without_end_is_never_stolen_and_in_doubt_once_its_holder_is_dead() {
    let endless = record(State::Running {
        lease_until_us: NEVER_US,
    });
    let gone = Moment {
        holder_gone: true,
        ..at(T)
    };
    check("alive", Some(&endless), at(T + 1_000_000 * LEASE), BUSY);
    check("dead", Some(&endless), gone, DOUBT);
    // A lease with an end is as good as its holder said, dead or not.
    check("a lease with an end", Some(&running()), gone, BUSY);
}

#[test]
fn the_turn_of_a_waiter_is_respected_until_it_is_over() {
    let turn = |now_us| Moment {
        turn_until_us: T + TURN_US,
        ..at(now_us)
    };
    assert_eq!(TURN_US, 100_000);
    let over = T + TURN_US;
    for (now_us, absent, again) in [
        (over - 1, BUSY, BUSY),
        (over, EXECUTE, AGAIN),
        (over + 1, EXECUTE, AGAIN),
    ] {
        let mut released = released();
        released.terms.retain_us = NEVER_US;
        let mut lapsed = running();
        lapsed.terms.retain_us = NEVER_US;
        check("released", Some(&released), turn(now_us), again);
        // An absent key has no fingerprint to differ from.
        for policy in POLICIES {
            let claim = event(FRESH, Verb::Claim(claiming(None)));
            assert_eq!(
                told(&decide(None, &claim, turn(now_us))),
                absent[0],
                "{policy:?}"
            );
        }
        let doubt = if now_us < over {
            ["in doubt", "busy", "ask"]
        } else {
            DOUBT
        };
        check("lapsed", Some(&lapsed), turn(now_us), doubt);
        let mut succeeded = succeeded();
        succeeded.terms.retain_us = NEVER_US;
        check("succeeded", Some(&succeeded), turn(now_us), REPLAY);
    }
}

#[test]
fn without_a_callback_ask_is_hold() {
    for given in [
        running(),
        in_doubt(),
        confirming(9),
        released().last_attempt().after_a_doubt(),
    ] {
        let mut claim = claiming(None);
        claim.can_confirm = false;
        let late = at(T + LEASE + CONFIRM_US);
        let step = decide(
            Some(&given.under(Policy::Ask)),
            &event(FRESH, Verb::Claim(claim)),
            late,
        );
        assert_eq!(whole(&step), "in doubt -> kept");
    }
}

#[test]
fn the_first_claim_freezes_policy_attempts_and_fingerprint_and_the_last_sets_the_rest() {
    let mut kept = released().under(Policy::Hold);
    kept.terms.max_attempts = 3;
    kept.fingerprint = None;
    let mut claim = claiming(print(r#"{"amount":2}"#));
    claim.terms = Terms {
        in_doubt: Policy::Rerun,
        max_attempts: 99,
        lease_us: 1,
        retain_us: 2,
        remember_us: 3,
    };
    claim.holder.label = Some("second".into());
    let step = decide(
        Some(&kept),
        &event(FRESH, Verb::Claim(claim.clone())),
        at(T + 1),
    );
    let Change::Put(next) = step.change else {
        panic!("{step:?}")
    };
    assert_eq!(
        next.terms,
        Terms {
            max_attempts: 3,
            in_doubt: Policy::Hold,
            ..claim.terms
        }
    );
    assert_eq!(
        (next.fingerprint, next.first_us, next.attempt),
        (None, T - 5, 2)
    );
    assert_eq!(
        (next.holder, next.claimed_us, next.fence),
        (claim.holder, T + 1, 0)
    );
}

#[test]
fn a_lease_without_end_does_not_come_in_by_a_record_that_is_not_held() {
    for (policy, lease_us) in [
        (Policy::Hold, NEVER_US),
        (Policy::Rerun, LEASE),
        (Policy::Ask, LEASE),
    ] {
        let mut claim = claiming(None);
        claim.terms.lease_us = NEVER_US;
        let step = decide(
            Some(&released().under(policy)),
            &event(FRESH, Verb::Claim(claim)),
            at(T),
        );
        let Change::Put(next) = step.change else {
            panic!("{step:?}")
        };
        assert_eq!(next.terms.lease_us, lease_us, "{policy:?}");
    }
}

#[test]
fn a_claim_that_is_sent_again_is_answered_the_same_and_changes_nothing() {
    let claim = event(FRESH, Verb::Claim(claiming(print(r#"{"amount":1}"#))));
    let givens = [
        None,
        Some(released()),
        Some(released().after_a_doubt()),
        Some(in_doubt().under(Policy::Rerun)),
        Some(in_doubt().under(Policy::Ask)),
        Some(running().under(Policy::Rerun)),
    ];
    for given in givens {
        let first = decide(given.as_ref(), &claim, at(T + LEASE));
        let Change::Put(mut record) = first.change.clone() else {
            panic!("{first:?}")
        };
        record.fence = FENCE + 1;
        for later in [0, LEASE, RETAIN] {
            let again = decide(Some(&record), &claim, at(T + LEASE + later));
            if record.forgotten(T + LEASE + later) {
                continue;
            }
            assert_eq!(again.answer, first.answer, "{given:?} {later}");
            assert!(matches!(again.change, Change::Keep));
        }
    }
}

#[test]
fn busy_says_when_to_ask_again_at_the_leases_end_or_within_a_second() {
    for (left_us, retry_after_us) in [
        (1, 1),
        (LEASE, LEASE),
        (999_999, 999_999),
        (5_000_000, 1_000_000),
    ] {
        let given = record(State::Running {
            lease_until_us: T + left_us,
        });
        let step = decide(
            Some(&given),
            &event(FRESH, Verb::Claim(claiming(None))),
            at(T),
        );
        assert_eq!(step.answer, Answer::Busy { retry_after_us });
    }
}

#[test]
fn a_doubt_says_since_when_and_what_ended_the_attempt() {
    let begun = |mut record: Record| {
        let state = crate::record::StepState::Begun { fence: FENCE };
        record.steps.push(crate::record::StepRecord {
            name: "charge".into(),
            state,
        });
        record
    };
    let endless = record(State::Running {
        lease_until_us: NEVER_US,
    });
    let step = Doubt::Step("charge".into());
    for (given, since_us, doubt) in [
        (running(), T + LEASE, Doubt::LeaseEnded),
        (begun(running()), T + LEASE, step.clone()),
        (endless.clone(), T, Doubt::HolderGone),
        (begun(endless), T, step),
        (in_doubt(), T, Doubt::Panicked),
        (
            released().last_attempt().after_a_doubt(),
            T,
            Doubt::AttemptsUsedUp,
        ),
    ] {
        let moment = Moment {
            holder_gone: true,
            ..at(T + LEASE + 9)
        };
        let told = decide(
            Some(&given),
            &event(FRESH, Verb::Claim(claiming(None))),
            moment,
        );
        assert_eq!(told.answer, Answer::InDoubt { since_us, doubt });
    }
}
