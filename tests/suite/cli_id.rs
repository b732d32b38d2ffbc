//! `semel id`: ids that no other call gives out.

use std::collections::HashSet;

use crate::cli_process::{Place, say};

fn numbers(args: &[&str]) -> Vec<u64> {
    let said = say(args);
    assert_eq!(said.status, 0, "{}", said.err());
    said.out()
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect()
}

#[test]
fn snowflakes_rise_from_call_to_call() {
    let place = Place::new();
    let store = place.store();
    let mut last = 0;
    for count in ["1", "5", "3"] {
        let ids = numbers(&["id", "snowflake", "--store", &store, "--count", count]);
        assert_eq!(ids.len().to_string(), count);
        for id in ids {
            assert!(id >> 22 >= last >> 22 && id != last);
            last = id;
        }
    }
}

#[test]
fn segments_count_by_name() {
    let place = Place::new();
    let store = place.store();
    assert_eq!(
        numbers(&["id", "segment", "orders", "--store", &store, "--count", "3"]),
        [1, 2, 3]
    );
    assert_eq!(
        numbers(&["id", "segment", "invoices", "--store", &store]),
        [1]
    );
    let next = numbers(&["id", "segment", "orders", "--store", &store]);
    assert!(next[0] > 3 && next[0] <= 1001, "{next:?}");
}

#[test]
fn uuids_need_no_store() {
    let said = say(&["id", "uuid7", "--count", "100"]);
    assert_eq!(said.status, 0, "{}", said.err());
    let out = said.out();
    let ids: Vec<&str> = out.lines().collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 100);
    assert!(
        ids.iter()
            .all(|id| id.len() == 36 && id.as_bytes()[14] == b'7')
    );
}

#[test]
fn what_could_repeat_is_refused() {
    let place = Place::new();
    let store = place.store();
    let refused: [&[&str]; 6] = [
        &["id"],
        &["id", "snowflake"],
        &["id", "snowflake", "--store", "memory:"],
        &["id", "segment", "orders", "--store", "memory:"],
        &["id", "segment", " ", "--store", &store],
        &["id", "uuid7", "--count", "0"],
    ];
    for args in refused {
        let said = say(args);
        assert!(
            matches!(said.status, 2 | 64),
            "{args:?}: {} {}",
            said.status,
            said.err()
        );
        assert!(said.stdout.is_empty(), "{args:?}");
    }
}
