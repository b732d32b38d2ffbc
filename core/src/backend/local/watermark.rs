//! How far the log had got, kept beside it: a log that was cut back or damaged does not pass for a shorter one.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::files::{io, sync_path};
use crate::error::{Error, Result};

const NAME: &str = "watermark";
/// Slots are this far apart, so that one torn write never reaches both.
const SLOT_BYTES: u64 = 4096;
const LENGTH: usize = 56;

/// The ends of the log at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub(super) epoch: u64,
    /// Number of the newest block; 0 when there is none.
    pub(super) head: u64,
    /// Number of the oldest block.
    pub(super) tail: u64,
    /// Checksum of the newest block.
    pub(super) check: u32,
    /// The highest time the store has seen, in microseconds since the Unix epoch.
    pub(super) time_us: u64,
    /// Everything forgotten at or before this time is swept; the newest block may not know yet.
    pub(super) swept_until_us: u64,
}

impl Mark {
    fn encode(&self, serial: u64) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let words = [
            serial,
            self.epoch,
            self.head,
            self.tail,
            self.time_us,
            self.swept_until_us,
        ];
        for (at, word) in words.into_iter().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.check.to_le_bytes());
        let check = crc32c::crc32c(&bytes[..52]);
        bytes[52..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LENGTH]) -> Option<(u64, Self)> {
        let word = |at: usize| {
            u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap_or_default())
        };
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        (crc32c::crc32c(&bytes[..52]) == half(52)).then(|| {
            (
                word(0),
                Self {
                    epoch: word(1),
                    head: word(2),
                    tail: word(3),
                    time_us: word(4),
                    swept_until_us: word(5),
                    check: half(48),
                },
            )
        })
    }
}

/// The file of the mark: two slots, written in turn.
pub(super) struct Watermark {
    path: PathBuf,
    file: File,
    serial: u64,
    last: Mark,
}

impl Watermark {
    /// Opens the file; also gives the newest mark in it. `Ok` without a mark only when the file was never written.
    pub(super) fn open(dir: &Path) -> Result<(Self, Option<Mark>)> {
        let path = dir.join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|e| io(&path, "open", e))?;
        let length = file.metadata().map_err(|e| io(&path, "read", e))?.len();
        let mut newest: Option<(u64, Mark)> = None;
        for slot in 0..2 {
            let mut bytes = [0; LENGTH];
            if length >= slot * SLOT_BYTES + LENGTH as u64 {
                read_at(&file, &mut bytes, slot * SLOT_BYTES).map_err(|e| io(&path, "read", e))?;
                newest = newest.max_by_serial(Mark::decode(&bytes));
            }
        }
        if newest.is_none() && length >= LENGTH as u64 && !is_blank(&file, length) {
            return Err(Error::corrupt(format!(
                "{} is damaged, so that a log that was cut back could not be told from a whole one; if you know that it was not, open the store once with accept_rollback (`semel verify --accept-rollback`)",
                path.display()
            )));
        }
        let (serial, last) = newest.unwrap_or_default();
        Ok((
            Self {
                path,
                file,
                serial,
                last,
            },
            newest.map(|(_, mark)| mark),
        ))
    }

    /// Takes a damaged mark away; for an opening that accepts a rollback.
    pub(super) fn remove(dir: &Path) -> Result<()> {
        std::fs::remove_file(dir.join(NAME)).map_err(|e| io(dir, "remove the watermark of", e))
    }

    /// Makes the names durable: without it a power cut may take the file away.
    pub(super) fn settle(&self, dir: &Path) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|e| io(&self.path, "sync", e))?;
        sync_path(dir)
    }

    /// Writes the mark if it is another one, and returns when it is on disk.
    pub(super) fn write(&mut self, mark: Mark) -> Result<()> {
        if mark == self.last && self.serial != 0 {
            return Ok(());
        }
        let serial = self.serial + 1;
        write_at(&self.file, &mark.encode(serial), serial % 2 * SLOT_BYTES)
            .map_err(|e| io(&self.path, "write", e))?;
        self.file
            .sync_data()
            .map_err(|e| io(&self.path, "sync", e))?;
        (self.serial, self.last) = (serial, mark);
        Ok(())
    }
}

trait Newest {
    fn max_by_serial(self, other: Self) -> Self;
}

impl Newest for Option<(u64, Mark)> {
    fn max_by_serial(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(two)) => Some(if two.0 > one.0 { two } else { one }),
            (one, two) => one.or(two),
        }
    }
}

fn is_blank(file: &File, length: u64) -> bool {
    let mut bytes = vec![0; length.min(2 * SLOT_BYTES) as usize];
    read_at(file, &mut bytes, 0).is_ok() && bytes.iter().all(|byte| *byte == 0)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
    let read = std::os::windows::fs::FileExt::seek_read(file, bytes, at)?;
    if read == bytes.len() {
        Ok(())
    } else {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> std::io::Result<()> {
    let written = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
    if written == bytes.len() {
        Ok(())
    } else {
        Err(std::io::ErrorKind::WriteZero.into())
    }
}
