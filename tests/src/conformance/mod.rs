//! Scenarios as data: steps with a verb, arguments and the expected answer, played over a store.
//!
//! `vectors/README.md` says what the file means, so that every backend and every language can play it.

mod answer;
mod claims;
mod player;
mod schemes;
mod transaction;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

pub use self::player::{Ground, Player};

/// What `conformance.json` holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conformance {
    /// What the file is.
    pub about: String,
    /// All scenarios; each begins with an empty store.
    pub scenarios: Vec<Scenario>,
}

/// One scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows.
    pub name: String,
    /// The scheme that it is about.
    pub scheme: String,
    /// What a backend must be able to do to play it: `reopen`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// In their order.
    pub steps: Vec<Step>,
}

/// One step: everything beside `do` and `expect` is an argument.
#[derive(Debug, Deserialize)]
pub struct Step {
    /// The verb.
    #[serde(rename = "do")]
    pub verb: String,
    /// Members that the answer must have; it may have more. Absent: whatever is no error.
    #[serde(default)]
    pub expect: Option<Map<String, Json>>,
    /// The arguments.
    #[serde(flatten)]
    pub arguments: Map<String, Json>,
}

/// The scenarios of the file.
pub fn scenarios() -> Vec<Scenario> {
    let text = include_str!("../../vectors/conformance.json");
    let conformance: Conformance = serde_json::from_str(text).expect("the file has its form");
    conformance.scenarios
}

impl Step {
    /// The argument as text.
    pub fn text(&self, name: &str) -> &str {
        self.maybe_text(name)
            .unwrap_or_else(|| panic!("{} lacks the text {name:?}", self.verb))
    }

    /// The argument as text, if it is given.
    pub fn maybe_text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).map(|value| {
            value
                .as_str()
                .unwrap_or_else(|| panic!("{}: {name} is no text", self.verb))
        })
    }

    /// The argument as an integer, if it is given.
    pub fn maybe_number(&self, name: &str) -> Option<i64> {
        self.arguments.get(name).map(|value| {
            value
                .as_i64()
                .unwrap_or_else(|| panic!("{}: {name} is no integer of 64 bits", self.verb))
        })
    }

    /// The argument as a duration in milliseconds, if it is given.
    pub fn maybe_ms(&self, name: &str) -> Option<std::time::Duration> {
        let ms = self.maybe_number(name)?;
        Some(std::time::Duration::from_millis(
            u64::try_from(ms).expect("no negative time"),
        ))
    }

    /// The argument as it stands, null when it is absent.
    pub fn json(&self, name: &str) -> Json {
        self.arguments.get(name).cloned().unwrap_or(Json::Null)
    }

    /// Steps within this one.
    pub fn inner(&self, name: &str) -> Vec<Step> {
        serde_json::from_value(self.json(name))
            .unwrap_or_else(|e| panic!("{}: {name} is no list of steps: {e}", self.verb))
    }
}
