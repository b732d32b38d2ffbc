//! The archive's file: whole lines, whatever has become of the line before.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::files::io;
use crate::error::Result;

/// A file that grows by lines.
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// Whether the last line lacks its end: the power went, or the disk was full, while it was written.
    torn: bool,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self {
            path: path.to_path_buf(),
            file: file.map_err(|e| io(path, "open the archive", e))?,
            torn: is_torn(path),
        })
    }

    /// Writes a line, which ends itself. What came of it before an error is a line of its own.
    pub(super) fn append(&mut self, line: &str) -> Result<()> {
        let written = self.end_torn_line();
        let written = written.and_then(|()| self.file.write_all(line.as_bytes()));
        written.map_err(|e| {
            self.torn = is_torn(&self.path);
            io(&self.path, "write the archive", e)
        })
    }

    fn end_torn_line(&mut self) -> std::io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.torn = false;
        }
        Ok(())
    }

    /// Returns when all lines are on disk.
    pub(super) fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|e| io(&self.path, "sync the archive", e))
    }
}

/// Whether a file ends in the middle of a line. What is no plain file, or cannot be read, has no end to look at.
fn is_torn(path: &Path) -> bool {
    let last = || -> std::io::Result<u8> {
        let mut last = [b'\n'];
        if std::fs::metadata(path)?.is_file() {
            let mut file = File::open(path)?;
            if file.metadata()?.len() > 0 {
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
            }
        }
        Ok(last[0])
    };
    last().is_ok_and(|last| last != b'\n')
}
