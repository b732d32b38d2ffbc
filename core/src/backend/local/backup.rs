//! A backup is the identity and a run of blocks in one file; a restored store is a new life of the same identity.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Local;
use super::directory::{Directory, Identity, is_store};
use super::disk::{Bytes, Disk};
use super::files::{io, settled};
use super::log::{BATCH_BLOCKS, Batch};
use super::watermark::{Mark, Watermark};
use crate::backend::Backend;
use crate::codec::{BlockHead, BlockReader, BlockWriter, MAX_BLOCK_BYTES};
use crate::error::{Error, Result};
use crate::nonce;
use crate::time::{Clock, after};

const MAGIC: &[u8; 16] = b"semel backup 1\r\n";
const END: u32 = u32::MAX;
/// A restored store's fences start this far above now.
const FENCE_SLACK_US: u64 = 1_000_000;

/// What a backup or a restore has copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct BackupFacts {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Local {
    /// Copies all that is on disk when it is called into a new file. The store goes on working meanwhile.
    pub(crate) fn backup(&self, file: &Path) -> Result<BackupFacts> {
        self.check()?;
        let log = self.shared.log.as_ref().ok_or_else(|| {
            Error::new(
                crate::ErrorKind::Unsupported,
                "a store in memory has nothing to back up; open one in a directory",
            )
        })?;
        // No block leaves while it is copied.
        let _pause = log.pause_cleaning(|| self.shared.durable.check())?;
        self.barrier().wait()?;
        let ends = log.ends();
        // A name that nobody else has: not another backup's draft, and no file of the user's.
        let draft = file.with_file_name(format!("semel-backup-{:016x}.part", nonce::random()));
        let copied = self.write_backup(&draft, log, ends.tail, ends.head);
        match copied {
            Ok(facts) => {
                std::fs::rename(&draft, file).map_err(|e| io(file, "name the backup", e))?;
                super::files::sync_path(&match file.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
                    _ => ".".into(),
                })?;
                Ok(facts)
            }
            Err(error) => {
                let _ = std::fs::remove_file(&draft);
                Err(error)
            }
        }
    }

    fn write_backup(
        &self,
        draft: &Path,
        log: &super::log::Log,
        tail: u64,
        head: u64,
    ) -> Result<BackupFacts> {
        let failed = |e| io(draft, "write the backup", e);
        let file = File::create_new(draft).map_err(failed)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .map_err(failed)?;
        let mut out = Checked {
            inner: BufWriter::new(file),
            sum: blake3::Hasher::new(),
            bytes: 0,
        };
        let identity = self.identity.to_text();
        out.put(MAGIC).map_err(failed)?;
        out.put_block(identity.as_bytes()).map_err(failed)?;
        let mut facts = BackupFacts::default();
        let mut next = tail;
        while head > 0 && next <= head {
            for (number, bytes) in log.disk.read_from(next, BATCH_BLOCKS)? {
                if number > head {
                    break;
                }
                BlockReader::open(number, &bytes)?;
                out.put_block(&bytes).map_err(failed)?;
                facts.blocks += 1;
                next = number + 1;
            }
            if next <= head && log.disk.read(next)?.is_none() {
                return Err(Error::corrupt(format!(
                    "block {next} of the log is missing; the store cannot be backed up whole"
                )));
            }
        }
        out.put(&END.to_le_bytes()).map_err(failed)?;
        let sum = out.sum.finalize();
        out.inner.write_all(sum.as_bytes()).map_err(failed)?;
        let file = out.inner.into_inner().map_err(|e| failed(e.into_error()))?;
        file.sync_all().map_err(failed)?;
        facts.bytes = out.bytes;
        Ok(facts)
    }
}

/// Makes a store in a new directory from a backup.
pub(crate) fn restore(file: &Path, into: &Path) -> Result<BackupFacts> {
    let into = &settled(into);
    if is_store(into) {
        return Err(Error::invalid(format!(
            "{} is a store already; restore into a directory that is empty or does not exist",
            into.display()
        )));
    }
    crate::fork::check_home()?;
    // First the whole file is checked, so that a broken backup leaves nothing behind.
    read_backup(file, |_, _| Ok(()))?;
    let directory = Directory::hold(into, None)?;
    let disk = Disk::open(&directory.log(), 16 << 20)?;
    let mut facts = BackupFacts::default();
    let mut identity = None;
    let mut time_us = 0;
    let mut next = BlockHead {
        number: 1,
        ..BlockHead::default()
    };
    let mut batch = Batch::default();
    let floor = after(Clock::system().read().wall_us, FENCE_SLACK_US);
    read_backup(file, |kept, block| {
        let epoch = match &identity {
            Some(reborn) => Identity::clone(reborn).epoch,
            None => identity.insert(kept.reborn()?).epoch,
        };
        let Some(bytes) = block else { return Ok(()) };
        let number = u64::from_le_bytes(
            bytes
                .get(4..12)
                .and_then(|n| n.try_into().ok())
                .unwrap_or_default(),
        );
        let old = BlockReader::open(number, bytes)?;
        let head = BlockHead {
            number: next.number,
            previous: next.previous,
            epoch,
            stamp_floor: old.head.stamp_floor.max(floor),
            ..old.head
        };
        let (sealed, check) = BlockWriter::again(&old).seal(&head);
        batch.blocks.push((head.number, Bytes::from(sealed)));
        facts.blocks += 1;
        facts.bytes += bytes.len() as u64;
        (next.number, next.previous) = (head.number + 1, check);
        time_us = time_us.max(head.time_us);
        if batch.blocks.len() == BATCH_BLOCKS {
            disk.write(std::mem::take(&mut batch))?;
        }
        Ok(())
    })?;
    disk.write(batch)?;
    let (mut watermark, _) = Watermark::open(into)?;
    watermark.write(Mark {
        epoch: identity.as_ref().map_or(0, |identity| identity.epoch),
        head: next.number - 1,
        tail: 1,
        check: next.previous,
        // The newest block knows.
        swept_until_us: 0,
        time_us,
    })?;
    watermark.settle(into)?;
    // The identity comes last: without it the directory is no store yet.
    if let Some(identity) = identity {
        directory.establish(&identity)?;
    }
    Ok(facts)
}

/// Reads a backup from end to end; `each` gets the identity alone first, then with every block.
fn read_backup(
    file: &Path,
    mut each: impl FnMut(&Identity, Option<&[u8]>) -> Result<()>,
) -> Result<()> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => damaged(file, "is cut short"),
        _ => io(file, "read the backup", e),
    };
    let mut input = BufReader::new(File::open(file).map_err(failed)?);
    let mut sum = blake3::Hasher::new();
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(failed)?;
    if magic != *MAGIC {
        return Err(Error::invalid(format!(
            "{} is not a backup that this semel can read",
            file.display()
        )));
    }
    sum.update(&magic);
    let mut identity: Option<Identity> = None;
    loop {
        let mut length = [0; 4];
        input.read_exact(&mut length).map_err(failed)?;
        sum.update(&length);
        let length = u32::from_le_bytes(length);
        if length == END {
            break;
        }
        if length as usize > MAX_BLOCK_BYTES {
            return Err(damaged(file, "has a block that is too long"));
        }
        let mut bytes = vec![0; length as usize];
        input.read_exact(&mut bytes).map_err(failed)?;
        sum.update(&bytes);
        match &identity {
            None => {
                let read = Identity::from_text(&String::from_utf8_lossy(&bytes), file)?;
                each(&read, None)?;
                identity = Some(read);
            }
            Some(identity) => each(identity, Some(&bytes))?,
        }
    }
    let mut kept = [0; 32];
    input.read_exact(&mut kept).map_err(failed)?;
    match sum.finalize() == kept {
        true if identity.is_some() => Ok(()),
        _ => Err(damaged(file, "fails its checksum")),
    }
}

fn damaged(file: &Path, what: &str) -> Error {
    Error::corrupt(format!(
        "the backup {} {what}; use another one",
        file.display()
    ))
}

/// A writer that sums what it writes.
struct Checked<W> {
    inner: W,
    sum: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Checked<W> {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
        self.inner.write_all(bytes)
    }

    fn put_block(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.put(&(bytes.len() as u32).to_le_bytes())?;
        self.put(bytes)
    }
}
