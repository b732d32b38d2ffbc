//! What a holder may say, in every state: only the holder of the present attempt changes anything.

use super::*;

fn verbs(fence: u64) -> [(&'static str, Verb); 7] {
    let name = || "charge".to_owned();
    [
        (
            "complete",
            Verb::Complete {
                fence,
                value: Some(value()),
            },
        ),
        (
            "fail",
            Verb::Fail {
                fence,
                failure: declined(),
            },
        ),
        ("release", Verb::Release { fence }),
        (
            "doubt",
            Verb::Doubt {
                fence,
                doubt: Doubt::Dropped,
            },
        ),
        ("renew", Verb::Renew { fence }),
        (
            "begin a step",
            Verb::BeginStep {
                fence,
                name: name(),
            },
        ),
        (
            "end a step",
            Verb::EndStep {
                fence,
                name: name(),
                value: Some(value()),
            },
        ),
    ]
}

/// Answers to complete, fail, release, doubt, renew, begin and end a step.
fn check(name: &str, given: Option<&Record>, now_us: u64, expect: [&str; 7]) {
    for policy in POLICIES {
        let given = given.map(|record| record.clone().under(policy));
        for ((verb, sent), want) in verbs(FENCE).into_iter().zip(expect) {
            let step = decide(given.as_ref(), &event(FRESH, sent), at(now_us));
            let reruns = policy == Policy::Rerun && want.starts_with("done");
            let want = match verb {
                "doubt" if reruns => want.replace("wakes all", "wakes the first"),
                _ => want.to_owned(),
            };
            assert_eq!(whole(&step), want, "{name}: {verb} under {policy:?}");
        }
    }
}

const LOST: [&str; 7] = ["lost -> kept"; 7];

const LATE: [&str; 7] = [
    "done late -> succeeded, wakes all",
    "done late -> failed declined, wakes all",
    "done late -> released, wakes the first",
    "done late -> in doubt: Dropped, wakes all",
    "done late -> running +60",
    "done late -> running +30",
    "lost -> kept",
];

#[test]
fn the_holder_may_end_renew_and_go_on() {
    for now_us in [T, T + LEASE - 1] {
        let until = format!("done -> running +{}", now_us - T + LEASE);
        check(
            "running",
            Some(&running()),
            now_us,
            [
                "done -> succeeded, wakes all",
                "done -> failed declined, wakes all",
                "done -> released, wakes the first",
                "done -> in doubt: Dropped, wakes all",
                &until,
                "done -> running +30",
                "lost -> kept",
            ],
        );
    }
}

#[test]
fn a_holder_whose_lease_is_over_but_who_was_not_replaced_may_still_end_it_late() {
    check("lapsed", Some(&running()), T + LEASE, LATE);
    let later = ["done late -> running +61"];
    let mut expect = LATE;
    expect[4] = later[0];
    check("lapsed", Some(&running()), T + LEASE + 1, expect);
}

#[test]
fn a_holder_may_tell_the_end_while_somebody_is_asked() {
    let mut expect = LATE;
    expect[4] = "done late -> running +30";
    expect[5] = "done late -> confirming";
    check("confirming", Some(&confirming(9)), T, expect);
}

#[test]
fn what_is_said_to_be_in_doubt_may_be_ended_but_does_not_go_on() {
    let mut expect = LATE;
    expect[4] = "lost -> kept";
    expect[5] = "lost -> kept";
    check("in doubt", Some(&in_doubt()), T + 1, expect);
}

#[test]
fn nobody_holds_what_is_absent_has_ended_or_is_forgotten() {
    check("absent", None, T, LOST);
    check("released", Some(&released()), T, LOST);
    check("succeeded", Some(&succeeded()), T, LOST);
    check("failed", Some(&failed()), T, LOST);
    check("gone", Some(&succeeded()), T + RETAIN, LOST);
    check("forgotten", Some(&succeeded()), T + RETAIN + REMEMBER, LOST);
}

#[test]
fn a_stale_fence_changes_nothing_in_any_state() {
    for given in [
        running(),
        confirming(9),
        in_doubt(),
        released(),
        succeeded(),
        failed(),
    ] {
        for fence in [0, FENCE - 1, FENCE + 1, u64::MAX] {
            for (verb, sent) in verbs(fence) {
                let step = decide(Some(&given), &event(FRESH, sent), at(T + 1));
                assert_eq!(whole(&step), "lost -> kept", "{verb} of {fence}: {given:?}");
            }
        }
    }
}

#[test]
fn an_event_that_is_sent_again_is_done_and_changes_nothing() {
    for (verb, sent) in verbs(FENCE) {
        let mut given = running();
        given.steps.push(crate::record::StepRecord {
            name: "charge".into(),
            state: crate::record::StepState::Begun { fence: FENCE },
        });
        let sent = event(FRESH, sent);
        let first = decide(Some(&given.under(Policy::Rerun)), &sent, at(T + 1));
        let Change::Put(record) = first.change.clone() else {
            panic!("{verb}: {first:?}")
        };
        let again = decide(Some(&record), &sent, at(T + 2));
        assert_eq!(again.answer, first.answer, "{verb}");
        // A renewal leaves no trace, so that what came before it is known: it renews again.
        let renews = matches!(sent.verb, Verb::Renew { .. });
        assert_eq!(matches!(again.change, Change::Keep), !renews, "{verb}");
    }
}

#[test]
fn the_end_of_the_last_attempt_wakes_all_since_nobody_may_run() {
    for policy in POLICIES {
        let given = running().last_attempt().under(policy);
        let release = decide(
            Some(&given),
            &event(FRESH, Verb::Release { fence: FENCE }),
            at(T),
        );
        assert_eq!(whole(&release), "done -> released, wakes all");
        let doubt = Verb::Doubt {
            fence: FENCE,
            doubt: Doubt::Dropped,
        };
        let doubt = decide(Some(&given), &event(FRESH, doubt), at(T));
        assert_eq!(whole(&doubt), "done -> in doubt: Dropped, wakes all");
    }
}

#[test]
fn an_end_counts_from_its_own_time() {
    let complete = Verb::Complete {
        fence: FENCE,
        value: None,
    };
    let step = decide(Some(&running()), &event(FRESH, complete), at(T + 20));
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    assert_eq!(record.retained_until_us(), T + 20 + RETAIN);
    assert_eq!(record.forgotten_at_us(), T + 20 + RETAIN + REMEMBER);
    assert_eq!(
        became(&Step::put(Answer::Gone, record, Wake::Nobody)),
        "gone"
    );
}
