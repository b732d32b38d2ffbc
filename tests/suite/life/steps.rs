//! Named steps: done once, skipped by later attempts, and named when their effect is unknown.

use std::cell::Cell;
use std::io;

use semel::{
    Doubt, MAX_STEPS, Policy, Request, Resolution, RunError, StepError, Store, WorkError,
    retryable, terminal,
};

use super::fixture::{answer, answered, block_on, directory, execute, frozen, memory, seconds};

fn done<T>(value: T) -> Result<T, io::Error> {
    Ok(value)
}

#[test]
fn a_rerun_skips_what_is_done_and_gets_its_result_also_after_reopening() {
    let (_dir, path) = directory();
    let request = Request::new("order", "1").in_doubt(Policy::Rerun);
    let store = Store::open(&path).expect("opens");
    let ticket = execute(&store, &request);
    assert_eq!(
        ticket
            .step("charge", || done(("receipt".to_owned(), 7)))
            .expect("charges"),
        ("receipt".to_owned(), 7)
    );
    drop(ticket);
    drop(store);
    let store = Store::open(&path).expect("reopens");
    let ticket = execute(&store, &request);
    let receipt = ticket.step("charge", || -> io::Result<(String, u8)> {
        panic!("charged twice")
    });
    assert_eq!(
        receipt.expect("the first receipt"),
        ("receipt".to_owned(), 7)
    );
    ticket.step("ship", || done(())).expect("ships");
    ticket.complete("ordered").expect("completes");
    let info = store
        .lookup(&(&request).into())
        .expect("looks up")
        .expect("a record");
    assert_eq!(
        info.steps,
        [("charge".to_owned(), true), ("ship".to_owned(), true)]
    );
}

#[test]
fn a_ticket_keeps_sixty_four_names_and_says_when_there_are_more() {
    let store = memory();
    let ticket = execute(&store, &Request::new("order", "1"));
    for n in 0..MAX_STEPS {
        assert_eq!(
            ticket
                .step(&format!("step {n}"), || done(n))
                .expect("a step"),
            n
        );
    }
    let refused = ticket.step("one more", || -> io::Result<()> { panic!("it has run") });
    let Err(StepError::Store(error)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.kind(), semel::ErrorKind::InvalidInput);
    assert!(error.message().contains("64"), "{error}");
    assert_eq!(ticket.step("step 63", || done(0)).expect("known"), 63);
    for name in ["", "  ", "a\nb", &"x".repeat(129)] {
        let refused = ticket.step(name, || -> io::Result<()> { panic!("it has run") });
        assert!(matches!(refused, Err(StepError::Store(_))), "{name:?}");
    }
    ticket.complete("done").expect("completes");
}

#[test]
fn a_step_of_unknown_effect_leaves_a_held_operation_in_doubt_and_names_it() {
    let endings: [fn(semel::Ticket); 4] = [
        drop,
        |ticket| ticket.release().expect("is told"),
        |ticket| ticket.fail(semel::Failure::new("no", "")).expect("is told"),
        |ticket| ticket.doubt("no idea").expect("is told"),
    ];
    for (at, end) in endings.into_iter().enumerate() {
        let store = memory();
        let request = Request::new("order", "1");
        let ticket = execute(&store, &request);
        let lost = ticket.step("charge", || {
            Err::<(), _>(io::Error::other("connection reset"))
        });
        assert!(matches!(lost, Err(StepError::Work(WorkError::Unknown(_)))));
        end(ticket);
        let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
        assert_eq!(doubt.doubt, Doubt::Step("charge".into()), "ending {at}");
        assert!(doubt.message.contains("charge"), "{}", doubt.message);
    }
}

#[test]
fn a_step_that_is_known_to_have_done_nothing_leaves_no_trace() {
    let store = memory();
    let request = Request::new("order", "1");
    let ticket = execute(&store, &request);
    let busy = ticket.step("charge", || Err::<(), _>(retryable("line busy")));
    assert!(matches!(
        busy,
        Err(StepError::Work(WorkError::Retryable("line busy")))
    ));
    let declined = ticket.step("charge", || Err::<(), _>(terminal("declined")));
    assert!(matches!(
        declined,
        Err(StepError::Work(WorkError::Terminal("declined", _)))
    ));
    ticket.release().expect("releases");
    let ticket = execute(&store, &request);
    assert_eq!(ticket.step("charge", || done(1)).expect("charges"), 1);
    ticket.complete("done").expect("completes");
}

#[test]
fn the_error_of_a_step_ends_the_work_as_it_ends_the_step() {
    let run = |id: &str, fails: fn() -> Result<(), WorkError<String>>| {
        let store = memory();
        let request = Request::new("order", id);
        let got = store.run(&request, |ticket| {
            ticket.step("charge", fails)?;
            Ok::<_, StepError<String>>(())
        });
        assert!(
            matches!(got, Err(RunError::Work(StepError::Work(_)))),
            "{got:?}"
        );
        answer(&store, &request)
    };
    assert_eq!(
        run("retryable", || Err(retryable("busy".into()))),
        "execute"
    );
    assert_eq!(
        run("terminal", || Err(terminal("declined".to_owned()))),
        "failed"
    );
    assert_eq!(
        run("unknown", || Err(WorkError::Unknown("reset".into()))),
        "in_doubt"
    );
}

#[test]
fn a_panic_in_a_step_names_the_step() {
    let store = memory();
    let request = Request::new("order", "1");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.run(&request, |ticket| {
            ticket.step("charge", || -> io::Result<()> { panic!("at the till") })?;
            Ok::<_, StepError<io::Error>>(())
        })
    }));
    assert!(caught.is_err());
    let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::Step("charge".into()));
    store
        .resolve(&(&request).into(), Resolution::Rerun)
        .expect("resolves");
    let ticket = execute(&store, &request);
    assert_eq!(
        ticket
            .step("charge", || done("charged".to_owned()))
            .expect("once more"),
        "charged"
    );
    ticket.complete("done").expect("completes");
}

#[test]
fn steps_go_by_the_fence_of_their_parent() {
    let (store, clock) = frozen();
    let request = Request::new("order", "1")
        .in_doubt(Policy::Rerun)
        .renew(semel::Renew::Off);
    let ran = Cell::new(0);
    let old = execute(&store, &request);
    clock.advance(seconds(30));
    let new = execute(&store, &request);
    let refused = old.step("charge", || {
        ran.set(ran.get() + 1);
        done(())
    });
    let Err(StepError::Store(error)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((error.kind(), ran.get()), (semel::ErrorKind::Lost, 0));
    assert!(old.lost());
    new.complete("done").expect("completes");
}

#[test]
fn a_step_that_awaits_is_the_same_step() {
    let store = memory();
    let request = Request::new("order", "1");
    let got = block_on(store.run_async(&request, |ticket| async move {
        let first = ticket.step_async("charge", || async { done(1) }).await?;
        let again = ticket.step_async("charge", || async { done(2) }).await?;
        Ok::<_, StepError<io::Error>>((first, again))
    }));
    assert_eq!(got.expect("runs"), (1, 1));

    let given_up = Request::new("order", "2");
    let ticket = execute(&store, &given_up);
    let step = ticket.step_async("charge", std::future::pending::<io::Result<()>>);
    assert!(super::fixture::polled(step, 1).is_none());
    drop(ticket);
    let doubt = answered!(InDoubt, store.claim(&given_up).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::Step("charge".into()));
}

#[test]
fn a_derived_key_is_the_same_in_every_attempt_and_another_for_every_name_and_key() {
    let store = memory();
    let request = Request::new("order", "1");
    let ticket = execute(&store, &request);
    let keys = (ticket.derive_key("charge"), ticket.derive_key("ship"));
    ticket.release().expect("releases");
    let again = execute(&store, &request);
    assert_eq!((again.derive_key("charge"), again.derive_key("ship")), keys);
    let other = execute(&store, &Request::new("order", "2"));
    assert_ne!(other.derive_key("charge"), keys.0);
    assert_ne!(keys.0, keys.1);
    assert!(keys.0.len() == 32 && keys.0.bytes().all(|b| b.is_ascii_hexdigit()));
}
