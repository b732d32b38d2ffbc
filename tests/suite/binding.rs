//! What bindings for other languages stand on: waiting that can be given up, tasks with numbers, work and steps in parts.

use std::time::Duration;

use semel::binding::{self, Step};
use semel::{Claim, Lock, Request, RunError, Store, Value, retryable, terminal};

fn store() -> Store {
    Store::open("memory:").expect("opens")
}

fn request() -> Request<'static> {
    Request::new("pay", "P-1").wait(Duration::from_secs(3600))
}

fn execute(store: &Store) -> semel::Ticket {
    match store.claim(&request()).expect("claims") {
        Claim::Execute(ticket) => ticket,
        other => panic!("{}", other.name()),
    }
}

/// What somebody else does, on a thread of his own.
fn elsewhere<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(call).join().expect("no panic"))
}

#[test]
fn a_wait_that_is_given_up_claims_nothing() {
    let store = store();
    let held = execute(&store);
    let mut asked = 0;
    let given_up = elsewhere(|| {
        binding::claim_unless(&store, &request(), &mut || {
            asked += 1;
            asked == 2
        })
    });
    assert!(given_up.expect("no error").is_none());
    assert_eq!(asked, 2);
    held.release().expect("releases");
    assert_eq!(execute(&store).attempt(), 2);
}

#[test]
fn what_needs_no_wait_is_not_asked_whether_to_stop() {
    let store = store();
    let never = &mut || -> bool { panic!("asked") };
    let claim = binding::claim_unless(&store, &request(), never).expect("claims");
    assert!(matches!(claim, Some(Claim::Execute(_))));
    // The same thread does not wait for itself here either.
    let again = binding::claim_unless(&store, &request(), never).expect("claims");
    assert!(matches!(again, Some(Claim::Busy(_))));
}

#[test]
fn a_lock_that_is_given_up_is_left_to_others() {
    let store = store();
    let Lock::Held(guard) = store.lock("l").acquire().expect("acquires") else {
        panic!("busy");
    };
    let given_up = elsewhere(|| {
        let lock = store.lock("l").wait(Duration::from_secs(3600));
        binding::acquire_unless(&lock, &mut || true).map(|told| told.is_none())
    });
    assert!(given_up.expect("no error"));
    guard.release().expect("releases");
    assert!(matches!(store.lock("l").acquire(), Ok(Lock::Held(_))));
}

#[test]
fn a_task_does_not_wait_for_the_tasks_whose_work_it_does() {
    let store = store();
    let task = binding::task();
    let claim = |task, within| {
        binding::block_on(binding::claim_within(&store, &request(), task, within)).expect("claims")
    };
    let first = claim(task, vec![]);
    assert_eq!(first.name(), "execute");
    let inner = claim(binding::task(), vec![binding::task(), task]);
    assert_eq!(inner.name(), "busy");
}

#[test]
fn work_in_parts_ends_as_work_in_one() {
    let store = store();
    let worked = binding::work(&execute(&store), || Err::<u8, _>(retryable("busy line")));
    assert!(matches!(worked, Err(RunError::Work("busy line"))));
    let concluded = binding::block_on(binding::conclude(
        &execute(&store),
        Err::<u8, _>(retryable("busy line")),
    ));
    assert!(matches!(concluded, Err(RunError::Work("busy line"))));
    binding::give_back(&execute(&store));
    let ticket = execute(&store);
    assert_eq!(ticket.attempt(), 4);
    let worked = binding::work(&ticket, || Err::<u8, _>(terminal("declined")));
    assert!(matches!(worked, Err(RunError::Work("declined"))));
    assert_eq!(store.claim(&request()).expect("claims").name(), "failed");
}

#[test]
fn abandoned_work_is_in_doubt() {
    let store = store();
    binding::abandon(&execute(&store));
    assert_eq!(store.claim(&request()).expect("claims").name(), "in_doubt");
}

#[test]
fn a_step_in_parts_is_done_once() {
    let store = store();
    let begin = |ticket: &semel::Ticket| {
        binding::block_on(binding::begin_step(ticket, "charge")).expect("begins")
    };
    let ticket = execute(&store);
    let Step::Run(run) = begin(&ticket) else {
        panic!("done");
    };
    assert!(binding::block_on(binding::begin_step(&ticket, "charge")).is_err());
    let kept = binding::block_on(run.conclude(Ok::<_, std::io::Error>("receipt".to_owned())));
    assert_eq!(kept.expect("keeps"), "receipt");
    drop(run);
    ticket.release().expect("releases");
    let Step::Done(value) = begin(&execute(&store)) else {
        panic!("again");
    };
    assert_eq!(value, Value::of("receipt").expect("encodes"));
}
