//! redb: a copy-on-write B-tree, two commits per cycle.

use std::path::Path;

use redb::{Database, Durability, ReadableTable, TableDefinition, WriteTransaction};

use crate::key::Key;
use crate::outcome::Outcome;
use crate::subject::{Keep, Payload, Promise, Subject};

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// One table in one file.
pub struct Redb {
    database: Database,
    durability: Durability,
}

impl Redb {
    fn begin(&self) -> Outcome<WriteTransaction> {
        let mut write = self.database.begin_write()?;
        write.set_durability(self.durability)?;
        Ok(write)
    }
}

impl Subject for Redb {
    type Held = ();

    const NAME: &'static str = "redb";

    fn open(dir: &Path, promise: Promise, _payload: Payload) -> Outcome<Self> {
        std::fs::create_dir_all(dir)?;
        let mut builder = Database::builder();
        builder.set_cache_size(super::CACHE_BYTES as usize);
        let durability = match promise {
            Promise::Relaxed => Durability::None,
            Promise::Synced => Durability::Immediate,
        };
        Ok(Self {
            database: builder.create(dir.join("records.redb"))?,
            durability,
        })
    }

    fn claim(&self, key: &Key, _keep: Keep) -> Outcome<()> {
        let write = self.begin()?;
        let mut records = write.open_table(RECORDS)?;
        if records.get(&key.bytes()[..])?.is_some() {
            return Err("the key is not new".into());
        }
        records.insert(&key.bytes()[..], &b"running"[..])?;
        drop(records);
        write.commit()?;
        Ok(())
    }

    fn complete(&self, key: &Key, (): (), result: &[u8]) -> Outcome<()> {
        let write = self.begin()?;
        write
            .open_table(RECORDS)?
            .insert(&key.bytes()[..], result)?;
        write.commit()?;
        Ok(())
    }

    fn close(self) -> Outcome<()> {
        let mut last = self.database.begin_write()?;
        last.set_durability(Durability::Immediate)?;
        last.commit()?;
        Ok(())
    }

    fn crash_costs(promise: Promise) -> &'static str {
        match promise {
            Promise::Relaxed => "everything since the last durable commit: here, all",
            Promise::Synced => "nothing acknowledged",
        }
    }
}
