//! A folder of the demo's own, gone when the demo is.

use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How many names are tried; a second one is hardly ever needed.
const NAMES: u32 = 16;

/// A new folder that only its owner may enter.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes it among the system's temporary files.
    pub(super) fn make() -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAMES {
            let path = std::env::temp_dir().join(format!("semel-demo-{}", unique()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => failed = error,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A word that no other run of the demo has.
pub(super) fn unique() -> String {
    format!(
        "{}-{:016x}",
        std::process::id(),
        RandomState::new().hash_one(0)
    )
}
