//! Numbers that are reserved in the store for this process, and not given out yet.

use std::collections::BTreeMap;

use crate::sync::plain::Mutex;

/// What a store holds in reserve.
#[derive(Default)]
pub(crate) struct Reserve {
    pub(crate) worker: Mutex<Option<Worker>>,
    pub(crate) segments: Mutex<BTreeMap<String, Segment>>,
}

/// A worker number and the snowflake ids that this process may give out under it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: u64,
    pub(crate) owner: u64,
    /// The time and sequence of the id that comes next.
    pub(crate) ms: u64,
    pub(crate) sequence: u64,
    /// The time from which on nothing is reserved.
    pub(crate) until_ms: u64,
}

/// Numbers of a sequence, up to and without `end`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) next: u64,
    pub(crate) end: u64,
}
