//! Rows that are kept in order within their space: the messages of a topic.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::Shared;
use crate::backend::Scanned;
use crate::codec::{Content, KeyHash};
use crate::error::Result;
use crate::key::Parts;

/// Places of ordered rows, by space.
#[derive(Default)]
pub(super) struct OrderedRows {
    spaces: Mutex<BTreeMap<String, BTreeMap<u64, KeyHash>>>,
}

impl OrderedRows {
    /// The row of a key has another place now, or none.
    pub(super) fn change(&self, key: &[u8], hash: KeyHash, from: u64, to: u64) {
        if from == to {
            return;
        }
        let Some(parts) = Parts::decode(key) else {
            return;
        };
        let mut spaces = self.spaces.lock();
        if from != 0
            && let Some(space) = spaces.get_mut(parts.operation)
        {
            space.remove(&from);
            if space.is_empty() {
                spaces.remove(parts.operation);
            }
        }
        if to != 0 {
            spaces
                .entry(parts.operation.to_owned())
                .or_default()
                .insert(to, hash);
        }
    }

    /// The first row of each space.
    fn firsts(&self, limit: usize) -> Vec<(String, KeyHash)> {
        let spaces = self.spaces.lock();
        let firsts = spaces.iter().take(limit);
        firsts
            .filter_map(|(space, rows)| Some((space.clone(), *rows.values().next()?)))
            .collect()
    }

    fn first(&self, space: &str, limit: usize) -> Vec<KeyHash> {
        let spaces = self.spaces.lock();
        spaces
            .get(space)
            .map(|rows| rows.values().take(limit).copied().collect())
            .unwrap_or_default()
    }
}

/// The place of a content in its space; 0 when it has none.
pub(super) fn place(content: Option<&Content>) -> u64 {
    match content {
        Some(Content::Row(row)) => row.order,
        _ => 0,
    }
}

impl Shared {
    /// The first row of each space, on disk or not yet: to be counted, and not to be acted on.
    pub(super) fn first_rows(&self, limit: usize) -> Result<Vec<(String, Scanned)>> {
        let mut found = Vec::new();
        for (space, hash) in self.ordered.firsts(limit) {
            found.extend(self.peek(&hash)?.map(|row| (space, row)));
        }
        Ok(found)
    }

    /// The first rows of a space that are on disk, in their order. What is not on disk yet ends the list: what comes after
    /// it must not be seen before it.
    pub(super) fn ordered_rows(&self, space: &str, limit: usize) -> Result<Vec<Scanned>> {
        let mut found = Vec::new();
        for hash in self.ordered.first(space, limit) {
            if let Some(cell) = self.index.find_hot(&hash)
                && self.log.is_some()
                && !self.durable.reached(cell.lock().pos)
            {
                break;
            }
            found.extend(self.peek(&hash)?);
        }
        Ok(found)
    }
}
