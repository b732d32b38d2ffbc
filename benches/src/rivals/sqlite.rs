//! SQLite in WAL mode: an insert that does nothing on conflict, then an update, each its own transaction.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params};

use crate::key::Key;
use crate::outcome::Outcome;
use crate::subject::{Keep, Payload, Promise, Subject};

const TABLE: &str = "CREATE TABLE records (key BLOB PRIMARY KEY, result BLOB) WITHOUT ROWID";
const CLAIM: &str = "INSERT INTO records (key) VALUES (?1) ON CONFLICT DO NOTHING";
const COMPLETE: &str = "UPDATE records SET result = ?2 WHERE key = ?1";

/// One connection behind a lock: with many threads that is quicker than a connection each, which wait by sleeping.
pub struct Sqlite(Mutex<Connection>);

impl Sqlite {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subject for Sqlite {
    type Held = ();

    const NAME: &'static str = "SQLite WAL";

    fn open(dir: &Path, promise: Promise, _payload: Payload) -> Outcome<Self> {
        std::fs::create_dir_all(dir)?;
        let connection = Connection::open(dir.join("records.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "cache_size", -(super::CACHE_BYTES as i64 / 1024))?;
        let synchronous = match promise {
            Promise::Relaxed => "NORMAL",
            Promise::Synced => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute(TABLE, [])?;
        Ok(Self(Mutex::new(connection)))
    }

    fn claim(&self, key: &Key, _keep: Keep) -> Outcome<()> {
        match self
            .connection()
            .prepare_cached(CLAIM)?
            .execute(params![key.bytes()])?
        {
            1 => Ok(()),
            _ => Err("the key is not new".into()),
        }
    }

    fn complete(&self, key: &Key, (): (), result: &[u8]) -> Outcome<()> {
        match self
            .connection()
            .prepare_cached(COMPLETE)?
            .execute(params![key.bytes(), result])?
        {
            1 => Ok(()),
            _ => Err("the key is not there".into()),
        }
    }

    fn close(self) -> Outcome<()> {
        let connection = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        connection.close().map_err(|(_, error)| error)?;
        Ok(())
    }

    fn crash_costs(promise: Promise) -> &'static str {
        match promise {
            Promise::Relaxed => {
                "kill: nothing; power cut: what was written since the last checkpoint"
            }
            Promise::Synced => "nothing acknowledged",
        }
    }
}
