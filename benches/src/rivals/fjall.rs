//! fjall: a log-structured tree, two plain inserts per cycle, so that two callers can both have the key.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::key::Key;
use crate::outcome::Outcome;
use crate::subject::{Keep, Payload, Promise, Subject};

/// One keyspace.
pub struct Fjall {
    database: Database,
    records: Keyspace,
    promise: Promise,
}

impl Fjall {
    fn insert(&self, key: &Key, bytes: &[u8]) -> Outcome<()> {
        self.records.insert(key.bytes(), bytes)?;
        if self.promise == Promise::Synced {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }
}

impl Subject for Fjall {
    type Held = ();

    const NAME: &'static str = "fjall without CAS";

    fn open(dir: &Path, promise: Promise, _payload: Payload) -> Outcome<Self> {
        let database = Database::builder(dir)
            .cache_size(super::CACHE_BYTES)
            .open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self {
            database,
            records,
            promise,
        })
    }

    fn claim(&self, key: &Key, _keep: Keep) -> Outcome<()> {
        self.insert(key, b"running")
    }

    fn complete(&self, key: &Key, (): (), result: &[u8]) -> Outcome<()> {
        self.insert(key, result)
    }

    fn close(self) -> Outcome<()> {
        self.database.persist(PersistMode::SyncAll)?;
        Ok(())
    }

    fn crash_costs(promise: Promise) -> &'static str {
        match promise {
            Promise::Relaxed => "kill: nothing; power cut: unbounded, it never syncs by itself",
            Promise::Synced => "nothing acknowledged",
        }
    }
}
