//! The scenarios of `vectors/conformance.json`, played on a store in memory and on one in a directory.

use std::collections::BTreeMap;
use std::time::Duration;

use semel::{Clock, Store};
use semel_tests::conformance::{Ground, Player, Scenario, scenarios};

/// When the clocks begin: a beginning of a day in UTC.
const START: Duration = Duration::from_secs(20_000 * 86_400);

fn play_all(what: &str, mut ground: impl FnMut(&Scenario) -> bool) -> usize {
    let mut played = 0;
    for scenario in scenarios() {
        let named = std::panic::AssertUnwindSafe(|| ground(&scenario));
        match std::panic::catch_unwind(named) {
            Ok(true) => played += 1,
            Ok(false) => {}
            Err(_) => panic!("{what} failed {:?}", scenario.name),
        }
    }
    played
}

#[test]
fn every_scenario_holds_on_a_store_in_memory() {
    let played = play_all("memory", |scenario| {
        let clock = Clock::manual(START);
        let builder = Store::builder("memory:").clock(clock.clone());
        let ground = Ground {
            open: Box::new(move || builder.clone().open().expect("opens")),
            clock: Some(clock),
            can: &[],
        };
        Player::play(scenario, ground)
    });
    assert!(played >= 60, "{played} scenarios");
}

#[test]
fn every_scenario_holds_on_a_store_in_a_directory() {
    let played = play_all("directory", |scenario| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store").to_str().expect("UTF-8").to_owned();
        let clock = Clock::manual(START);
        let builder = Store::builder(path).clock(clock.clone());
        let ground = Ground {
            open: Box::new(move || builder.clone().open().expect("opens")),
            clock: Some(clock),
            can: &["reopen"],
        };
        Player::play(scenario, ground)
    });
    assert_eq!(played, scenarios().len());
}

#[test]
fn every_scheme_has_scenarios_and_no_two_have_one_name() {
    let mut schemes: BTreeMap<String, usize> = BTreeMap::new();
    let mut names = std::collections::HashSet::new();
    for scenario in scenarios() {
        assert!(
            names.insert((scenario.scheme.clone(), scenario.name.clone())),
            "{:?} is there twice",
            scenario.name
        );
        *schemes.entry(scenario.scheme).or_default() += 1;
    }
    let all = [
        "claim",
        "ids",
        "inbox",
        "ledger",
        "lock",
        "machine",
        "outbox",
        "rows",
        "table",
        "tick",
        "token",
        "transaction",
        "unique",
    ];
    assert_eq!(
        schemes.keys().collect::<Vec<_>>(),
        all.iter().collect::<Vec<_>>()
    );
    assert!(schemes.values().all(|count| *count >= 2), "{schemes:?}");
}
