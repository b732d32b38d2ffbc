//! Optimistic lock: an update is made from what was read, or not at all.

use semel::scheme::table::MAX_ROW_EVENTS;
use semel::{Error, ErrorKind, Row, Update};

use super::{Place, SECOND, TICK, kind, on_each, threads};

#[test]
fn every_answer_of_the_contract() {
    on_each(|place| {
        let store = place.open();
        let stock = store.table("stock");
        assert_eq!(stock.get::<i32>("cup").expect("reads"), None);
        stock.put("cup", &10).expect("puts");
        let row = stock.get::<i32>("cup").expect("reads").expect("there");
        assert_eq!((&*row.id, row.value), ("cup", 10));
        let Update::Updated(next) = stock.update(&row, &9, Some("order-1")).expect("updates")
        else {
            panic!("updated")
        };
        assert_eq!(next.value, 9);
        assert!(next.version > row.version);
        // The same event again, from the old row or the new one.
        for from in [&row, &next] {
            let again = stock.update(from, &8, Some("order-1")).expect("answers");
            assert_eq!(again, Update::Already("order-1".to_owned()));
        }
        // Another event, or none, from the old row.
        for event in [Some("order-2"), None] {
            let stale = stock.update(&row, &8, event).expect("answers");
            assert_eq!(stale, Update::Stale(Some(next.clone())));
        }
        let Update::Updated(last) = stock.update(&next, &8, None).expect("updates") else {
            panic!("updated")
        };
        assert_eq!(stock.get::<i32>("cup").expect("reads"), Some(last.clone()));
        // Gone: deleting twice is no error.
        assert_eq!(
            (
                stock.delete("cup").expect("deletes"),
                stock.delete("cup").expect("deletes")
            ),
            (true, false)
        );
        assert_eq!(
            stock.update(&last, &7, None).expect("answers"),
            Update::Stale(None)
        );
    });
}

#[test]
fn a_row_that_was_deleted_and_made_again_is_another_one_however_the_clock_stands() {
    on_each(|place| {
        let store = place.open(); // its clock stands still
        let stock = store.table("stock");
        let mut seen: Vec<Row<i32>> = Vec::new();
        for _ in 0..20 {
            stock.put("cup", &10).expect("puts");
            let row = stock.get::<i32>("cup").expect("reads").expect("there");
            for old in &seen {
                assert_eq!(
                    stock.update(old, &0, None).expect("answers"),
                    Update::Stale(Some(row.clone()))
                );
            }
            seen.push(row);
            stock.delete("cup").expect("deletes");
        }
        assert!(
            seen.windows(2)
                .all(|pair| pair[0].version < pair[1].version)
        );
    });
}

#[test]
fn no_update_is_lost_between_eight_threads() {
    on_each(|place| {
        let store = place.open();
        let stock = store.table("stock");
        stock.put("a", &0u64).expect("puts");
        threads(8, |_| {
            for _ in 0..25 {
                stock
                    .modify::<u64>("m", |n| n.unwrap_or(0) + 1)
                    .expect("modifies");
                loop {
                    let row = stock.get::<u64>("a").expect("reads").expect("there");
                    if stock
                        .update(&row, &(row.value + 1), None)
                        .expect("answers")
                        .name()
                        == "updated"
                    {
                        break;
                    }
                }
            }
        });
        for id in ["a", "m"] {
            assert_eq!(
                stock.get::<u64>(id).expect("reads").expect("there").value,
                200,
                "{id}"
            );
        }
    });
}

#[test]
fn a_row_remembers_its_last_events_through_all_writes() {
    on_each(|place| {
        let store = place.open();
        let stock = store.table("stock");
        stock.put("cup", &0).expect("puts");
        let row = || stock.get::<usize>("cup").expect("reads").expect("there");
        for at in 0..2 * MAX_ROW_EVENTS {
            let updated = stock
                .update(&row(), &at, Some(&format!("e{at}")))
                .expect("updates");
            assert_eq!(updated.name(), "updated");
            stock.put("cup", &at).expect("puts");
        }
        for at in MAX_ROW_EVENTS..2 * MAX_ROW_EVENTS {
            let again = stock
                .update(&row(), &0, Some(&format!("e{at}")))
                .expect("answers");
            assert_eq!(again.name(), "already", "e{at}");
        }
        assert_eq!(
            stock
                .update(&row(), &0, Some("e0"))
                .expect("updates")
                .name(),
            "updated"
        );
    });
}

#[test]
fn a_row_is_kept_for_as_long_as_was_said_and_is_there_after_reopening() {
    let place = Place::directory();
    {
        let store = place.open();
        store
            .table("stock")
            .retain(SECOND)
            .put("a", &1)
            .expect("puts");
        store.table("stock").put("b", &2).expect("puts");
        store
            .transaction(|tx| tx.table("stock").retain(SECOND).put("c", &3))
            .expect("puts");
        place.clock.advance(SECOND - TICK);
    }
    let store = place.open();
    let there = |id| {
        store
            .table("stock")
            .get::<i32>(id)
            .expect("reads")
            .map(|row| row.value)
    };
    assert_eq!(
        (there("a"), there("b"), there("c")),
        (Some(1), Some(2), Some(3))
    );
    place.clock.advance(SECOND);
    assert_eq!((there("a"), there("b"), there("c")), (None, Some(2), None));
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let store = Place::memory().open();
    let stock = store.table("stock");
    stock.put("cup", &"text").expect("puts");
    assert_eq!(kind(stock.get::<i32>("cup")), ErrorKind::InvalidInput);
    assert_eq!(kind(stock.put("", &1)), ErrorKind::InvalidInput);
    assert_eq!(kind(store.table("").put("a", &1)), ErrorKind::InvalidInput);
    assert_eq!(
        kind(stock.put("a", &vec![0u8; 2 << 20])),
        ErrorKind::InvalidInput
    );
    let row = Row {
        id: "cup".to_owned(),
        value: "text".to_owned(),
        version: 1,
    };
    assert_eq!(
        kind(stock.update(&row, &"new".to_owned(), Some(""))),
        ErrorKind::InvalidInput
    );
    let failed = store.transaction(|tx| {
        tx.table("stock").put("b", &1)?;
        assert!(tx.table("stock").get::<i32>("b")?.is_some());
        tx.table("stock").delete("cup")?;
        Err::<(), _>(Error::new(ErrorKind::Unsupported, "no"))
    });
    assert_eq!(kind(failed), ErrorKind::Unsupported);
    assert!(stock.get::<i32>("b").expect("reads").is_none());
    assert!(stock.get::<String>("cup").expect("reads").is_some());
}
