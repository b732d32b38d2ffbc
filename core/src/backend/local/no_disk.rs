//! No log: a build without sled has stores in memory alone.

use std::path::Path;
use std::sync::Arc;

use super::log::Batch;
use crate::error::{Error, ErrorKind, Result};

/// The bytes of a block.
pub(super) type Bytes = Arc<[u8]>;

/// A log on disk, which cannot be opened.
pub(super) struct Disk(());

impl Disk {
    pub(super) fn open(dir: &Path, _: u64) -> Result<Self> {
        none(&format!("{} cannot be opened", dir.display()))
    }

    pub(super) fn write(&self, batch: Batch) -> Result<()> {
        none(&format!(
            "{} blocks cannot be written, {} not removed",
            batch.blocks.len(),
            batch.removals.len()
        ))
    }

    pub(super) fn close(&self) {}

    pub(super) fn read(&self, number: u64) -> Result<Option<Bytes>> {
        none(&format!("block {number} cannot be read"))
    }

    pub(super) fn read_from(&self, number: u64, _: usize) -> Result<Vec<(u64, Bytes)>> {
        none(&format!("no block from {number} on can be read"))
    }

    pub(super) fn read_all(&self, _: impl FnMut(u64, &Bytes) -> Result<()>) -> Result<()> {
        none("nothing can be read")
    }

    pub(super) fn last(&self) -> Result<Option<(u64, Bytes)>> {
        none("no block can be read")
    }
}

fn none<T>(what: &str) -> Result<T> {
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "this build of semel keeps nothing on disk, so {what}: build it with the feature `sled`, or use memory:"
        ),
    ))
}
