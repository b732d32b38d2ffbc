//! Named steps: done once, skipped by the attempts that follow, and named when nothing was heard of them.

use super::*;
use crate::record::{MAX_STEPS, StepRecord, StepState};

fn with(name: &str, state: StepState) -> Record {
    let mut record = running();
    record.steps.push(StepRecord {
        name: name.into(),
        state,
    });
    record
}

fn begin(name: &str) -> Event {
    event(
        FRESH,
        Verb::BeginStep {
            fence: FENCE,
            name: name.into(),
        },
    )
}

fn end(name: &str, value: Option<Value>) -> Event {
    event(
        FRESH,
        Verb::EndStep {
            fence: FENCE,
            name: name.into(),
            value,
        },
    )
}

#[test]
fn a_step_that_is_done_is_not_begun_again() {
    let done = with("charge", StepState::Done(value()));
    assert_eq!(
        decide(Some(&done), &begin("charge"), at(T)).answer,
        Answer::StepDone(value())
    );
    assert_eq!(
        whole(&decide(Some(&done), &begin("ship"), at(T))),
        "done -> running +30"
    );
    let earlier = with("charge", StepState::Begun { fence: FENCE - 1 });
    let step = decide(Some(&earlier), &begin("charge"), at(T));
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    assert_eq!(record.steps[0].state, StepState::Begun { fence: FENCE });
    assert_eq!(record.begun_step(), Some("charge"));
    assert_eq!(earlier.begun_step(), None);
}

#[test]
fn a_step_ends_with_its_result_or_as_if_it_had_not_begun() {
    let begun = with("charge", StepState::Begun { fence: FENCE });
    let step = decide(Some(&begun), &end("charge", Some(value())), at(T));
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    assert_eq!(record.steps[0].state, StepState::Done(value()));
    let step = decide(Some(&begun), &end("charge", None), at(T));
    let Change::Put(record) = step.change else {
        panic!("{step:?}")
    };
    assert!(record.steps.is_empty());
    assert_eq!(
        whole(&decide(Some(&begun), &end("ship", None), at(T))),
        "lost -> kept"
    );
}

#[test]
fn what_is_told_again_after_a_renewal_is_known() {
    let renew = event(FRESH + 1, Verb::Renew { fence: FENCE });
    let begun = with("charge", StepState::Begun { fence: FENCE });
    // Its answer was lost with the process that gave it, and the watchdog came between.
    for (record, told) in [(running(), begin("charge")), (begun, end("charge", None))] {
        let mut known = record;
        for (event, answer) in [(&told, "done"), (&renew, "done")] {
            let step = decide(Some(&known), event, at(T));
            assert_eq!(super::told(&step), answer);
            let Change::Put(next) = step.change else {
                panic!("{step:?}")
            };
            known = next;
        }
        assert_eq!(whole(&decide(Some(&known), &told, at(T))), "done -> kept");
    }
}

#[test]
fn sixty_four_names_are_kept_and_no_more() {
    let mut full = running();
    full.steps = (0..MAX_STEPS)
        .map(|n| StepRecord {
            name: n.to_string(),
            state: StepState::Done(value()),
        })
        .collect();
    assert_eq!(MAX_STEPS, 64);
    assert_eq!(
        whole(&decide(Some(&full), &begin("64"), at(T))),
        "steps full -> kept"
    );
    assert_eq!(told(&decide(Some(&full), &begin("63"), at(T))), "step done");
}

#[test]
fn what_is_not_known_of_a_step_is_not_known_of_the_attempt_unless_it_may_run_again() {
    let begun = with("charge", StepState::Begun { fence: FENCE });
    let doubtful = "done -> in doubt: Step(\"charge\"), wakes all";
    let fail = || Verb::Fail {
        fence: FENCE,
        failure: declined(),
    };
    let doubt = || Verb::Doubt {
        fence: FENCE,
        doubt: Doubt::Panicked,
    };
    for (verb, policy, expect) in [
        (Verb::Release { fence: FENCE }, Policy::Hold, doubtful),
        (Verb::Release { fence: FENCE }, Policy::Ask, doubtful),
        (
            Verb::Release { fence: FENCE },
            Policy::Rerun,
            "done -> released, wakes the first",
        ),
        (fail(), Policy::Hold, doubtful),
        (fail(), Policy::Ask, doubtful),
        (fail(), Policy::Rerun, "done -> failed declined, wakes all"),
        (doubt(), Policy::Hold, doubtful),
        (
            doubt(),
            Policy::Rerun,
            "done -> in doubt: Step(\"charge\"), wakes the first",
        ),
        // The work says that the whole is done.
        (
            Verb::Complete {
                fence: FENCE,
                value: None,
            },
            Policy::Hold,
            "done -> gone, wakes all",
        ),
    ] {
        let given = begun.clone().under(policy);
        assert_eq!(
            whole(&decide(Some(&given), &event(FRESH, verb), at(T))),
            expect,
            "{policy:?}"
        );
    }
}

#[test]
fn steps_live_as_long_as_their_parent() {
    let mut done = succeeded();
    done.steps = with("charge", StepState::Done(value())).steps;
    assert_eq!(done.without_result().steps, []);
    let released = decide(
        Some(&with("charge", StepState::Done(value()))),
        &event(FRESH, Verb::Release { fence: FENCE }),
        at(T),
    );
    let Change::Put(record) = released.change else {
        panic!("{released:?}")
    };
    let again = decide(Some(&record), &event(3, Verb::Claim(claiming(None))), at(T));
    let Change::Put(record) = again.change else {
        panic!("{again:?}")
    };
    assert_eq!(record.steps.len(), 1);
}
