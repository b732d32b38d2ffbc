//! The scenarios of `vectors/conformance.json`, played by a process that is attached, and by one that becomes the owner.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use semel::{Clock, Store};
use semel_tests::conformance::{Ground, Player, scenarios};

use super::Place;

/// When the clocks begin: a beginning of a day in UTC.
const START: Duration = Duration::from_secs(20_000 * 86_400);

#[test]
fn every_scenario_holds_at_a_store_that_another_holds() {
    let mut played = 0;
    for scenario in scenarios() {
        let place = Place::new();
        let clock = Clock::manual(START);
        let builder = Store::builder(&place.name).clock(clock.clone());
        let owner = builder.clone().open().expect("opens");
        let ground = Ground {
            open: Box::new(move || builder.clone().open().expect("attaches")),
            clock: Some(clock),
            can: &["reopen"],
        };
        played += usize::from(Player::play(&scenario, ground));
        drop(owner);
    }
    assert_eq!(played, scenarios().len());
}

#[test]
fn every_scenario_holds_when_the_owner_changes_in_it() {
    let mut played = 0;
    for scenario in scenarios() {
        let place = Place::new();
        let clock = Clock::manual(START);
        let builder = Store::builder(&place.name).clock(clock.clone());
        let owner = Rc::new(RefCell::new(Some(builder.clone().open().expect("opens"))));
        let ground = Ground {
            // Opened beside an owner that is gone at the first call.
            open: Box::new(move || {
                let guest = builder.clone().open().expect("attaches, or holds it");
                drop(owner.borrow_mut().take());
                guest
            }),
            clock: Some(clock),
            can: &["reopen"],
        };
        played += usize::from(Player::play(&scenario, ground));
    }
    assert_eq!(played, scenarios().len());
}
