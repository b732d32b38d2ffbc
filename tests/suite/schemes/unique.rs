//! Unique index: the first row is in, and everybody after sees it.

use std::collections::HashMap;

use semel::{Error, ErrorKind, Insert, MAX_ID_BYTES, MAX_NAME_BYTES};

use super::{Place, SECOND, TICK, kind, on_each, stored, threads};

#[test]
fn the_same_row_exists_and_another_conflicts() {
    on_each(|place| {
        let store = place.open();
        let orders = store.unique("orders");
        let cases = [
            ("A", 1, Insert::Inserted),
            ("A", 1, Insert::Exists(1)),
            ("A", 2, Insert::Conflict(1)),
            ("A", 1, Insert::Exists(1)),
            ("B", 2, Insert::Inserted),
        ];
        for (id, row, answer) in cases {
            assert_eq!(
                orders.insert(id, &row).expect("inserts"),
                answer,
                "{id} {row}"
            );
        }
        assert_eq!(orders.get::<i32>("A").expect("reads"), Some(1));
        assert_eq!(orders.get::<i32>("C").expect("reads"), None);
        // Another index has ids of its own.
        assert_eq!(
            store.unique("payments").insert("A", &9).expect("inserts"),
            Insert::Inserted
        );
    });
}

#[test]
fn a_row_is_the_same_in_whatever_order_its_members_were_written() {
    let store = Place::memory().open();
    let orders = store.unique("orders");
    for round in 0..50 {
        // A new map has a new order.
        let row: HashMap<String, i32> = (0..8).map(|at| (format!("member {at}"), at)).collect();
        let answer = orders.insert("A", &row).expect("inserts");
        assert_eq!(
            answer.name(),
            if round == 0 { "inserted" } else { "exists" }
        );
    }
}

#[test]
fn of_sixty_four_different_rows_one_is_in_and_all_see_it() {
    on_each(|place| {
        let store = place.open();
        let answers = threads(64, |at| {
            store.unique("orders").insert("A", &at).expect("inserts")
        });
        let won: Vec<usize> = (0..64)
            .filter(|at| answers[*at] == Insert::Inserted)
            .collect();
        assert_eq!(won.len(), 1);
        for (at, answer) in answers.iter().enumerate().filter(|(at, _)| *at != won[0]) {
            assert_eq!(*answer, Insert::Conflict(won[0]), "thread {at}");
        }
    });
}

#[test]
fn a_row_is_kept_for_as_long_as_was_said() {
    on_each(|place| {
        let store = place.open();
        let orders = store.unique("orders").retain(SECOND);
        orders.insert("A", &1).expect("inserts");
        place.clock.advance(SECOND - TICK);
        assert_eq!(
            orders.insert("A", &2).expect("inserts"),
            Insert::Conflict(1)
        );
        place.clock.advance(TICK);
        assert_eq!(orders.get::<i32>("A").expect("reads"), None);
        assert_eq!(orders.insert("A", &2).expect("inserts"), Insert::Inserted);
        let forever = store.unique("forever");
        forever.insert("A", &1).expect("inserts");
        place.clock.advance(SECOND * 86_400 * 3650);
        assert_eq!(forever.insert("A", &1).expect("inserts"), Insert::Exists(1));
        let none = store.unique("orders").retain(std::time::Duration::ZERO);
        assert_eq!(kind(none.insert("B", &1)), ErrorKind::InvalidInput);
    });
}

#[test]
fn rows_are_there_after_reopening() {
    let place = Place::directory();
    for round in 0..3 {
        let store = place.open();
        let answer = store.unique("orders").insert("A", &1).expect("inserts");
        assert_eq!(
            answer.name(),
            if round == 0 { "inserted" } else { "exists" }
        );
    }
}

#[test]
fn a_transaction_that_fails_inserts_nothing() {
    on_each(|place| {
        let store = place.open();
        let failed = store.transaction(|tx| {
            assert_eq!(tx.unique("orders").insert("A", &1)?, Insert::Inserted);
            assert_eq!(tx.unique("orders").insert("A", &1)?, Insert::Exists(1));
            Err::<(), _>(Error::new(ErrorKind::Unsupported, "no"))
        });
        assert_eq!(kind(failed), ErrorKind::Unsupported);
        assert_eq!(stored(&store), 0);
    });
}

#[test]
fn names_that_cannot_be_used_are_refused_and_touch_nothing() {
    let store = Place::memory().open();
    let long = "x".repeat(MAX_ID_BYTES + 1);
    for (index, id) in [
        ("", "A"),
        ("orders", ""),
        ("orders", " "),
        ("orders", "a\n"),
        ("orders", &long),
        (&long[..=MAX_NAME_BYTES], "A"),
    ] {
        let refused = store.unique(index).insert(id, &1);
        assert_eq!(kind(refused), ErrorKind::InvalidInput, "{index:?} {id:?}");
    }
    let large = vec![0u8; 2 << 20];
    assert_eq!(
        kind(store.unique("orders").insert("A", &large)),
        ErrorKind::InvalidInput
    );
    assert_eq!(stored(&store), 0);
}
