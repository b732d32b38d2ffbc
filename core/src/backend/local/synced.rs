//! Syncs of the log's file through a descriptor of our own, and what a failed one leaves to do.
//!
//! sled's flush on Linux is no fsync. After a failed sync the kernel takes what it could not write for written: it is read
//! back as long as the machine runs, no later sync writes it, and what is written behind it is lost with it when the power
//! goes. The next opening therefore writes the file again, from end to end.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::disk::AFTER_FAULT;
use super::files::{io, sync_path};
use crate::error::{Error, Result};

const FILE: &str = "db";
/// There when a sync has failed. It need not outlast the machine's memory: that is what it is about.
const FAILED: &str = "unsynced";
/// How much is written again at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// The log's file.
pub(super) struct Synced {
    dir: PathBuf,
    file: File,
}

impl Synced {
    pub(super) fn new(dir: &Path, file: File) -> Self {
        Self {
            dir: dir.to_path_buf(),
            file,
        }
    }

    /// Returns when all that was written is on disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| {
            failed(&self.dir);
            Error::unavailable(format!(
                "the store's log could not be synced: {e}; {AFTER_FAULT}"
            ))
            .caused_by(e)
        })
    }
}

/// Leaves word that a sync of the log in `dir` has failed.
pub(super) fn failed(dir: &Path) {
    // Where not even this can be written, the file system is gone until the machine is started again.
    let _ = File::create(dir.join(FAILED));
}

/// Writes the log in `dir` again if a sync of it has failed.
pub(super) fn write_again(dir: &Path) -> Result<()> {
    let word = dir.join(FAILED);
    if !word.exists() {
        return Ok(());
    }
    let path = dir.join(FILE);
    copy_onto_itself(&path).map_err(|e| io(&path, "write again after a failed sync", e))?;
    std::fs::remove_file(&word).map_err(|e| io(&word, "remove", e))?;
    sync_path(dir)
}

fn copy_onto_itself(path: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        file.seek(SeekFrom::Start(at))?;
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return file.sync_data();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&chunk[..length])?;
        at += length as u64;
    }
}
