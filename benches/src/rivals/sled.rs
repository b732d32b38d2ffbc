//! Plain sled with compare-and-swap: what one would write without semel.

use std::path::Path;

use crate::key::Key;
use crate::outcome::Outcome;
use crate::subject::{Keep, Payload, Promise, Subject};

const RUNNING: &[u8] = b"running";

/// One tree, a key per record, two compare-and-swaps per cycle.
pub struct Sled(sled::Db);

impl Subject for Sled {
    type Held = ();

    const NAME: &'static str = "sled CAS";

    fn open(dir: &Path, promise: Promise, _payload: Payload) -> Outcome<Self> {
        if promise == Promise::Synced {
            return Err("sled 0.34 has no call that syncs its log to disk".into());
        }
        let config = sled::Config::new()
            .path(dir)
            .mode(sled::Mode::HighThroughput);
        Ok(Self(config.cache_capacity(super::CACHE_BYTES).open()?))
    }

    fn claim(&self, key: &Key, _keep: Keep) -> Outcome<()> {
        self.0
            .compare_and_swap(key.bytes(), None::<&[u8]>, Some(RUNNING))??;
        Ok(())
    }

    fn complete(&self, key: &Key, (): (), result: &[u8]) -> Outcome<()> {
        self.0
            .compare_and_swap(key.bytes(), Some(RUNNING), Some(result))??;
        Ok(())
    }

    fn close(self) -> Outcome<()> {
        self.0.flush()?;
        Ok(())
    }

    fn crash_costs(_promise: Promise) -> &'static str {
        "kill: the last 500 ms; power cut: unbounded, its flush is no fsync"
    }
}
