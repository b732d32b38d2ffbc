//! Every option of the attribute that is no time: what it changes.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use semel::{
    Clock, Confirmation, Durability, Identity, Info, OnTwin, Policy, Renew, RunError, Store, Value,
};

use super::fixture::{Fault, LONG, frozen, memory, no_answer};

/// What the store says of the operation with the id 1.
fn info(store: &Store, operation: &str) -> Info {
    let info = store.lookup(&Identity::new(operation, "1"));
    info.expect("looks up").expect("a record")
}

#[test]
fn in_doubt_is_a_word_a_text_or_an_expression() {
    #[semel::idempotent(store = store, operation = "hold", key = id, in_doubt = hold)]
    fn hold(store: &Store, id: u32) -> Result<u32, Fault> {
        Err(Fault::Odd(id.to_string()))
    }
    #[semel::idempotent(store = store, operation = "rerun", key = id, in_doubt = "rerun", ticket = ticket)]
    fn rerun(store: &Store, id: u32) -> Result<u32, Fault> {
        match ticket.attempt() {
            1 => Err(Fault::Odd(id.to_string())),
            attempt => Ok(attempt),
        }
    }
    #[semel::idempotent(store = store, operation = "expression", key = id, in_doubt = policy, payload = none)]
    fn expression(store: &Store, id: u32, policy: Policy) -> Result<u32, Fault> {
        Ok(id)
    }
    let store = memory();
    hold(&store, 1).expect_err("an error");
    no_answer!(InDoubt, hold(&store, 1));
    rerun(&store, 1).expect_err("an error");
    assert_eq!(rerun(&store, 1).expect("runs"), 2);
    expression(&store, 1, Policy::Rerun).expect("runs");
    let policies = ["hold", "rerun", "expression"].map(|of| info(&store, of).in_doubt);
    assert_eq!(policies, [Policy::Hold, Policy::Rerun, Policy::Rerun]);
}

#[test]
fn ask_asks_and_takes_the_answer() {
    #[semel::idempotent(store = store, operation = "ask", key = id, in_doubt = ask, payload = none, confirm = |info| {
        let known = known.lock().expect("a lock").take();
        assert_eq!(info.id, "1");
        known.map_or(Confirmation::Still, Confirmation::Done)
    })]
    fn ask(store: &Store, id: u32, known: &Mutex<Option<Value>>) -> Result<u32, Fault> {
        Err(Fault::Odd(id.to_string()))
    }
    let (store, known) = (memory(), Mutex::new(None));
    ask(&store, 1, &known).expect_err("an error");
    no_answer!(InDoubt, ask(&store, 1, &known));
    *known.lock().expect("a lock") = Some(Value::of(&77u32).expect("a value"));
    assert_eq!(ask(&store, 1, &known).expect("the answer"), 77);
}

#[test]
fn attempts_end() {
    #[semel::idempotent(store = store, operation = "attempts", key = id, max_attempts = 2, retry_on = _)]
    fn twice(store: &Store, id: u32) -> Result<u32, Fault> {
        Err(Fault::Odd(id.to_string()))
    }
    let store = memory();
    for _ in 0..2 {
        assert!(matches!(twice(&store, 1), Err(Fault::Odd(_))));
    }
    let failed = no_answer!(Failed, twice(&store, 1));
    assert_eq!(failed.failure.code, semel::ATTEMPTS_EXHAUSTED);
}

#[test]
fn a_twin_is_reported_to_the_ticket_or_refused() {
    #[semel::idempotent(store = store, operation = "twin", key = id, payload = "amount", twin_window = "1h", ticket = ticket)]
    fn reported(store: &Store, id: u32, amount: u32) -> Result<Option<String>, Fault> {
        Ok(ticket.twin().map(str::to_owned))
    }
    #[semel::idempotent(store = store, operation = "twin", key = id, payload = "amount", twin_window = "1h", on_twin = refuse)]
    fn refused(store: &Store, id: u32, amount: u32) -> Result<(), Fault> {
        Ok(())
    }
    #[semel::idempotent(store = store, operation = "twin", key = id, payload = "amount", twin_window = "1h", on_twin = OnTwin::Refuse)]
    fn refused_by_expression(store: &Store, id: u32, amount: u32) -> Result<(), Fault> {
        Ok(())
    }
    let store = memory();
    assert_eq!(reported(&store, 1, 5).expect("runs"), None);
    assert_eq!(reported(&store, 2, 5).expect("runs").as_deref(), Some("1"));
    for refused in [refused, refused_by_expression] {
        let twin = no_answer!(Twin, refused(&store, 3, 5));
        assert_eq!(twin.first_id, "1");
    }
}

#[test]
fn a_holder_is_a_text_or_what_an_expression_shows() {
    #[semel::idempotent(store = store, operation = "text", key = id, holder = "worker 7")]
    fn text(store: &Store, id: u32) -> Result<Option<String>, Fault> {
        Ok(info(store, "text").holder)
    }
    #[semel::idempotent(store = store, operation = "shown", key = id, holder = format_args!("worker {}", id + 7))]
    fn shown(store: &Store, id: u32) -> Result<Option<String>, Fault> {
        Ok(info(store, "shown").holder)
    }
    let store = memory();
    assert_eq!(text(&store, 1).expect("runs").as_deref(), Some("worker 7"));
    assert_eq!(shown(&store, 1).expect("runs").as_deref(), Some("worker 8"));
}

/// Lets the lease of the running attempt end, and another attempt take the key.
fn replaced(store: &Store, clock: &Clock) {
    clock.advance(semel::DEFAULT_LEASE);
    let request = semel::Request::new("lost", "1").in_doubt(Policy::Rerun);
    let semel::Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
        panic!("the lease went on");
    };
    ticket.complete(&2u32).expect("completes");
}

#[test]
fn a_holder_who_was_replaced_is_told_and_his_answer_is_lost() {
    #[semel::idempotent(
        store = store, operation = "lost", key = id, payload = none, in_doubt = rerun, renew = "off", ticket = ticket,
        on_lost = { let tell = tell.clone(); move |why: &str| tell.send(why.to_owned()).expect("somebody listens") },
    )]
    fn slow(store: &Store, clock: &Clock, id: u32, tell: Sender<String>) -> Result<u32, Fault> {
        replaced(store, clock);
        assert!(ticket.renew().is_err());
        Ok(1)
    }
    let (store, clock) = frozen();
    let (tell, told) = channel();
    no_answer!(Lost, slow(&store, &clock, 1, tell.clone()));
    assert!(told.recv_timeout(LONG).expect("a call").contains("another"));
    assert_eq!(slow(&store, &clock, 1, tell).expect("replays"), 2);
}

#[test]
fn renewal_is_a_word_or_an_expression() {
    #[semel::idempotent(store = store, operation = "lost", key = id, payload = none, in_doubt = rerun, renew = renew)]
    fn slow(store: &Store, clock: &Clock, id: u32, renew: Renew) -> Result<u32, Fault> {
        replaced(store, clock);
        Ok(1)
    }
    #[semel::idempotent(store = store, operation = "lost", key = id, payload = none, renew = on)]
    fn renewed(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(3)
    }
    let (store, clock) = frozen();
    no_answer!(Lost, slow(&store, &clock, 1, Renew::Off));
    assert_eq!(renewed(&store, 1).expect("replays"), 2);
}

#[test]
fn relaxed_work_does_not_wait_for_the_disk() {
    use std::task::{Context, Poll, Waker};
    #[semel::idempotent(store = store, operation = "relaxed", key = id, in_doubt = rerun, durability = relaxed)]
    async fn relaxed(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    #[semel::idempotent(store = store, operation = "synced", key = id, in_doubt = rerun, durability = Durability::Sync)]
    async fn synced(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    /// Whether a future has its answer without waiting for anything.
    fn at_once(future: impl Future<Output = Result<u32, Fault>>) -> bool {
        let polled = std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()));
        matches!(polled, Poll::Ready(Ok(_)))
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    let store = Store::open(path.to_str().expect("UTF-8")).expect("opens");
    assert!((0..20).all(|id| at_once(relaxed(&store, id))));
    // A disk may be quicker than a thread that was put aside, but not always.
    assert!((0..200).any(|id| !at_once(synced(&store, id))));
}

#[test]
fn the_crate_has_the_name_that_it_is_given() {
    mod renamed {
        pub(super) use ::semel as memory;
    }
    #[semel::idempotent(store = store, operation = "renamed", key = id, crate = renamed::memory)]
    fn renamed(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    assert_eq!(renamed(&memory(), 4).expect("runs"), 4);
}

#[test]
fn an_option_that_the_store_refuses_is_an_error_before_anything_runs() {
    #[semel::idempotent(store = store, operation = "refused", key = id, payload = none, max_attempts = attempts)]
    fn refused(store: &Store, id: u32, attempts: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    let error = refused(&memory(), 1, 0);
    assert!(
        matches!(&error, Err(Fault::NoAnswer(RunError::Store(e))) if e.message().contains("max_attempts")),
        "{error:?}"
    );
}
