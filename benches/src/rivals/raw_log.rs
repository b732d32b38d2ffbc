//! A file that is appended to and synced: the least that a durable step can cost.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::outcome::Outcome;

/// What a crash costs this log.
pub const CRASH_COSTS: &str = "nothing acknowledged, but it finds nothing again";

/// An append-only file.
pub struct RawLog(File);

impl RawLog {
    /// A new file.
    pub fn create(path: &Path) -> Outcome<Self> {
        Ok(Self(
            OpenOptions::new()
                .append(true)
                .create_new(true)
                .open(path)?,
        ))
    }

    /// Appends and syncs.
    pub fn append(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.0.write_all(bytes)?;
        self.0.sync_data()?;
        Ok(())
    }
}
