//! Bounds: results that are not kept, records that are too many. What was executed stays executed.

use semel::{ErrorKind, Request, Store, Value};
use serde::{Serialize, Serializer, ser::Error};

use super::fixture::{answer, answered, directory, execute, memory, replayed, seconds};

/// A value that serde cannot write.
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("a socket has no bytes"))
    }
}

#[test]
fn a_result_that_is_too_long_is_executed_all_the_same_and_does_not_run_again() {
    let (_dir, path) = directory();
    for place in ["memory:", path.as_str()] {
        let store = Store::builder(place)
            .max_result_bytes(100)
            .open()
            .expect("opens");
        let fits = Request::new("pay", "fits");
        execute(&store, &fits)
            .complete_value(Value::bytes(vec![7; 100]))
            .expect("completes");
        assert_eq!(answer(&store, &fits), "replay");
        let long = Request::new("pay", "long");
        execute(&store, &long)
            .complete_value(Value::bytes(vec![7; 101]))
            .expect("completes");
        let gone = answered!(Gone, store.claim(&long).expect("claims"));
        assert_eq!(gone.attempt, 1);
        let run = Request::new("pay", "run");
        let text = "x".repeat(200);
        let first = store.run(&run, |_| Ok::<_, std::io::Error>(text.clone()));
        assert_eq!(first.expect("the first caller has it"), text);
        let again = store.run(&run, |_| -> Result<String, std::io::Error> {
            panic!("it has run")
        });
        assert!(matches!(again, Err(semel::RunError::Gone(_))));
        assert_eq!(store.stats().totals().results_not_kept, 2);
    }
}

#[test]
fn a_result_that_cannot_be_encoded_is_executed_all_the_same() {
    let store = memory();
    let request = Request::new("pay", "1");
    execute(&store, &request)
        .complete(&Unwritable)
        .expect("completes");
    assert_eq!(answer(&store, &request), "gone");
    assert_eq!(store.stats().totals().results_not_kept, 1);
}

#[test]
fn a_result_for_which_the_steps_leave_no_room_is_not_kept() {
    let (_dir, path) = directory();
    let store = Store::builder(&path)
        .max_result_bytes(4 << 20)
        .open()
        .expect("opens");
    let request = Request::new("pay", "1");
    let ticket = execute(&store, &request);
    let part = || Ok::<_, std::io::Error>("x".repeat(3 << 20));
    for name in ["a", "b"] {
        ticket.step(name, part).expect("a step");
    }
    ticket.complete(&"x".repeat(3 << 20)).expect("completes");
    assert_eq!(answer(&store, &request), "gone");
    assert_eq!(store.stats().totals().results_not_kept, 1);
}

#[test]
fn a_full_store_refuses_new_operations_and_ends_those_that_run() {
    let (_dir, path) = directory();
    for place in ["memory:", path.as_str()] {
        let store = Store::builder(place).max_records(2).open().expect("opens");
        let request = |id| Request::new("pay", id);
        let running = execute(&store, &request("a"));
        execute(&store, &request("b"))
            .complete("b")
            .expect("completes");
        let error = store.claim(&request("c")).expect_err("full");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        for word in ["max_records", "2", "sweep"] {
            assert!(error.message().contains(word), "{error}");
        }
        running.renew().expect("renews");
        running
            .step("one", || Ok::<_, std::io::Error>(()))
            .expect("a step");
        running.complete("a").expect("completes");
        assert_eq!(replayed(store.claim(&request("a")).expect("claims")), "a");
        assert!(
            store
                .lookup(&(&request("c")).into())
                .expect("looks up")
                .is_none()
        );
        assert_eq!(store.len(), 2);
        store.forget(&(&request("b")).into()).expect("forgets");
        store.sync().expect("syncs");
        super::fixture::eventually("room", || store.claim(&request("c")).is_ok());
    }
}

#[test]
fn a_full_store_has_room_again_after_sweeping() {
    let (clock, builder) = (
        semel::Clock::manual(super::fixture::START),
        Store::builder("memory:"),
    );
    let store = builder
        .clock(clock.clone())
        .sweep_by_hand()
        .max_records(1)
        .open()
        .expect("opens");
    let request = |id| Request::new("pay", id).retain(seconds(1));
    execute(&store, &request("a"))
        .complete("a")
        .expect("completes");
    clock.advance(seconds(1));
    assert_eq!(
        store.claim(&request("b")).expect_err("full").kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(store.sweep().expect("sweeps"), 1);
    assert_eq!(answer(&store, &request("b")), "execute");
}

#[test]
fn a_closed_store_says_so_to_every_verb() {
    let store = memory();
    let request = Request::new("pay", "1");
    let ticket = execute(&store, &request);
    store.close().expect("closes");
    store.close().expect("closing twice is no error");
    let identity = (&request).into();
    let errors = [
        store.claim(&request).map(drop).expect_err("closed"),
        store.lookup(&identity).map(drop).expect_err("closed"),
        store.forget(&identity).map(drop).expect_err("closed"),
        store
            .resolve(&identity, semel::Resolution::Rerun)
            .map(drop)
            .expect_err("closed"),
        store.unresolved(1).map(drop).expect_err("closed"),
        store.sweep().map(drop).expect_err("closed"),
        store
            .list()
            .next()
            .expect("an item")
            .map(drop)
            .expect_err("closed"),
        ticket.complete("late").expect_err("closed"),
        ticket.renew().expect_err("closed"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
}
