//! Pessimistic lock, lost: whoever was away for longer than his lease writes nothing over what others wrote meanwhile.

use std::time::Duration;

use semel::{ErrorKind, Rows, Store};

use super::{Place, kind, on_each, stored};

/// Longer than the lease of a row's lock, in a time in which nobody renews it: the clock jumps over the renewals.
const AWAY: Duration = Duration::from_secs(3600 * 25);

/// A guard whose thread was away until its lease was over.
fn stale(store: &Store, place: &Place) -> Rows<i64> {
    store.table("account").put("a", &100i64).expect("puts");
    let mut rows = store
        .lock_rows("account", &["a"])
        .lock::<i64>()
        .expect("locks");
    rows.set("a", 0).expect("sets");
    place.clock.advance(AWAY);
    rows
}

fn value(store: &Store) -> Option<i64> {
    store
        .table("account")
        .get("a")
        .expect("reads")
        .map(|row| row.value)
}

#[test]
fn a_writer_who_found_the_lease_over_is_not_overwritten() {
    on_each(|place| {
        let store = place.open();
        let rows = stale(&store, place);
        // Another thread: this one is known to hold the row.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                store
                    .table("account")
                    .put("a", &55i64)
                    .expect("the lease is over")
            });
        });
        assert_eq!(kind(rows.commit()), ErrorKind::Lost);
        assert_eq!(value(&store), Some(55));
    });
}

#[test]
fn a_locker_who_took_over_is_not_overwritten() {
    on_each(|place| {
        let store = place.open();
        let rows = stale(&store, place);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut rows = store
                    .lock_rows("account", &["a"])
                    .lock::<i64>()
                    .expect("takes over");
                rows.set("a", 66).expect("sets");
                rows.commit().expect("commits");
            });
        });
        assert_eq!(kind(rows.commit()), ErrorKind::Lost);
        assert_eq!(value(&store), Some(66));
        assert_eq!(stored(&store), 1, "no lock is left");
    });
}

#[test]
fn who_was_away_and_not_replaced_may_still_commit() {
    on_each(|place| {
        let store = place.open();
        let rows = stale(&store, place);
        rows.commit().expect("commits");
        assert_eq!(value(&store), Some(0));
    });
}

#[test]
fn the_locks_of_a_process_that_is_gone_keep_no_writer_out() {
    let place = Place::directory();
    let store = place.open();
    store.table("account").put("a", &100i64).expect("puts");
    let rows = store
        .lock_rows("account", &["a"])
        .lock::<i64>()
        .expect("locks");
    store.close().expect("closes"); // with the lock held, as a crash would leave it
    drop(rows);
    drop(store);
    let store = place.open();
    store
        .table("account")
        .timeout(Duration::ZERO)
        .put("a", &7i64)
        .expect("its holder is gone");
    assert_eq!(value(&store), Some(7));
}
