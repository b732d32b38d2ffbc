//! Batches: each operation has its own answer, and a batch may fail in part.

use std::cell::RefCell;
use std::time::Duration;

use semel::{Claim, Request, RunError, Stopwatch, retryable, terminal};

use super::{Place, kind, on_each, threads};

fn requests(ids: &[&'static str]) -> Vec<Request<'static>> {
    ids.iter()
        .map(|id| Request::new("mail.send", *id))
        .collect()
}

#[test]
fn every_operation_of_a_batch_is_claimed_by_itself() {
    on_each(|place| {
        let store = place.open();
        store
            .run(&Request::new("mail.send", "B"), |_| {
                Ok::<_, std::io::Error>(1)
            })
            .expect("runs");
        let mut batch = requests(&["A", "B", "A", "", "C"]);
        batch.push(Request::new("mail.send", "B").payload(&1).expect("payload"));
        let answers = store.claim_many(&batch);
        let names: Vec<&str> = answers
            .iter()
            .map(|answer| {
                answer
                    .as_ref()
                    .map_or_else(|error| error.kind().name(), Claim::name)
            })
            .collect();
        // A record without a payload compares nothing.
        assert_eq!(
            names,
            [
                "execute",
                "replay",
                "busy",
                "InvalidInput",
                "execute",
                "replay"
            ]
        );
        assert!(store.claim_many(&[]).is_empty());
    });
}

#[test]
fn a_batch_fails_in_part_and_a_repeat_runs_what_may_run_again() {
    on_each(|place| {
        let store = place.open();
        let ran = RefCell::new(Vec::new());
        let batch = requests(&["A", "B", "C", "D", "A"]);
        let run = || {
            store.run_many(&batch, |at, ticket| {
                ran.borrow_mut().push((at, ticket.attempt()));
                match (at, ticket.attempt()) {
                    (1, 1) => Err(retryable(std::io::Error::other("later"))),
                    (2, _) => Err(terminal(std::io::Error::other("never"))),
                    (3, _) => Err(semel::WorkError::Unknown(std::io::Error::other(
                        "who knows",
                    ))),
                    _ => Ok(at * 10),
                }
            })
        };
        let name = |outcome: &Result<usize, RunError<usize, std::io::Error>>| match outcome {
            Ok(value) => format!("ok {value}"),
            Err(RunError::Work(error)) => error.to_string(),
            Err(RunError::Failed(_)) => "failed".to_owned(),
            Err(RunError::InDoubt(_)) => "in_doubt".to_owned(),
            Err(other) => format!("{other:?}"),
        };
        let names = |outcomes: Vec<_>| -> Vec<String> { outcomes.iter().map(name).collect() };
        assert_eq!(
            names(run()),
            ["ok 0", "later", "never", "who knows", "ok 0"]
        );
        assert_eq!(
            names(run()),
            ["ok 0", "ok 10", "failed", "in_doubt", "ok 0"]
        );
        assert_eq!(*ran.borrow(), [(0, 1), (1, 1), (2, 1), (3, 1), (1, 2)]);
    });
}

#[test]
fn a_panic_leaves_its_own_operation_in_doubt_and_those_that_had_not_begun_may_run() {
    on_each(|place| {
        let store = place.open();
        let batch = requests(&["A", "B", "C", "D"]);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            store.run_many(&batch, |at, _| match at {
                1 => panic!("in the work"),
                _ => Ok::<_, std::io::Error>(at),
            })
        }));
        assert!(panicked.is_err());
        let names: Vec<&str> = batch
            .iter()
            .map(|request| store.claim(request).expect("answers").name())
            .collect();
        assert_eq!(names, ["replay", "in_doubt", "execute", "execute"]);
    });
}

#[test]
fn a_closed_store_answers_every_operation_with_an_error() {
    let store = Place::memory().open();
    store.close().expect("closes");
    for answer in store.claim_many(&requests(&["A", "B"])) {
        assert_eq!(kind(answer.map(|_| ())), semel::ErrorKind::Closed);
    }
}

#[test]
fn two_batches_in_opposite_order_do_not_wait_for_each_other() {
    on_each(|place| {
        let store = place.open_live();
        let waited = Stopwatch::start();
        threads(2, |thread| {
            for round in 0..20 {
                let mut ids: Vec<String> = (0..4).map(|at| format!("{round}-{at}")).collect();
                if thread == 1 {
                    ids.reverse();
                }
                let batch: Vec<Request<'_>> = ids
                    .iter()
                    .map(|id| Request::new("mail.send", id.as_str()).wait(Duration::from_secs(60)))
                    .collect();
                for sent in store.run_many(&batch, |at, _| Ok::<_, std::io::Error>(ids[at].clone()))
                {
                    sent.expect("each is run, or waited for");
                }
            }
        });
        assert!(
            waited.elapsed() < Duration::from_secs(50),
            "{:?}",
            waited.elapsed()
        );
        assert_eq!(store.stats().totals().executed, 80);
    });
}
