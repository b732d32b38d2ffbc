//! How a doubt ends: by the caller that was asked, by somebody who knows, by being taken back, and by being forgotten.

use super::*;
use crate::time::NEVER_US;

const ASKED: u64 = 9;

fn found(found: Found) -> Event {
    event(
        FRESH,
        Verb::Confirm {
            asked: ASKED,
            found,
        },
    )
}

fn not_done() -> Found {
    let terms = Terms {
        lease_us: 500,
        max_attempts: 99,
        ..terms(Policy::Rerun)
    };
    Found::NotDone {
        holder: Holder {
            session: 3,
            caller: 4,
            label: None,
        },
        terms,
    }
}

fn asked() -> Record {
    confirming(ASKED).under(Policy::Ask)
}

#[test]
fn what_the_caller_has_found_ends_the_doubt_or_leaves_it() {
    let doubt = "in doubt -> in doubt: LeaseEnded, wakes all";
    for (given, given_found, expect) in [
        (
            asked(),
            Found::Done(Some(value())),
            "done -> succeeded, wakes all",
        ),
        (asked(), Found::Done(None), "done -> gone, wakes all"),
        (asked(), Found::Still, doubt),
        (asked(), not_done(), "execute 2 -> running +501"),
        (
            asked().last_attempt(),
            not_done(),
            "failed attempts_exhausted -> released, wakes all",
        ),
        (asked().last_attempt(), Found::Still, doubt),
    ] {
        let first = decide(Some(&given), &found(given_found.clone()), at(T + 1));
        assert_eq!(whole(&first), expect);
        // Sent again, it is answered the same and changes nothing.
        let Change::Put(record) = first.change else {
            panic!("{first:?}")
        };
        let again = decide(Some(&record), &found(given_found), at(T + 2));
        assert_eq!(again.answer, first.answer);
        assert!(matches!(again.change, Change::Keep));
    }
}

#[test]
fn who_was_asked_runs_it_on_his_own_terms_but_for_what_is_frozen() {
    let step = decide(Some(&asked().after_a_doubt()), &found(not_done()), at(T));
    assert_eq!(step.answer, Answer::Execute { takeover: false });
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    assert_eq!(
        record.terms,
        Terms {
            lease_us: 500,
            ..terms(Policy::Ask)
        }
    );
    assert_eq!((record.holder.session, record.holder.caller), (3, 4));
    assert!(!record.earlier_doubt);
}

#[test]
fn a_finding_counts_only_while_it_was_asked_for() {
    for given in [
        running(),
        in_doubt(),
        released(),
        succeeded(),
        failed(),
        confirming(ASKED + 1),
    ] {
        for found_now in [Found::Done(None), Found::Still, not_done()] {
            assert_eq!(
                whole(&decide(Some(&given), &found(found_now), at(T))),
                "lost -> kept"
            );
        }
    }
    assert_eq!(
        whole(&decide(None, &found(Found::Still), at(T))),
        "lost -> kept"
    );
    // Nobody else was asked since: a late finding is as good as one in time.
    let late = decide(
        Some(&asked()),
        &found(Found::Done(None)),
        at(T + CONFIRM_US + 1),
    );
    assert_eq!(told(&late), "done");
}

#[test]
fn a_doubt_that_is_over_is_asked_about_once_more_by_another_event() {
    let claim = event(3, Verb::Claim(claiming(None)));
    let step = decide(Some(&asked()), &claim, at(T + CONFIRM_US));
    assert_eq!(whole(&step), "ask -> confirming");
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    assert_eq!(
        record.state,
        State::Confirming {
            until_us: T + 2 * CONFIRM_US,
            nonce: 3,
            since_us: T,
            doubt: Doubt::LeaseEnded,
        }
    );
    assert_eq!(
        whole(&decide(
            Some(&record),
            &found(Found::Done(None)),
            at(T + CONFIRM_US)
        )),
        "lost -> kept"
    );
}

fn resolve(fence: u64, resolution: Resolution) -> Event {
    event(FRESH, Verb::Resolve { fence, resolution })
}

#[test]
fn somebody_who_knows_ends_a_doubt_of_the_attempt_that_he_names() {
    let endings = [
        (
            Resolution::Value(Some(value())),
            "done -> succeeded, wakes all",
        ),
        (Resolution::Value(None), "done -> gone, wakes all"),
        (
            Resolution::Failure(declined()),
            "done -> failed declined, wakes all",
        ),
        (Resolution::Rerun, "done -> released, wakes the first"),
    ];
    let doubts = [
        in_doubt(),
        running(),
        confirming(ASKED),
        released().last_attempt().after_a_doubt(),
    ];
    let no_doubts = [released(), succeeded(), failed()];
    let late = at(T + LEASE + CONFIRM_US);
    for (resolution, expect) in endings {
        for given in &doubts {
            let first = decide(Some(given), &resolve(FENCE, resolution.clone()), late);
            assert_eq!(whole(&first), expect, "{given:?}");
            let Change::Put(record) = first.change else {
                panic!("{first:?}")
            };
            let again = decide(Some(&record), &resolve(FENCE, resolution.clone()), late);
            assert_eq!(whole(&again), "done -> kept");
            for stale in [FENCE - 1, FENCE + 1] {
                let stale = decide(Some(given), &resolve(stale, resolution.clone()), late);
                assert_eq!(whole(&stale), "not in doubt -> kept");
            }
        }
        for given in &no_doubts {
            let step = decide(Some(given), &resolve(FENCE, resolution.clone()), at(T));
            assert_eq!(whole(&step), "not in doubt -> kept", "{given:?}");
        }
        for (given, now_us) in [
            (running(), T + LEASE - 1),
            (confirming(ASKED), T + CONFIRM_US - 1),
        ] {
            let step = decide(
                Some(&given),
                &resolve(FENCE, resolution.clone()),
                at(now_us),
            );
            assert_eq!(whole(&step), "not in doubt -> kept", "{given:?}");
        }
        assert_eq!(
            whole(&decide(None, &resolve(FENCE, resolution), late)),
            "absent -> kept"
        );
    }
}

#[test]
fn a_rerun_that_somebody_asks_for_is_one_attempt_more() {
    for given in [in_doubt(), released().after_a_doubt()] {
        let step = decide(
            Some(&given.last_attempt()),
            &resolve(FENCE, Resolution::Rerun),
            at(T),
        );
        let Change::Put(record) = step.change else {
            panic!("{step:?}")
        };
        let step = decide(Some(&record), &event(3, Verb::Claim(claiming(None))), at(T));
        assert_eq!(told(&step), "execute 2");
        let Change::Put(record) = step.change else {
            panic!("{step:?}")
        };
        assert!(record.exhausted());
    }
}

#[test]
fn all_but_a_live_lease_can_be_forgotten() {
    let endless = record(State::Running {
        lease_until_us: NEVER_US,
    });
    for (given, now_us, expect) in [
        (running(), T + LEASE - 1, "busy -> kept"),
        (running(), T + LEASE, "done -> absent, wakes the first"),
        (running(), T + LEASE + 1, "done -> absent, wakes the first"),
        (confirming(ASKED), T + CONFIRM_US - 1, "busy -> kept"),
        (
            confirming(ASKED),
            T + CONFIRM_US,
            "done -> absent, wakes the first",
        ),
        (endless, T, "done -> absent, wakes the first"),
        (in_doubt(), T, "done -> absent, wakes the first"),
        (released(), T, "done -> absent, wakes the first"),
        (succeeded(), T, "done -> absent, wakes the first"),
        (failed(), T + RETAIN, "done -> absent, wakes the first"),
        (failed(), T + RETAIN + REMEMBER, "absent -> kept"),
    ] {
        let step = decide(
            Some(&given),
            &event(FRESH, Verb::Forget { fence: 0 }),
            at(now_us),
        );
        assert_eq!(whole(&step), expect, "{given:?}");
    }
    assert_eq!(
        whole(&decide(
            None,
            &event(FRESH, Verb::Forget { fence: 0 }),
            at(T)
        )),
        "absent -> kept"
    );
}

#[test]
fn a_claim_that_is_taken_back_does_not_count() {
    let withdraw = |claimed| event(FRESH, Verb::Withdraw { claimed });
    let mut second = running();
    second.attempt = 2;
    for (given, claimed, expect) in [
        (running(), MADE_BY, "done -> absent, wakes the first"),
        (second.clone(), MADE_BY, "done -> released, wakes the first"),
        (asked(), ASKED, "done -> in doubt: LeaseEnded, wakes all"),
        (running(), 99, "lost -> kept"),
        (asked(), 99, "lost -> kept"),
        (in_doubt(), MADE_BY, "lost -> kept"),
        (released(), MADE_BY, "lost -> kept"),
        (succeeded(), MADE_BY, "lost -> kept"),
        (failed(), MADE_BY, "lost -> kept"),
    ] {
        let step = decide(Some(&given), &withdraw(claimed), at(T));
        assert_eq!(whole(&step), expect, "{given:?}");
    }
    assert_eq!(
        whole(&decide(None, &withdraw(MADE_BY), at(T))),
        "lost -> kept"
    );
    let step = decide(Some(&second.last_attempt()), &withdraw(MADE_BY), at(T));
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    let step = decide(Some(&record), &event(3, Verb::Claim(claiming(None))), at(T));
    assert_eq!(told(&step), "execute 2");
}
