//! Message inbox: handled once, in one step with what the handling writes.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use semel::{Consumed, Error, ErrorKind, Post, Result, Store, Tx};

use super::{Place, SECOND, TICK, kind, on_each, threads};

fn failed(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

fn post(tx: &mut Tx<'_>) -> Result<Post> {
    tx.ledger("wallet").post("anna", "pay:777", 100, None)
}

fn balance(store: &Store) -> i64 {
    store.ledger("wallet").balance("anna").expect("reads")
}

#[test]
fn a_message_is_handled_once_and_then_acknowledged() {
    on_each(|place| {
        let store = place.open();
        let first = store.consume("billing", "pay:777", post).expect("handles");
        assert!(matches!(first, Consumed::Done(Post::Posted(100))));
        for _ in 0..3 {
            assert_eq!(
                store
                    .consume("billing", "pay:777", post)
                    .expect("answers")
                    .name(),
                "duplicate"
            );
        }
        // Another consumer has marks of its own.
        let other = store
            .consume("mailing", "pay:777", |_| Ok::<_, Error>(7))
            .expect("handles");
        assert!(matches!(other, Consumed::Done(7)));
        assert_eq!(balance(&store), 100);
    });
}

#[test]
fn sixty_four_deliveries_at_once_are_handled_once() {
    on_each(|place| {
        let store = place.open_live();
        let ran = AtomicUsize::new(0);
        let answers = threads(64, |_| {
            loop {
                let consumed = store.consume("billing", "pay:777", |tx| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    post(tx)
                });
                match consumed.expect("answers") {
                    Consumed::Busy(_) => std::thread::yield_now(), // requeued
                    other => return other.name(),
                }
            }
        });
        assert_eq!(answers.iter().filter(|name| **name == "done").count(), 1);
        assert_eq!(
            answers.iter().filter(|name| **name == "duplicate").count(),
            63
        );
        assert_eq!((ran.into_inner(), balance(&store)), (1, 100));
    });
}

#[test]
fn an_error_rolls_back_releases_at_once_and_is_raised() {
    on_each(|place| {
        let store = place.open();
        let error = store.consume("billing", "pay:777", |tx| {
            post(tx)?;
            Err::<(), _>(failed("no paper"))
        });
        assert_eq!(error.expect_err("raised").message(), "no paper");
        assert_eq!(balance(&store), 0);
        assert_eq!(
            store
                .consume("billing", "pay:777", post)
                .expect("handles")
                .name(),
            "done"
        );
        assert_eq!(balance(&store), 100);
    });
}

#[test]
fn a_message_whose_attempts_are_used_up_is_rejected_with_its_last_error() {
    on_each(|place| {
        let store = place.open();
        let attempts = Cell::new(0);
        let poison = || {
            store.consume("billing", "poison", |_| {
                attempts.set(attempts.get() + 1);
                Err::<(), _>(failed(&format!("error {}", attempts.get())))
            })
        };
        for _ in 0..5 {
            assert_eq!(kind(poison()), ErrorKind::Unsupported);
        }
        for _ in 0..3 {
            let Consumed::Rejected(failure) = poison().expect("answers") else {
                panic!("rejected")
            };
            assert_eq!(
                (&*failure.code, &*failure.message),
                ("attempts_exhausted", "error 5")
            );
        }
        assert_eq!(attempts.get(), 5);
        // It stands in nobody's way.
        assert_eq!(
            store
                .consume("billing", "pay:777", post)
                .expect("handles")
                .name(),
            "done"
        );
        let once = store.message("billing", "once").max_attempts(1);
        assert_eq!(
            kind(once.consume(|_| Err::<(), _>(failed("no")))),
            ErrorKind::Unsupported
        );
        assert_eq!(
            once.consume(|_| Ok::<_, Error>(()))
                .expect("answers")
                .name(),
            "rejected"
        );
        let none = store.message("billing", "none").max_attempts(0);
        assert_eq!(
            kind(none.consume(|_| Ok::<_, Error>(()))),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn the_first_delivery_says_how_often_it_is_tried() {
    let store = Place::memory().open();
    let fail = |attempts| {
        let message = store.message("billing", "m").max_attempts(attempts);
        message.consume(|_| Err::<(), _>(failed("no")))
    };
    assert_eq!(kind(fail(2)), ErrorKind::Unsupported);
    assert_eq!(kind(fail(10)), ErrorKind::Unsupported);
    let Consumed::Rejected(failure) = fail(10).expect("answers") else {
        panic!("rejected")
    };
    assert_eq!(failure.message, "no", "the last error is kept");
}

#[test]
fn a_worker_that_panics_or_dies_is_followed_by_another_until_the_attempts_are_used_up() {
    on_each(|place| {
        let store = place.open();
        let message = store.message("billing", "m").max_attempts(3);
        for _ in 0..3 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                message.consume(|tx| -> Result<()> {
                    post(tx)?;
                    panic!("in the work")
                })
            }));
            assert!(panicked.is_err());
            assert_eq!(balance(&store), 0);
        }
        let Consumed::Rejected(failure) = message.consume(|_| Ok::<_, Error>(())).expect("answers")
        else {
            panic!("rejected")
        };
        assert!(failure.message.contains("without a word"), "{failure}");
        assert_eq!(
            message
                .consume(|_| Ok::<_, Error>(()))
                .expect("answers")
                .name(),
            "rejected"
        );
        assert_eq!(
            store.stats().unresolved,
            0,
            "nobody has to resolve a message"
        );
    });
}

#[test]
fn a_message_in_hand_is_requeued_and_taken_over_at_the_leases_end() {
    on_each(|place| {
        let store = place.open();
        let handled = store.message("billing", "m").lease(SECOND).consume(|_| {
            let busy = std::thread::scope(|scope| {
                let other = || store.consume("billing", "m", |_| Ok::<_, Error>(()));
                scope.spawn(other).join().expect("no panic")
            });
            assert_eq!(busy.expect("answers").name(), "busy");
            // This worker stops for longer than its renewals last; another takes the message, and this one hears so.
            place.clock.advance(SECOND * 86_400 * 2);
            std::thread::scope(|scope| {
                let other = || store.consume("billing", "m", |_| Ok::<_, Error>(()));
                let taken = scope.spawn(other).join().expect("no panic");
                assert_eq!(taken.expect("answers").name(), "done");
            });
            Ok::<_, Error>(())
        });
        assert_eq!(kind(handled), ErrorKind::Lost);
        assert_eq!(
            store
                .consume("billing", "m", |_| Ok::<_, Error>(()))
                .expect("answers")
                .name(),
            "duplicate"
        );
    });
}

#[test]
fn marks_are_kept_for_a_week_or_as_long_as_was_said_also_after_reopening() {
    let place = Place::directory();
    let consume = |retain: Option<std::time::Duration>, id: &str| {
        let store = place.open();
        let message = store.message("billing", id);
        let message = match retain {
            Some(retain) => message.retain(retain),
            None => message,
        };
        message
            .consume(|_| Ok::<_, Error>(()))
            .expect("answers")
            .name()
    };
    let week = SECOND * 7 * 86_400;
    assert_eq!(
        (consume(None, "a"), consume(Some(SECOND), "b")),
        ("done", "done")
    );
    place.clock.advance(SECOND - TICK);
    assert_eq!(
        (consume(None, "a"), consume(Some(SECOND), "b")),
        ("duplicate", "duplicate")
    );
    place.clock.advance(TICK);
    assert_eq!(
        (consume(None, "a"), consume(Some(SECOND), "b")),
        ("duplicate", "done")
    );
    place.clock.advance(week - SECOND - TICK);
    assert_eq!(consume(None, "a"), "duplicate");
    place.clock.advance(TICK);
    assert_eq!(consume(None, "a"), "done");
}

#[test]
fn a_mark_goes_with_the_transaction_that_makes_it() {
    on_each(|place| {
        let store = place.open();
        let mark = |fail: bool| {
            store.transaction(|tx| {
                let first = tx.mark("billing", "m")?;
                match fail {
                    true => Err(failed("no")),
                    false => Ok(first),
                }
            })
        };
        assert_eq!(kind(mark(true)), ErrorKind::Unsupported);
        assert_eq!(
            (mark(false).expect("marks"), mark(false).expect("marks")),
            (true, false)
        );
        place.clock.advance(SECOND * 7 * 86_400);
        assert!(mark(false).expect("marks"));
        let short = || {
            store
                .transaction(|tx| tx.mark_for("billing", "n", SECOND))
                .expect("marks")
        };
        assert_eq!((short(), short()), (true, false));
        place.clock.advance(SECOND);
        assert!(short());
    });
}
