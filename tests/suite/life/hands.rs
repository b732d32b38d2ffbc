//! A ticket in several hands, and a store that goes while it is used: one end stands, and who said another is told so.

use std::cell::RefCell;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Claim, ErrorKind, Policy, Request, StepError, Store, Ticket};

use super::fixture::{answer, answered, block_on, directory, eventually, execute, memory, polled};

#[test]
fn of_two_results_one_is_kept_and_who_gave_the_other_is_told() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    for round in 0..50 {
        let id = format!("op {round}");
        let request = Request::new("op", id.as_str());
        let ticket = execute(&store, &request);
        let start = Barrier::new(2);
        let said: Vec<u32> = std::thread::scope(|scope| {
            let hands: Vec<_> = (1..=2)
                .map(|value: u32| {
                    let (ticket, start) = (ticket.clone(), &start);
                    scope.spawn(move || {
                        start.wait();
                        ticket.complete(&value).map(|()| value)
                    })
                })
                .collect();
            let ends = hands.into_iter().map(|hand| hand.join().expect("no panic"));
            ends.filter_map(|end| match end {
                Ok(value) => Some(value),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
                    None
                }
            })
            .collect()
        });
        let replay = answered!(Replay, store.claim(&request).expect("claims"));
        assert_eq!(said, [replay.decode::<u32>().expect("a number")]);
        assert!(!ticket.lost(), "nobody took it");
    }
}

#[test]
fn another_result_after_one_that_was_given_up_on_its_way_is_refused() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    let request = Request::new("op", "1");
    let ticket = execute(&store, &request);
    polled(ticket.complete_async("first"), 1);
    let second = ticket.complete("second").expect_err("the first stands");
    assert_eq!(second.kind(), ErrorKind::Lost);
    assert!(!ticket.lost(), "nobody took it");
    let replay = answered!(Replay, store.claim(&request).expect("claims"));
    assert_eq!(replay.decode::<String>().expect("text"), "first");
    assert_eq!(store.stats().totals().possible_double_effects, 0);
}

#[test]
fn a_step_runs_in_one_hand_at_a_time() {
    for policy in [Policy::Hold, Policy::Rerun] {
        let store = memory();
        let ticket = execute(&store, &Request::new("op", "1").in_doubt(policy));
        let ran = AtomicU32::new(0);
        let got = ticket.step("charge", || {
            let inner = ticket.step("charge", || {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok::<_, io::Error>(1)
            });
            assert!(matches!(inner, Err(StepError::Store(_))), "{inner:?}");
            let awaited = block_on(ticket.step_async("charge", || async {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok::<_, io::Error>(1)
            }));
            assert!(matches!(awaited, Err(StepError::Store(_))), "{awaited:?}");
            Ok::<_, io::Error>(2)
        });
        assert_eq!((got.expect("charges"), ran.into_inner()), (2, 0));
        let ran = AtomicU32::new(0);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let _ = ticket.step("ship", || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok::<_, io::Error>(1)
                    });
                });
            }
        });
        assert_eq!(ran.into_inner(), 1);
    }
}

#[test]
fn a_step_of_unknown_effect_is_not_tried_again_where_nobody_may_run_it_again() {
    for (policy, runs) in [(Policy::Hold, 1), (Policy::Ask, 1), (Policy::Rerun, 2)] {
        let store = memory();
        let ticket = execute(&store, &Request::new("op", "1").in_doubt(policy));
        let ran = AtomicU32::new(0);
        let charge = || {
            ticket.step("charge", || {
                ran.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(io::Error::other("connection reset"))
            })
        };
        assert!(charge().is_err() && charge().is_err());
        assert_eq!(ran.load(Ordering::SeqCst), runs, "{policy:?}");
    }
}

thread_local! {
    static KEPT: RefCell<Option<(Store, Ticket)>> = const { RefCell::new(None) };
}

#[test]
fn a_store_that_a_thread_keeps_to_itself_ends_with_the_thread() {
    let (_dir, path) = directory();
    let request = Request::new("op", "1");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Made first, it goes last: after all that the store keeps by thread.
            KEPT.with_borrow_mut(|kept| {
                let store = Store::open(&path).expect("opens");
                let ticket = execute(&store, &request);
                *kept = Some((store, ticket));
            });
        });
    });
    let store = Store::open(&path).expect("it was closed");
    assert_eq!(answer(&store, &request), "in_doubt");
}

#[test]
fn whoever_gets_a_ticket_of_a_store_that_is_being_closed_is_told_that_it_is_lost() {
    for round in 0..200 {
        let store = memory();
        let id = format!("op {round}");
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            let claiming = scope.spawn(|| {
                start.wait();
                store.claim(&Request::new("op", id.as_str()))
            });
            start.wait();
            store.close().expect("closes");
            if let Ok(Claim::Execute(ticket)) = claiming.join().expect("no panic") {
                eventually("the loss", || ticket.lost());
            }
        });
    }
}
