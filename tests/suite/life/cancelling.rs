//! A caller who awaits may go away at any point: nothing is run twice, and no result that was produced is lost.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use semel::{Doubt, Policy, Request, Store};

use super::fixture::{
    LONG, answered, block_on, directory, execute, memory, poll_once, polled, ticket,
};

/// More polls than any future of these tests takes.
const MANY: usize = 200;

#[test]
fn a_claim_dropped_at_any_await_is_as_if_it_had_not_been_made() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    for polls in 1..MANY {
        let id = format!("claim {polls}");
        let request = Request::new("op", id.as_str())
            .payload(&1)
            .expect("a payload");
        match polled(store.claim_async(&request), polls) {
            Some(claim) => {
                let done = ticket(claim.expect("claims")).complete("done");
                done.expect("completes");
                if polls > 1 {
                    return;
                }
            }
            None => {
                assert!(
                    store
                        .lookup(&(&request).into())
                        .expect("looks up")
                        .is_none()
                );
                let other = Request::new("op", id.as_str())
                    .payload(&2)
                    .expect("a payload");
                assert_eq!(execute(&store, &other).attempt(), 1, "after {polls} polls");
            }
        }
    }
    panic!("the claim never ended");
}

#[test]
fn a_run_dropped_at_any_await_keeps_what_was_done_and_runs_nothing_twice() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    for polls in 1..MANY {
        let id = format!("run {polls}");
        let request = Request::new("op", id.as_str());
        let ran = AtomicU32::new(0);
        let run = || {
            store.run_async(&request, |_| async {
                // The work suspends once; then it is done.
                let mut suspended = false;
                std::future::poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if std::mem::replace(&mut suspended, true) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                Ok::<_, io::Error>(ran.fetch_add(1, Ordering::SeqCst))
            })
        };
        let started = polled(run(), polls);
        let done = ran.load(Ordering::SeqCst);
        let claim = store.claim(&request).expect("claims");
        match (started.is_some(), done, claim.name()) {
            (true, 1, "replay") if polls > 3 => return,
            (_, 1, "replay") | (false, 0, "execute") => {}
            (false, 0, "in_doubt") => {
                let doubt = answered!(InDoubt, claim);
                assert_eq!(doubt.doubt, Doubt::Cancelled);
            }
            other => panic!("after {polls} polls: {other:?}"),
        }
    }
    panic!("the run never ended");
}

#[test]
fn every_end_of_a_ticket_stands_once_it_was_polled() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    let request = |id| Request::new("op", id);
    let done = execute(&store, &request("complete"));
    polled(done.complete_async("done"), 1);
    // Whoever does not know whether it went through may say it again.
    let again = done.complete("done");
    assert!(again.is_ok(), "{again:?}");
    assert_eq!(
        super::fixture::answer(&store, &request("complete")),
        "replay"
    );
    let failed = execute(&store, &request("fail"));
    polled(failed.fail_async(semel::Failure::new("no", "")), 1);
    assert_eq!(super::fixture::answer(&store, &request("fail")), "failed");
    let released = execute(&store, &request("release"));
    polled(released.release_async(), 1);
    assert_eq!(execute(&store, &request("release")).attempt(), 2);
    assert!(!failed.lost() && !released.lost());
    drop((failed, released));
    assert_eq!(
        super::fixture::answer(&store, &request("fail")),
        "failed",
        "dropping says nothing more"
    );
}

#[test]
fn an_end_that_was_not_polled_is_not_an_end() {
    let store = memory();
    let ticket = execute(&store, &Request::new("op", "1"));
    drop(ticket.complete_async("done"));
    drop(ticket);
    assert_eq!(
        super::fixture::answer(&store, &Request::new("op", "1")),
        "in_doubt"
    );
}

#[test]
fn work_that_is_dropped_before_it_began_is_not_cancelled_work() {
    let store = memory();
    let request = Request::new("op", "1");
    drop(store.run_async(&request, |_| async { Ok::<_, io::Error>(1) }));
    drop(store.claim_async(&request));
    assert!(store.is_empty(), "a future does nothing until it is polled");
    let run = store.run_async(&request, |_| std::future::pending::<io::Result<u8>>());
    assert!(polled(run, 1).is_none());
    let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::Cancelled);
}

#[test]
fn a_cancelled_run_lets_the_next_in_line_go_on() {
    let store = memory();
    let request = Request::new("op", "1").in_doubt(Policy::Rerun).wait(LONG);
    let mut waiting = pin!(store.claim_async(&request));
    {
        let mut running =
            pin!(store.run_async(&request, |_| std::future::pending::<io::Result<u8>>()));
        assert!(poll_once(&mut running).is_none());
        assert!(poll_once(&mut waiting).is_none());
    }
    let ticket = ticket(block_on(waiting).expect("claims"));
    assert!(ticket.is_takeover());
}

#[test]
fn a_store_can_be_closed_and_dropped_while_futures_are_alive() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    let request = Request::new("op", "1");
    let mut claim = Box::pin(store.claim_async(&request));
    let _ = poll_once(&mut claim);
    store.close().expect("closes");
    // It was on its way to the disk, and got there or was refused: never a wait without end.
    let _ = block_on(claim);
    assert_eq!(
        store.claim(&request).expect_err("closed").kind(),
        semel::ErrorKind::Closed
    );
}
