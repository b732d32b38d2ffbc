//! A directory under watch, and the processes that work in it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fault::Fault;
use super::library::library;
use super::marker::MARKS_VARIABLE;
use crate::recording::Recording;

/// One directory under watch: start any number of processes with it, one after the other.
///
/// ```no_run
/// # use semel_tests::shim::{Fault, Shim};
/// # use semel_tests::recording::Call;
/// # fn main() -> std::io::Result<()> {
/// let shim = Shim::new("/tmp/t/root".as_ref(), "/tmp/t/side".as_ref())?;
/// let mut child = shim.command("semel").arg("serve").spawn()?;
/// shim.set_faults(&[Fault::on(Call::Pwrite).path("db").errno(libc::ENOSPC).always()])?;
/// shim.set_faults(&[])?;
/// child.wait()?;
/// let recording = shim.recording()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Shim {
    dir: PathBuf,
    side: PathBuf,
    faults: Vec<Fault>,
    fdatasync: Fdatasync,
    record: Record,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fdatasync {
    Kept,
    TakenOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Record {
    Everything,
    Nothing,
}

impl Shim {
    /// Watches `dir`; the recording, the marks and the control file live in `side`, outside of it. Both are created
    /// when missing.
    ///
    /// Give the parent of a store as `dir`: then the name of the store itself can get lost, as it can in a power cut.
    pub fn new(dir: &Path, side: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        fs::create_dir_all(side)?;
        let (dir, side) = (dir.canonicalize()?, side.canonicalize()?);
        if side.starts_with(&dir) {
            return Err(io::Error::other(
                "the side directory lies in the watched one",
            ));
        }
        Ok(Self {
            dir,
            side,
            faults: Vec::new(),
            fdatasync: Fdatasync::Kept,
            record: Record::Everything,
        })
    }

    /// Spoils a call from the start of the process on; [`Shim::set_faults`] replaces these.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Takes every fdatasync out: it answers success, does nothing and is not recorded.
    #[must_use]
    pub fn without_fdatasync(mut self) -> Self {
        self.fdatasync = Fdatasync::TakenOut;
        self
    }

    /// Spoils calls only, and records nothing.
    #[must_use]
    pub fn without_recording(mut self) -> Self {
        self.record = Record::Nothing;
        self
    }

    /// The watched directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command whose process runs under the shim. Several, one after the other, go on with the same recording; after
    /// a kill begin a new one with the directory as its base, since the call that was cut off may not be recorded.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.apply(&mut command);
        command
    }

    /// Puts an existing command under the shim.
    pub fn apply(&self, command: &mut Command) {
        let faults: Vec<String> = self.faults.iter().map(Fault::to_rule).collect();
        command
            .env("LD_PRELOAD", library())
            .env("SEMEL_SHIM_DIR", &self.dir)
            .env(MARKS_VARIABLE, self.side.join("marks"))
            .env("SEMEL_SHIM_CONTROL", self.side.join("control"))
            .env("SEMEL_SHIM_FAULT", faults.join("|"))
            .env_remove("SEMEL_SHIM_RECORD")
            .env_remove("SEMEL_SHIM_IGNORE_SYNC");
        if self.record == Record::Everything {
            command.env("SEMEL_SHIM_RECORD", self.side.join("recording"));
        }
        if self.fdatasync == Fdatasync::TakenOut {
            command.env("SEMEL_SHIM_IGNORE_SYNC", "1");
        }
    }

    /// Replaces the faults of the running processes, from their next call on; a hung call wakes and goes on.
    pub fn set_faults(&self, faults: &[Fault]) -> io::Result<()> {
        let rules: Vec<String> = faults.iter().map(Fault::to_rule).collect();
        let fresh = self.side.join("control.new");
        fs::write(&fresh, rules.join("\n") + "\n")?;
        fs::rename(fresh, self.side.join("control"))
    }

    /// The marks, open for appending: as the standard output of a process, each write to it is a mark. A process that
    /// knows of the shim uses a [`Marker`](super::Marker).
    pub fn marks(&self) -> io::Result<File> {
        let path = self.side.join("marks");
        OpenOptions::new().append(true).create(true).open(path)
    }

    /// What the processes did so far.
    pub fn recording(&self) -> io::Result<Recording> {
        Recording::read(&self.side.join("recording"))
    }
}
