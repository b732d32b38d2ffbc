//! Plays a scenario: keeps what steps name for later steps, and compares answers.

use std::collections::HashMap;
use std::time::Duration;

use semel::{Clock, LockGuard, Row, Rows, Store, Ticket};
use serde_json::{Value as Json, json};

use super::schemes::Declared;
use super::{Scenario, Step, answer, claims, schemes, transaction};

/// Where a scenario is played: how its store is opened, and how its time passes.
pub struct Ground<'g> {
    /// Opens the store: empty the first time, and the same one after that.
    pub open: Box<dyn FnMut() -> Store + 'g>,
    /// The clock that the store goes by; `None` lets real time pass.
    pub clock: Option<Clock>,
    /// What it can do, of what scenarios need.
    pub can: &'static [&'static str],
}

/// What a scenario has in hand, by the names that its steps give.
pub struct Player<'g> {
    ground: Ground<'g>,
    pub(super) store: Option<Store>,
    pub(super) tickets: HashMap<String, Ticket>,
    pub(super) tokens: HashMap<String, String>,
    pub(super) machines: HashMap<String, Declared>,
    pub(super) rows: HashMap<String, Row<Json>>,
    pub(super) locks: HashMap<String, LockGuard>,
    pub(super) locked: Option<Rows<Json>>,
}

impl<'g> Player<'g> {
    /// Plays a scenario to its end; `false` when the ground cannot do what it needs.
    ///
    /// # Panics
    /// When an answer is not the expected one.
    pub fn play(scenario: &Scenario, ground: Ground<'g>) -> bool {
        if !scenario
            .needs
            .iter()
            .all(|need| ground.can.contains(&need.as_str()))
        {
            return false;
        }
        let mut player = Self {
            ground,
            store: None,
            tickets: HashMap::new(),
            tokens: HashMap::new(),
            machines: HashMap::new(),
            rows: HashMap::new(),
            locks: HashMap::new(),
            locked: None,
        };
        player.store = Some((player.ground.open)());
        for (at, step) in scenario.steps.iter().enumerate() {
            let told = player.step(step);
            check(step, &told, &format!("{}, step {at}", scenario.name));
        }
        true
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone().expect("the store is open")
    }

    fn step(&mut self, step: &Step) -> Json {
        let told = match step.verb.as_str() {
            "pass" => {
                self.pass(step.maybe_ms("ms").expect("pass has ms"));
                Ok(json!({}))
            }
            "reopen" => {
                self.reopen();
                Ok(json!({}))
            }
            "transaction" => transaction::play(self, step),
            verb => claims::step(self, verb, step)
                .or_else(|| schemes::step(self, verb, step))
                .unwrap_or_else(|| panic!("the verb {verb:?} is unknown")),
        };
        told.unwrap_or_else(|error| answer::error(&error))
    }

    fn pass(&self, time: Duration) {
        match &self.ground.clock {
            Some(clock) => clock.advance(time),
            None => std::thread::sleep(time),
        }
    }

    /// Closes the store and opens it again: what was in hand is lost, as in a crash, but for the words that were told.
    fn reopen(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().expect("closes");
        }
        self.tickets.clear();
        self.locks.clear();
        self.locked = None;
        self.store = Some((self.ground.open)());
    }
}

/// Compares an answer with what is expected of it.
pub(super) fn check(step: &Step, told: &Json, place: &str) {
    let Some(expected) = &step.expect else {
        assert!(
            told.get("error").is_none(),
            "{place}: {} told {told}",
            step.verb
        );
        return;
    };
    for (name, value) in expected {
        assert_eq!(
            told.get(name).unwrap_or(&Json::Null),
            value,
            "{place}: {} told {told}, which has another {name}",
            step.verb
        );
    }
    if !expected.contains_key("error") {
        assert!(
            told.get("error").is_none(),
            "{place}: {} told {told}",
            step.verb
        );
    }
}
