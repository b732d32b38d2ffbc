//! The questions, one file each.

pub mod attached;
mod burst;
pub mod cold_memory;
mod hot_replay;
pub mod http;
mod new_keys;
pub mod opening;
mod schemes;
pub mod sustained;
mod sweeping;
mod sync;

use std::fmt;

use clap::ValueEnum;

use crate::ground::Ground;
use crate::outcome::Outcome;
use crate::report::Section;
use crate::scale::Scale;

/// What is asked of the store.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// Repeats of keys in memory, beside a map's get.
    HotReplay,
    /// 20,000 claims and completes from idle, beside a map's insert and replace.
    Burst,
    /// Millions of claims and completes, cleaning and sweeping included, drained.
    Sustained,
    /// Claims and completes that are on disk when acknowledged.
    Sync,
    /// Whether claims of new keys read the disk.
    NewKeys,
    /// The memory of records that lie on disk.
    ColdMemory,
    /// Opening after a crash.
    Opening,
    /// Claims while expired records are swept.
    Sweeping,
    /// Transactions, tokens, machines, ledgers and locks, beside claims.
    Schemes,
    /// Calls of a store that another process holds.
    Attached,
    /// Repeats over HTTP, through the proxy and through the layer.
    Http,
}

impl Question {
    /// All of them, in order.
    pub fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// The question in one sentence.
    pub fn asks(self) -> &'static str {
        match self {
            Self::HotReplay => "what does a repeat cost whose answer is in memory?",
            Self::Burst => "what does a burst of 20,000 claims and completes cost from idle?",
            Self::Sustained => {
                "how many cycles a second does relaxed work sustain, drained at the end?"
            }
            Self::Sync => "what does a step cost that is on disk when it is acknowledged?",
            Self::NewKeys => "do claims of new keys read the disk?",
            Self::ColdMemory => "how much memory does a record take that lies on disk?",
            Self::Opening => "how long does opening take after a kill?",
            Self::Sweeping => "do claims notice a sweep?",
            Self::Schemes => "what do the schemes cost beside a claim?",
            Self::Attached => "what does a call cost when another process holds the store?",
            Self::Http => "what does a repeat cost over HTTP?",
        }
    }

    /// Measures.
    pub fn answer(self, ground: &Ground, scale: Scale) -> Outcome<Section> {
        match self {
            Self::HotReplay => hot_replay::answer(ground, scale),
            Self::Burst => burst::answer(ground, scale),
            Self::Sustained => sustained::answer(ground, scale),
            Self::Sync => sync::answer(ground, scale),
            Self::NewKeys => new_keys::answer(ground, scale),
            Self::ColdMemory => cold_memory::answer(ground, scale),
            Self::Opening => opening::answer(ground, scale),
            Self::Sweeping => sweeping::answer(ground, scale),
            Self::Schemes => schemes::answer(ground, scale),
            Self::Attached => attached::answer(ground, scale),
            Self::Http => http::answer(ground, scale),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
