//! `semel demo`: six sources of duplicates, each played for real, with one effect each.

use std::fs;

use crate::cli_process::{Place, Said, say, semel};

const SOURCES: [&str; 6] = [
    "double click",
    "client retry",
    "message redelivered",
    "RPC resent",
    "schedule firing",
    "form sent again",
];

/// Checks the table: every source once, doubled without semel, and once with it.
fn check(said: &Said) {
    assert_eq!(said.status, 0, "{}", said.err());
    let text = said.out();
    for source in SOURCES {
        let row = text
            .lines()
            .find(|line| line.starts_with(source))
            .unwrap_or_else(|| panic!("no {source} in {text}"));
        let cells: Vec<&str> = row
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let without: u32 = cells[2].parse().expect("a number");
        assert!(
            without >= 2,
            "the control of {source} had {without} effects: {text}"
        );
        assert_eq!(cells[3], "1", "{text}");
        assert!(cells[4].contains("201 replayed"), "{text}");
    }
    let killed = text
        .lines()
        .find(|line| line.starts_with("message"))
        .expect("a row");
    assert!(
        killed.contains("502 upstream-broken") && killed.contains("409 in-doubt"),
        "{killed}"
    );
}

#[test]
fn every_source_has_one_effect_and_nothing_is_left_behind() {
    let place = Place::new();
    let temporary = place.path("temporary");
    fs::create_dir(&temporary).expect("made");
    check(&Said::of(
        semel(&["demo"])
            .env("TMPDIR", &temporary)
            .output()
            .expect("semel starts"),
    ));
    assert_eq!(fs::read_dir(&temporary).expect("readable").count(), 0);
}

#[test]
fn it_can_be_played_again_on_a_store_of_ones_own() {
    let place = Place::new();
    let store = place.store();
    check(&say(&["demo", "--store", &store]));
    check(&say(&["demo", "--store", &store]));
    assert_eq!(
        say(&["list", "--store", &store, "--json"])
            .out()
            .lines()
            .count(),
        12
    );
    check(&say(&["demo", "--store", "memory:"]));
}
