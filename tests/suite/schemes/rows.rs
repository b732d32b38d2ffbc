//! Pessimistic lock: rows are locked in one order, changed together, and let go on every way out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel::{Error, ErrorKind, Post, Store};

use super::{Place, SECOND, TICK, kind, on_each, stored, threads};

fn filled(store: &Store, ids: &[&str]) {
    for id in ids {
        store.table("account").put(id, &100i64).expect("puts");
    }
}

fn value(store: &Store, id: &str) -> Option<i64> {
    store
        .table("account")
        .get(id)
        .expect("reads")
        .map(|row| row.value)
}

#[test]
fn what_was_set_is_written_together_at_the_commit_and_not_before() {
    on_each(|place| {
        let store = place.open();
        filled(&store, &["a", "b"]);
        let mut rows = store
            .lock_rows("account", &["b", "a", "c", "a"])
            .lock::<i64>()
            .expect("locks");
        assert_eq!(rows.ids().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(
            (rows.get("a").expect("reads"), rows.get("c").expect("reads")),
            (Some(100), None)
        );
        rows.set("a", 70).expect("sets");
        rows.set("c", 30).expect("sets");
        rows.remove("b").expect("removes");
        assert_eq!(
            (rows.get("a").expect("reads"), rows.get("b").expect("reads")),
            (Some(70), None)
        );
        assert_eq!(
            (value(&store, "a"), value(&store, "b"), value(&store, "c")),
            (Some(100), Some(100), None)
        );
        rows.commit().expect("commits");
        assert_eq!(
            (value(&store, "a"), value(&store, "b"), value(&store, "c")),
            (Some(70), None, Some(30))
        );
        assert_eq!(stored(&store), 2, "no lock is left");
    });
}

#[test]
fn every_way_out_lets_go_and_writes_nothing_but_the_commit() {
    on_each(|place| {
        let store = place.open();
        filled(&store, &["a", "b"]);
        let lock = || {
            store
                .lock_rows("account", &["a", "b"])
                .timeout(Duration::ZERO)
                .lock::<i64>()
                .expect("locks")
        };
        // Dropped.
        let mut rows = lock();
        rows.set("a", 1).expect("sets");
        drop(rows);
        // A panic.
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut rows = lock();
            rows.set("a", 2).expect("sets");
            panic!("in the work");
        }));
        assert!(panicked.is_err());
        // An error of the work that goes with the commit.
        let mut rows = lock();
        rows.set("a", 3).expect("sets");
        let failed = rows.commit_with(|tx| {
            tx.emit("topic", "m-1", &1)?;
            Err::<(), _>(Error::new(ErrorKind::Unsupported, "no"))
        });
        assert_eq!(kind(failed), ErrorKind::Unsupported);
        // Rows of another type, after the locks were taken.
        assert_eq!(
            kind(store.lock_rows("account", &["a"]).lock::<String>()),
            ErrorKind::InvalidInput
        );
        assert_eq!(value(&store, "a"), Some(100));
        let mut rows = lock();
        rows.set("a", 4).expect("sets");
        let posted = rows.commit_with(|tx| {
            tx.emit("topic", "m-1", &1)?;
            tx.ledger("wallet").post("anna", "b-1", 5, None)
        });
        assert_eq!(posted.expect("commits"), Post::Posted(5));
        assert_eq!(
            (
                value(&store, "a"),
                store.outbox("topic").len().expect("counts")
            ),
            (Some(4), 1)
        );
        drop(lock());
        assert_eq!(
            stored(&store),
            2 + 1 + 2,
            "rows, a message, an account and its entry: no lock is left"
        );
    });
}

#[test]
fn what_cannot_be_locked_is_refused_and_nothing_stays_locked() {
    on_each(|place| {
        let store = place.open();
        let lock = |ids: &[&str]| store.lock_rows("account", ids).lock::<i64>();
        let none: [&str; 0] = [];
        assert_eq!(kind(lock(&none)), ErrorKind::InvalidInput);
        assert_eq!(kind(lock(&["a", ""])), ErrorKind::InvalidInput);
        let many: Vec<String> = (0..1001).map(|at| at.to_string()).collect();
        assert_eq!(
            kind(store.lock_rows("account", &many).lock::<i64>()),
            ErrorKind::InvalidInput
        );
        let mut rows = lock(&["a"]).expect("locks");
        assert_eq!(kind(rows.get("b").map(drop)), ErrorKind::InvalidInput);
        assert_eq!(kind(rows.set("b", 1)), ErrorKind::InvalidInput);
        assert_eq!(kind(rows.remove("b")), ErrorKind::InvalidInput);
        // Nesting: on this thread, also for other rows.
        let nested = lock(&["z"]).expect_err("refused");
        assert!(
            nested.message().contains("lock all rows in one call"),
            "{nested}"
        );
        // A writer of the row on the same thread would wait for itself.
        let own = store.table("account").put("a", &1i64).expect_err("refused");
        assert!(
            own.kind() == ErrorKind::InvalidInput && own.message().contains("this very thread"),
            "{own}"
        );
        store
            .table("account")
            .put("other", &1i64)
            .expect("another row is free");
        drop(rows);
        drop(lock(&["z", "a"]).expect("locks"));
        assert_eq!(stored(&store), 1);
    });
}

#[test]
fn who_waits_too_long_is_told_and_leaves_nothing_behind() {
    on_each(|place| {
        let store = place.open_live();
        filled(&store, &["a", "b"]);
        let rows = store
            .lock_rows("account", &["b"])
            .lock::<i64>()
            .expect("locks");
        threads(4, |at| {
            let short = Duration::from_millis(30);
            let error = match at {
                // It has locked "a" on the way, and gives it back.
                0 => store
                    .lock_rows("account", &["a", "b"])
                    .timeout(short)
                    .lock::<i64>()
                    .map(drop),
                1 => store
                    .table("account")
                    .timeout(short)
                    .put("b", &1i64)
                    .map(drop),
                2 => store.table("account").timeout(short).delete("b").map(drop),
                _ => store
                    .transact()
                    .timeout(short)
                    .run(|tx| tx.table("account").put("b", &1i64))
                    .map(drop),
            }
            .expect_err("locked");
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert!(
                error.message().contains("row \"b\" of table \"account\""),
                "{error}"
            );
        });
        store
            .table("account")
            .timeout(Duration::ZERO)
            .put("a", &7i64)
            .expect("a is free");
        drop(rows);
        store
            .table("account")
            .timeout(Duration::ZERO)
            .put("b", &7i64)
            .expect("b is free");
        assert_eq!(stored(&store), 2);
    });
}

#[test]
fn writers_of_a_locked_row_wait_for_the_guard_and_readers_do_not() {
    on_each(|place| {
        let store = place.open_live();
        filled(&store, &["a"]);
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let mut rows = store
                .lock_rows("account", &["a"])
                .lock::<i64>()
                .expect("locks");
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let add = |n: Option<i64>| n.unwrap_or(0) + 1;
                        store
                            .table("account")
                            .modify::<i64>("a", add)
                            .expect("modifies");
                        assert!(released.load(Ordering::SeqCst), "a writer came in between");
                    })
                })
                .collect();
            assert_eq!(value(&store, "a"), Some(100));
            std::thread::sleep(Duration::from_millis(30));
            rows.set("a", 0).expect("sets");
            released.store(true, Ordering::SeqCst);
            rows.commit().expect("commits");
            for writer in writers {
                writer.join().expect("no panic");
            }
        });
        assert_eq!(value(&store, "a"), Some(4));
    });
}

#[test]
fn rows_that_are_named_in_either_order_never_wait_for_each_other() {
    on_each(|place| {
        let store = place.open_live();
        filled(&store, &["a", "b", "c"]);
        threads(4, |thread| {
            for round in 0..25 {
                let mut ids = ["a", "b", "c"];
                ids.rotate_left((thread + round) % 3);
                if thread % 2 == 0 {
                    ids.reverse();
                }
                let mut rows = store
                    .lock_rows("account", &ids[..2])
                    .timeout(Duration::from_secs(60))
                    .lock::<i64>()
                    .expect("locks");
                let (from, to) = (ids[0], ids[1]);
                let moved = (rows.get(from).expect("reads"), rows.get(to).expect("reads"));
                rows.set(from, moved.0.unwrap_or(0) - 1).expect("sets");
                rows.set(to, moved.1.unwrap_or(0) + 1).expect("sets");
                rows.commit().expect("commits");
            }
        });
        let sum: i64 = ["a", "b", "c"]
            .iter()
            .filter_map(|id| value(&store, id))
            .sum();
        assert_eq!((sum, stored(&store)), (300, 3));
    });
}

#[test]
fn lockers_and_plain_writers_of_one_row_all_get_their_turn() {
    let store = Place::memory().open_live();
    filled(&store, &["a"]);
    threads(6, |thread| {
        for _ in 0..40 {
            if thread % 2 == 0 {
                let waiting = store
                    .lock_rows("account", &["a"])
                    .timeout(Duration::from_secs(60));
                let mut rows = waiting.lock::<i64>().expect("locks");
                let now = rows.get("a").expect("reads").unwrap_or(0);
                rows.set("a", now + 1).expect("sets");
                rows.commit().expect("commits");
            } else {
                let table = store.table("account").timeout(Duration::from_secs(60));
                table
                    .modify::<i64>("a", |n| n.unwrap_or(0) + 1)
                    .expect("modifies");
            }
        }
    });
    assert_eq!((value(&store, "a"), stored(&store)), (Some(100 + 240), 1));
}

#[test]
fn a_million_locked_rows_leave_no_residue() {
    let store = Place::memory().open();
    for thousand in 0..1000 {
        let ids: Vec<String> = (0..1000).map(|at| format!("{thousand}-{at}")).collect();
        drop(
            store
                .lock_rows("account", &ids)
                .lock::<i64>()
                .expect("locks"),
        );
    }
    assert_eq!(stored(&store), 0);
}

#[test]
fn rows_that_are_written_under_a_lock_are_kept_for_ever_or_as_long_as_was_said() {
    on_each(|place| {
        let store = place.open();
        for (id, retain) in [("short", Some(SECOND)), ("kept", None)] {
            let request = store.lock_rows("t", &[id]);
            let request = match retain {
                Some(retain) => request.retain(retain),
                None => request,
            };
            let mut rows = request.lock::<i32>().expect("locks");
            rows.set(id, 1).expect("locked");
            rows.commit().expect("commits");
        }
        let there = |id: &str| store.table("t").get::<i32>(id).expect("reads").is_some();
        place.clock.advance(SECOND - TICK);
        assert!(there("short") && there("kept"));
        place.clock.advance(TICK);
        assert!(!there("short") && there("kept"));
    });
}
