//! Who would wait for himself gets Busy at once, however long he is willing to wait.

use std::time::Duration;

use semel::{Confirmation, Policy, Request, RunError, Stopwatch};

use super::fixture::{LONG, answer, block_on, execute, memory};

const FOR_EVER: Duration = Duration::MAX;

fn request() -> Request<'static> {
    Request::new("pay", "P-1").wait(FOR_EVER)
}

fn done(value: u8) -> Result<u8, std::io::Error> {
    Ok(value)
}

#[test]
fn the_same_thread_does_not_wait_for_itself() {
    let store = memory();
    let ticket = execute(&store, &request());
    assert_eq!(answer(&store, &request()), "busy");
    ticket.complete("done").expect("completes");
    assert_eq!(answer(&store, &request()), "replay");
}

#[test]
fn work_that_runs_its_own_key_again_is_busy() {
    let store = memory();
    let got = store.run(&request(), |_| {
        let inner = store.run(&request(), |_| done(2));
        assert!(matches!(inner, Err(RunError::Busy(_))), "{inner:?}");
        done(1)
    });
    assert_eq!(got.expect("runs"), 1);
}

#[test]
fn the_same_task_does_not_wait_for_itself_however_it_asks() {
    let store = memory();
    let got = block_on(store.run_async(&request(), |_| async {
        let run = store.run_async(&request(), |_| async { done(2) }).await;
        assert!(matches!(run, Err(RunError::Busy(_))), "{run:?}");
        let claim = store.claim_async(&request()).await.expect("claims");
        assert_eq!(claim.name(), "busy");
        assert_eq!(answer(&store, &request()), "busy");
        done(1)
    }));
    assert_eq!(got.expect("runs"), 1);
}

#[test]
fn work_that_blocks_on_a_future_of_its_own_key_is_busy() {
    let store = memory();
    let got = store.run(&request(), |_| {
        let inner = block_on(store.run_async(&request(), |_| async { done(2) }));
        assert!(matches!(inner, Err(RunError::Busy(_))), "{inner:?}");
        assert_eq!(
            block_on(store.claim_async(&request()))
                .expect("claims")
                .name(),
            "busy"
        );
        done(1)
    });
    assert_eq!(got.expect("runs"), 1);
}

#[test]
fn who_is_asked_about_a_key_does_not_wait_for_his_own_answer() {
    let (store, other) = (memory(), memory());
    let asked = || request().in_doubt(Policy::Ask);
    drop(execute(&store, &asked())); // in doubt
    let waited = Stopwatch::start();
    let inner = (store.clone(), other.clone());
    let confirming = asked().confirm(move |_| {
        assert_eq!(answer(&inner.0, &request()), "busy");
        assert_eq!(
            block_on(inner.0.claim_async(&request()))
                .expect("claims")
                .name(),
            "busy"
        );
        // The same name in another store is another key, and another thread waits for the answer.
        assert_eq!(answer(&inner.1, &request()), "execute");
        Confirmation::NotDone
    });
    let ticket = execute(&store, &confirming);
    assert!(waited.elapsed() < LONG, "{:?}", waited.elapsed());
    ticket.complete("done").expect("completes");
    assert_eq!(answer(&store, &request()), "replay");
}

#[test]
fn another_key_may_be_claimed_and_another_thread_waits() {
    let store = memory();
    let got = store.run(&request(), |_| {
        let inner = store.run(&Request::new("pay", "P-2"), |_| done(2));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let waited = Stopwatch::start();
                let brief = request().wait(Duration::from_millis(20));
                assert_eq!(answer(&store, &brief), "busy");
                waited.elapsed()
            });
            let waited = other.join().expect("no panic");
            assert!(
                waited >= Duration::from_millis(20) && waited < LONG,
                "{waited:?}"
            );
        });
        inner.map_err(|error| std::io::Error::other(error.to_string()))
    });
    assert_eq!(got.expect("runs"), 2);
}

#[test]
fn two_tasks_on_one_thread_are_two() {
    let (store, request) = (memory(), request());
    let first = std::pin::pin!(store.run_async(&request, |_| async {
        let mut polls = 0;
        std::future::poll_fn(move |context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls > 1 {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
        done(1)
    }));
    let mut first = first;
    assert!(super::fixture::poll_once(&mut first).is_none());
    let mut second = std::pin::pin!(store.run_async(&request, |_| async { done(2) }));
    assert!(super::fixture::poll_once(&mut second).is_none(), "it waits");
    assert_eq!(block_on(first).expect("runs"), 1);
    assert_eq!(block_on(second).expect("replays"), 1);
}
