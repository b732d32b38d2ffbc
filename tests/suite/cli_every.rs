//! `semel run --every`: a job that every node's scheduler starts runs once in its period.

use crate::cli_process::{Place, say, semel};

/// A period that does not end while a test runs.
const AGE: &str = "36500d";

#[test]
fn a_job_runs_once_in_its_period_and_repeats_get_its_output_and_status() {
    let place = Place::new();
    let script = "echo x >> $1; echo report; echo note >&2; exit 3";
    let first = place.run("report", &["--every", AGE], script);
    assert_eq!(
        (first.status, first.last_line().as_str()),
        (3, "semel: executed"),
        "{}",
        first.err()
    );
    for _ in 0..2 {
        let again = place.run("report", &["--every", AGE], script);
        assert_eq!(
            (again.status, again.out().as_str()),
            (3, "report\n"),
            "{}",
            again.err()
        );
        assert!(
            again.last_line().starts_with("semel: replayed"),
            "{}",
            again.err()
        );
    }
    // Other work has periods of its own.
    assert_eq!(
        place.run("cleanup", &["--every", AGE], script).last_line(),
        "semel: executed"
    );
    assert_eq!(place.effects(), 2);
}

#[test]
fn the_next_period_is_another_operation() {
    let place = Place::new();
    let mut executed = 0;
    for _ in 0..200 {
        let said = place.run("report", &["--every", "300ms"], "echo x >> $1");
        assert_eq!(said.status, 0, "{}", said.err());
        executed += usize::from(said.last_line() == "semel: executed");
        if executed == 3 {
            break;
        }
    }
    assert_eq!((executed, place.effects()), (3, 3));
}

#[test]
fn of_schedulers_that_start_it_at_once_one_runs_it() {
    let place = Place::new();
    let script = "echo x >> $1; echo done";
    // All of them at one store, whoever holds it.
    let running: Vec<_> = (0..4)
        .map(|_| {
            place
                .running("report", &["--every", AGE, "--wait", "1m"], script)
                .spawn()
                .expect("semel starts")
        })
        .collect();
    for child in running {
        let output = child.wait_with_output().expect("ends");
        assert_eq!(
            (output.status.code(), &output.stdout[..]),
            (Some(0), &b"done\n"[..]),
            "{output:?}"
        );
    }
    let last = place.run("report", &["--every", AGE], script);
    assert_eq!(
        (last.status, last.out().as_str(), place.effects()),
        (0, "done\n", 1),
        "{}",
        last.err()
    );
}

#[test]
fn a_period_whose_run_was_killed_is_in_doubt_under_its_own_key() {
    let place = Place::new();
    let run = || place.run("report", &["--every", AGE], "echo x >> $1; kill -9 $$");
    assert_eq!(run().status, 137);
    let again = run();
    assert_eq!(again.status, 73, "{}", again.err());
    let key = format!("report@{}", period(&place));
    assert!(again.last_line().contains(&key), "{}", again.err());
    let store = place.store();
    let resolved = say(&["resolve", "--store", &store, "--key", &key, "--rerun"]);
    assert_eq!(resolved.status, 0, "{}", resolved.err());
    assert_eq!((run().status, place.effects()), (137, 2));
}

/// The beginning of the present period, as the store names it.
fn period(place: &Place) -> String {
    let listed = say(&["list", "--store", &place.store(), "--json"]);
    let out = listed.out();
    let start = out.find("report@").expect("a key of the period") + "report@".len();
    out[start..].chars().take_while(|c| *c != '"').collect()
}

#[test]
fn what_is_no_period_is_refused_and_nothing_runs() {
    let place = Place::new();
    for every in ["0", "1ms", "1", "day"] {
        let said = place.run("report", &["--every", every], "echo x >> $1");
        assert_eq!(said.status, 64, "{every}: {}", said.err());
    }
    assert_eq!(place.effects(), 0);
    let memory = semel(&[
        "run", "--store", "memory:", "--key", "k", "--every", "1d", "--", "true",
    ])
    .status();
    assert_eq!(memory.expect("starts").code(), Some(64));
}
