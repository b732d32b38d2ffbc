//! Plain dashmap with the standard hasher: the limit, since it keeps nothing and judges nothing.

use std::sync::Arc;

use dashmap::DashMap;

use crate::key::Key;

/// What a crash leaves of a map.
pub const CRASH_COSTS: &str = "everything";

/// Text keys, shared results: the quickest that gives a result away without copying it.
#[derive(Default)]
pub struct ArcMap(DashMap<String, Arc<[u8]>>);

/// Text keys, results copied out.
#[derive(Default)]
pub struct VecMap(DashMap<String, Vec<u8>>);

/// Keys as an array of bytes, shared results.
#[derive(Default)]
pub struct ByteKeyMap(DashMap<[u8; 32], Arc<[u8]>>);

/// Keys of two texts, as semel's are, shared results.
#[derive(Default)]
pub struct PairMap(DashMap<Pair, Arc<[u8]>>);

/// An operation and an id.
pub type Pair = (String, String);

impl PairMap {
    /// An entry with its result.
    pub fn insert(&self, key: Pair, result: &[u8]) {
        self.0.insert(key, Arc::from(result));
    }

    /// What a replay does to a map.
    pub fn get(&self, key: &Pair) -> Option<Arc<[u8]>> {
        self.0.get(key).map(|entry| Arc::clone(&entry))
    }
}

impl ArcMap {
    /// What a claim does to a map: an entry without a result.
    pub fn insert(&self, key: &Key) {
        self.0.insert(key.text().to_owned(), Arc::default());
    }

    /// What a complete does to a map: the entry gets its result.
    pub fn replace(&self, key: &Key, result: &[u8]) {
        if let Some(mut entry) = self.0.get_mut(key.text()) {
            *entry = Arc::from(result);
        }
    }

    /// What a replay does to a map.
    pub fn get(&self, key: &Key) -> Option<Arc<[u8]>> {
        self.0.get(key.text()).map(|entry| Arc::clone(&entry))
    }
}

impl VecMap {
    /// An entry with its result.
    pub fn insert(&self, key: &Key, result: &[u8]) {
        self.0.insert(key.text().to_owned(), result.to_vec());
    }

    /// What a replay does to a map.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        self.0.get(key.text()).map(|entry| entry.clone())
    }
}

impl ByteKeyMap {
    /// An entry with its result.
    pub fn insert(&self, key: &Key, result: &[u8]) {
        self.0.insert(*key.bytes(), Arc::from(result));
    }

    /// What a replay does to a map.
    pub fn get(&self, key: &Key) -> Option<Arc<[u8]>> {
        self.0.get(key.bytes()).map(|entry| Arc::clone(&entry))
    }
}
