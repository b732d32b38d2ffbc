//! What a function's errors say of its effect: run again, kept as the answer, or in doubt.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use semel::{Identity, RunError, StepError, Store, Ticket, WorkError};

use super::fixture::{Fault, memory, no_answer};

/// How the record of the operation stands.
fn state(store: &Store, operation: &str) -> &'static str {
    let info = store.lookup(&Identity::new(operation, "1"));
    info.expect("looks up").expect("a record").state
}

fn fault(which: u8) -> Fault {
    match which {
        1 => Fault::Timeout,
        2 => Fault::Declined { code: 51 },
        _ => Fault::Odd("smoke".to_owned()),
    }
}

#[semel::idempotent(
    store = store, operation = "sorted", key = id, payload = none,
    retry_on = Fault::Timeout | Fault::Odd(_),
    fail_on = Fault::Declined { .. },
)]
fn patterns(store: &Store, id: u32, which: u8) -> Result<u8, Fault> {
    if which > 0 {
        Err(fault(which))
    } else {
        Ok(which)
    }
}

#[test]
fn patterns_tell_the_errors_apart() {
    let store = memory();
    assert!(matches!(patterns(&store, 1, 1), Err(Fault::Timeout)));
    assert_eq!(state(&store, "sorted"), "released");
    assert!(matches!(patterns(&store, 1, 3), Err(Fault::Odd(_))));
    assert_eq!(state(&store, "sorted"), "released");
    assert!(matches!(
        patterns(&store, 1, 2),
        Err(Fault::Declined { code: 51 })
    ));
    let failed = no_answer!(Failed, patterns(&store, 1, 0));
    assert_eq!(failed.attempt, 3);
    assert_eq!(failed.failure.message, "declined with 51");
    assert_eq!(failed.failure.kind, "Fault");
}

#[test]
fn closures_and_texts_tell_them_apart_as_well() {
    #[semel::idempotent(
        store = store, operation = "closures", key = id, payload = none,
        retry_on = |error| error.to_string().contains("timed"),
        fail_on = "Fault::Declined { code: 50..=59 }",
    )]
    fn closures(store: &Store, id: u32, which: u8) -> Result<u8, Fault> {
        Err(fault(which))
    }
    let store = memory();
    closures(&store, 1, 1).expect_err("an error");
    assert_eq!(state(&store, "closures"), "released");
    closures(&store, 1, 2).expect_err("an error");
    assert_eq!(state(&store, "closures"), "failed");
}

#[test]
fn an_error_that_says_nothing_leaves_a_doubt_and_so_does_a_panic() {
    #[semel::idempotent(store = store, operation = "silent", key = id, payload = none)]
    fn silent(store: &Store, id: u32, panics: bool) -> Result<u8, Fault> {
        assert!(!panics, "this test panics on purpose");
        Err(fault(3))
    }
    let store = memory();
    assert!(matches!(silent(&store, 1, false), Err(Fault::Odd(_))));
    let doubt = no_answer!(InDoubt, silent(&store, 1, false));
    assert!(doubt.to_string().contains("smoke"), "{doubt}");
    let store = memory();
    let panicked = catch_unwind(AssertUnwindSafe(|| silent(&store, 1, true)));
    panicked.expect_err("the panic goes on");
    no_answer!(InDoubt, silent(&store, 1, true));
}

#[test]
fn a_question_mark_and_an_early_return_end_the_body_alone() {
    #[semel::idempotent(store = store, operation = "early", key = id, retry_on = Fault::Odd(_))]
    fn early(store: &Store, id: u32, text: &str) -> Result<u32, Fault> {
        if text.is_empty() {
            return Ok(0);
        }
        let number: u32 = text.parse()?;
        Ok(number)
    }
    let store = memory();
    assert_eq!(early(&store, 2, "").expect("runs"), 0);
    assert!(matches!(early(&store, 1, "x"), Err(Fault::Odd(_))));
    assert_eq!(state(&store, "early"), "released");
    early(&store, 1, "x7").expect_err("no number either");
}

/// What the error says of the effect, with a code.
fn sorted(error: Fault) -> WorkError<Fault> {
    match error {
        Fault::Timeout => semel::retryable(error),
        Fault::Declined { code } => semel::terminal(error).code(format!("declined_{code}")),
        other => WorkError::Unknown(other),
    }
}

#[test]
fn a_function_classifies_and_names_codes_where_no_pattern_spoke() {
    #[semel::idempotent(
        store = store, operation = "function", key = id, payload = none,
        classify = sorted, retry_on = Fault::Odd(_),
    )]
    fn by_path(store: &Store, id: u32, which: u8) -> Result<u8, Fault> {
        Err(fault(which))
    }
    #[semel::idempotent(store = store, operation = "function", key = id, payload = none, classify = "sorted")]
    fn by_text(store: &Store, id: u32) -> Result<u8, Fault> {
        Ok(0)
    }
    let store = memory();
    for which in [1, 3] {
        by_path(&store, 1, which).expect_err("an error");
        assert_eq!(state(&store, "function"), "released", "{which}");
    }
    by_path(&store, 1, 2).expect_err("an error");
    assert_eq!(
        no_answer!(Failed, by_text(&store, 1)).failure.code,
        "declined_51"
    );
}

#[test]
fn an_error_that_is_any_error_is_sorted_by_a_function() {
    type Any = Box<dyn std::error::Error + Send + Sync>;
    #[semel::idempotent(store = store, operation = "any", key = id, classify = WorkError::Unknown)]
    fn any(store: &Store, id: u32, text: &str) -> Result<u32, Any> {
        Ok(text.parse()?)
    }
    #[semel::idempotent(
        store = store, operation = "any", key = id, payload = none,
        classify = |error: Any| if error.is::<std::num::ParseIntError>() { semel::retryable(error) } else { WorkError::Unknown(error) },
    )]
    fn told(store: &Store, id: u32, text: &str) -> Result<u32, Any> {
        Ok(text.parse()?)
    }
    let store = memory();
    told(&store, 1, "x").expect_err("no number");
    assert_eq!(state(&store, "any"), "released");
    any(&store, 1, "x").expect_err("no number");
    let error = told(&store, 1, "5").expect_err("in doubt");
    let error = error.downcast::<RunError>().expect("semel's");
    assert!(matches!(*error, RunError::InDoubt(_)), "{error}");
}

#[test]
fn steps_are_taken_through_the_ticket_and_skipped_when_they_are_done() {
    use std::io::Error;
    #[derive(Debug)]
    enum Stepped {
        Step(StepError<Error>),
        NoAnswer(#[expect(dead_code, reason = "it is shown")] RunError),
    }
    impl std::fmt::Display for Stepped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }
    impl std::error::Error for Stepped {}
    impl From<StepError<Error>> for Stepped {
        fn from(error: StepError<Error>) -> Self {
            Self::Step(error)
        }
    }
    impl From<RunError> for Stepped {
        fn from(error: RunError) -> Self {
            Self::NoAnswer(error)
        }
    }
    #[semel::idempotent(
        store = store, operation = "steps", key = id, payload = none, ticket = running,
        retry_on = Stepped::Step(StepError::Work(WorkError::Retryable(_))),
    )]
    fn steps(store: &Store, id: u32, charges: &Cell<u32>, fail: bool) -> Result<String, Stepped> {
        let running: &Ticket = running;
        let charge = running.step("charge", || {
            charges.set(charges.get() + 1);
            Ok::<_, Error>(charges.get())
        })?;
        let ship = |()| {
            if fail {
                Err(semel::retryable(Error::other("no carrier")))
            } else {
                Ok("shipped")
            }
        };
        let shipped: String = running.step("ship", || ship(()).map(str::to_owned))?;
        Ok(format!("{charge} {shipped} {}", running.attempt()))
    }
    let (store, charges) = (memory(), Cell::new(0));
    assert!(matches!(
        steps(&store, 1, &charges, true),
        Err(Stepped::Step(_))
    ));
    assert_eq!(state(&store, "steps"), "released");
    assert_eq!(
        steps(&store, 1, &charges, false).expect("runs"),
        "1 shipped 2"
    );
    assert_eq!(
        steps(&store, 1, &charges, false).expect("replays"),
        "1 shipped 2"
    );
    assert_eq!(charges.get(), 1);
}
