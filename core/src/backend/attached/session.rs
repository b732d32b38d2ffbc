//! Which processes live: each that uses a store holds the lock of a file of its own, and the system lets go of it when the
//! process ends, however it ends.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::backend::local::SESSIONS;
use crate::error::{Error, Result};
use crate::fork::{Origin, ShutInChildren, shut_in_children};

/// How often a file is made anew that somebody took for a dead process's.
const MAX_TRIES: usize = 16;
/// How many dead sessions are remembered, so that they need not be looked for again.
const MAX_GONE: usize = 4096;

/// The sessions of a store.
pub(super) struct Sessions {
    directory: PathBuf,
    gone: Mutex<HashSet<u64>>,
}

impl Sessions {
    pub(super) fn of(store: &Path) -> Self {
        Self {
            directory: store.join(SESSIONS),
            gone: Mutex::default(),
        }
    }

    /// Whether the process of a session may be alive. What cannot be found out counts as life: nobody is robbed of a lease
    /// without end by an error.
    pub(super) fn lives(&self, session: u64) -> bool {
        let mut gone = self.gone.lock().unwrap_or_else(|e| e.into_inner());
        if gone.contains(&session) {
            return false;
        }
        let lives = is_held(&self.directory.join(name(session)));
        if !lives && gone.len() < MAX_GONE {
            gone.insert(session);
        }
        lives
    }

    /// How many processes live beside this one.
    pub(super) fn others(&self, own: u64) -> usize {
        let own = name(own);
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter(|entry| entry.file_name() != *own && is_held(&entry.path()))
            .count()
    }

    /// Takes away what dead processes have left.
    pub(super) fn tidy(&self) {
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if !is_held(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn is_held(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(e) => e.kind() != std::io::ErrorKind::NotFound,
    }
}

fn name(session: u64) -> String {
    format!("{session:016x}")
}

/// The file of this process. It goes when this is dropped, and its lock goes with the process.
pub(super) struct SessionFile {
    // First, so that no child shuts a descriptor that has become another file's by then.
    _shut: ShutInChildren,
    _file: File,
    path: PathBuf,
    origin: Origin,
}

impl SessionFile {
    pub(super) fn hold(store: &Path, session: u64) -> Result<Self> {
        let directory = store.join(SESSIONS);
        let unmade = |e: std::io::Error| {
            Error::unavailable(format!(
                "the file of this process in {} cannot be made: {e}",
                directory.display()
            ))
            .caused_by(e)
        };
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(unmade(e)),
            _ => {}
        }
        let path = directory.join(name(session));
        let draft = directory.join(format!("{}.new", name(session)));
        let mut last = std::io::Error::other("somebody takes it away again and again");
        for _ in 0..MAX_TRIES {
            // Held before it has its name: under that name nobody finds it free while this process lives.
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&draft)
                .map_err(unmade)?;
            let renamed = match file.try_lock() {
                Ok(()) => fs::rename(&draft, &path),
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(e)) => return Err(unmade(e)),
            };
            match renamed {
                Ok(()) => {
                    return Ok(Self {
                        _shut: shut_in_children(file.as_raw_fd()),
                        _file: file,
                        path,
                        origin: Origin::here(),
                    });
                }
                Err(e) => last = e,
            }
        }
        Err(unmade(last))
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        if !self.origin.is_foreign() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lives_as_long_as_its_file_is_held() {
        let dir = tempfile::tempdir().expect("a directory");
        let sessions = Sessions::of(dir.path());
        let held = SessionFile::hold(dir.path(), 7).expect("held");
        sessions.tidy();
        assert!(sessions.lives(7) && !sessions.lives(8));
        drop(held);
        assert!(!sessions.lives(7));
    }

    #[test]
    fn what_the_dead_have_left_is_taken_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = SessionFile::hold(dir.path(), 7).expect("held");
        let left = dir.path().join(SESSIONS).join(name(9));
        fs::write(&left, "").expect("written");
        Sessions::of(dir.path()).tidy();
        assert!(!left.exists() && held.path.exists());
    }
}
