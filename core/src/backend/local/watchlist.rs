//! Records whose attempt has not ended, by the time from which they are to be watched.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::codec::KeyHash;

const SHARDS: usize = 16;

type Shard = BTreeSet<(u64, KeyHash)>;

/// An ordered set in shards, so that two claims seldom meet.
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
        if let Some(from_us) = from_us {
            shard.remove(&(from_us, *hash));
        }
        if let Some(to_us) = to_us {
            shard.insert((to_us, *hash));
        }
    }

    /// The earliest up to a time; at most `limit`.
    pub(super) fn until(&self, until_us: u64, limit: usize) -> Vec<(u64, KeyHash)> {
        let mut found: Vec<_> = self
            .shards
            .iter()
            .flat_map(|shard| {
                shard
                    .lock()
                    .iter()
                    .take_while(|(since_us, _)| *since_us <= until_us)
                    .take(limit)
                    .copied()
                    .collect::<Vec<_>>()
            })
            .collect();
        found.sort_unstable();
        found.truncate(limit);
        found
    }
}
