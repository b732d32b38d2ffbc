//! Records whose attempt has not ended, by the time from which they are to be watched.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use parking_lot::Mutex;

use super::index::Hashed;
use crate::codec::KeyHash;

const SHARDS: usize = 16;

type Shard = HashMap<KeyHash, u64, BuildHasherDefault<Hashed>>;

/// Times by key, in shards, so that two claims seldom meet. Every claim enters and leaves, and few ask: so it is put in
/// order for those who ask.
pub(super) struct Watchlist {
    shards: Box<[Mutex<Shard>]>,
}

impl Watchlist {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// A key's record is to be watched from another time on, or no more.
    pub(super) fn change(&self, hash: &KeyHash, from_us: Option<u64>, to_us: Option<u64>) {
        if from_us == to_us {
            return;
        }
        let mut shard = self.shards[hash[1] as usize % SHARDS].lock();
        match to_us {
            Some(to_us) => drop(shard.insert(*hash, to_us)),
            // Somebody else may have entered it since, for another time.
            None if shard.get(hash).copied() == from_us => drop(shard.remove(hash)),
            None => {}
        }
    }

    /// The earliest up to a time; at most `limit`.
    pub(super) fn until(&self, until_us: u64, limit: usize) -> Vec<(u64, KeyHash)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let due = shard.iter().filter(|(_, since_us)| **since_us <= until_us);
            found.extend(due.map(|(hash, since_us)| (*since_us, *hash)));
        }
        found.sort_unstable();
        found.truncate(limit);
        found
    }
}
