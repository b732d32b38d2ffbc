//! All there is of sled: a log of numbered blocks, written batch by batch, each of which is on disk before the next.

use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::files::{io, sync_path};
use super::log::{BATCH_BLOCKS, Batch};
use super::synced::{self, Synced};
use crate::error::{Error, ErrorKind, Result};
use crate::time::Stopwatch;

/// How many blocks are read at a time; an iterator of sled must not live long.
const READ_BLOCKS: usize = 500;
/// How long an opening waits for a predecessor's lock on the log, which ends shortly after the store was dropped.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// How long the making of an empty log may take. After a failed write sled may wait for ever.
const CREATION: Duration = Duration::from_secs(60);

/// The bytes of a block. Cloning is cheap.
pub(super) type Bytes = sled::IVec;

/// The log on disk.
pub(super) struct Disk {
    /// There until it is closed.
    open: RwLock<Option<Open>>,
    synced: Synced,
    /// What a test does before a batch is written.
    #[cfg(test)]
    pub(super) before_write: parking_lot::Mutex<Option<BeforeWrite>>,
    /// What a test does when a batch is on disk and nobody has been told.
    #[cfg(test)]
    pub(super) after_write: parking_lot::Mutex<Option<Box<dyn FnMut() + Send>>>,
}

struct Open {
    // First, so that no child shuts a descriptor that has become another file's by then.
    #[cfg(unix)]
    _locks: Vec<crate::fork::ShutInChildren>,
    db: Handle,
}

/// A handle of sled. Letting go of the last one writes and syncs; where that fails, sled panics.
#[derive(Clone)]
struct Handle {
    db: Option<sled::Db>,
    dir: Arc<Path>,
}

impl Handle {
    fn read<T>(&self, call: impl FnOnce(&sled::Db) -> sled::Result<T>) -> Result<T> {
        self.call(Doing::Reading, call)
    }

    fn write<T>(&self, call: impl FnOnce(&sled::Db) -> sled::Result<T>) -> Result<T> {
        self.call(Doing::Writing, call)
    }

    fn call<T>(&self, doing: Doing, call: impl FnOnce(&sled::Db) -> sled::Result<T>) -> Result<T> {
        match &self.db {
            Some(db) => guarded(doing, || call(db)),
            None => Err(super::queue::closed()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let db = self.db.take();
        match crate::fork::is_away() {
            // In a forked child sled's threads do not exist, and its file is the parent's.
            true => std::mem::forget(db),
            false => {
                if catch_unwind(AssertUnwindSafe(|| drop(db))).is_err() {
                    synced::failed(&self.dir);
                }
            }
        }
    }
}

/// Sees a batch, delays it, or refuses it.
#[cfg(test)]
pub(super) type BeforeWrite = Box<dyn FnMut(&Batch) -> Result<()> + Send>;

/// How often a leaf is read that was read from the disk, so that sled notices. Its cache weighs what was read only when 64
/// reads have come together in one of 256 lists; until then nothing leaves, and that is half a gigabyte of leaves.
const READS_NOTICED: usize = 8;
/// How many blocks a leaf of sled has, at least, when they came in order.
const LEAF_BLOCKS: u64 = 8;

/// Reads the leaf of a block again, which is in memory now.
fn insist(db: &sled::Db, number: u64) -> sled::Result<()> {
    for _ in 1..READS_NOTICED {
        db.contains_key(number.to_be_bytes())?;
    }
    Ok(())
}

impl Disk {
    /// Opens the log below `dir`, made if there is none.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Self> {
        if !dir.exists() {
            let place = dir.to_path_buf();
            within(CREATION, dir, move || create(&place, cache_bytes))?;
        }
        remove_unfinished_snapshots(dir)?;
        synced::write_again(dir)?;
        let db = match open_patiently(dir, cache_bytes) {
            Err(OpenFault::Damaged(first)) => {
                // A snapshot is a shortcut: without it, sled reads the log itself.
                set_snapshots_aside(dir)?;
                open_patiently(dir, cache_bytes).map_err(|again| match again {
                    OpenFault::Damaged(_) => damaged(dir, &first),
                    OpenFault::Other(error) => error,
                })?
            }
            Err(OpenFault::Other(error)) => return Err(error),
            Ok(db) => db,
        };
        #[cfg(unix)]
        let locks = descriptors_of(&dir.join("db"))
            .into_iter()
            .map(crate::fork::shut_in_children)
            .collect();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join("db"))
            .map_err(|e| io(dir, "open the log in", e))?;
        let synced = Synced::new(dir, file);
        // What a killed predecessor had written and not synced is read back as if it were there to stay: make it so.
        synced.sync()?;
        sync_path(&dir.join("conf"))?;
        sync_path(dir)?;
        Ok(Self {
            open: RwLock::new(Some(Open {
                #[cfg(unix)]
                _locks: locks,
                db,
            })),
            synced,
            #[cfg(test)]
            before_write: parking_lot::Mutex::default(),
            #[cfg(test)]
            after_write: parking_lot::Mutex::default(),
        })
    }

    /// Writes a batch and returns when it is on disk. After an error nothing may be written any more.
    pub(super) fn write(&self, batch: Batch) -> Result<()> {
        debug_assert!(batch.blocks.len() <= BATCH_BLOCKS);
        #[cfg(test)]
        if let Some(before) = &mut *self.before_write.lock() {
            before(&batch)?;
        }
        let mut changes = sled::Batch::default();
        for number in batch.removals {
            changes.remove(&number.to_be_bytes());
        }
        for (number, bytes) in batch.blocks {
            changes.insert(&number.to_be_bytes(), bytes);
        }
        let log = self.log()?;
        log.write(|db| db.apply_batch(changes))?;
        log.write(|db| db.flush())?;
        self.synced.sync()?;
        #[cfg(test)]
        if let Some(after) = &mut *self.after_write.lock() {
            after();
        }
        Ok(())
    }

    /// The log, which stays as long as somebody is reading or writing it.
    fn log(&self) -> Result<Handle> {
        match &*self.open.read() {
            Some(open) => Ok(open.db.clone()),
            None => Err(super::queue::closed()),
        }
    }

    /// Lets go of the log, whoever still has a handle of the store.
    pub(super) fn close(&self) {
        let open = self.open.write().take();
        drop(open);
    }

    /// Reads a block; `None` when the log has none of this number.
    pub(super) fn read(&self, number: u64) -> Result<Option<Bytes>> {
        self.log()?.read(|db| {
            let block = db.get(number.to_be_bytes())?;
            insist(db, number)?;
            Ok(block)
        })
    }

    /// Some blocks from `number` on, in their order; at most `limit`. Fewer than that means the log's end.
    pub(super) fn read_from(&self, number: u64, limit: usize) -> Result<Vec<(u64, Bytes)>> {
        self.log()?.read(|db| {
            let mut blocks = Vec::new();
            for pair in db
                .range(number.to_be_bytes()..)
                .take(limit.min(READ_BLOCKS))
            {
                let (key, bytes) = pair?;
                if let Ok(number) = <[u8; 8]>::try_from(&key[..]) {
                    let number = u64::from_be_bytes(number);
                    blocks.push((number, bytes));
                    if number % LEAF_BLOCKS == 0 {
                        insist(db, number)?;
                    }
                }
            }
            Ok(blocks)
        })
    }

    /// Calls `each` with every block of the log, in their order.
    pub(super) fn read_all(&self, mut each: impl FnMut(u64, &Bytes) -> Result<()>) -> Result<()> {
        let mut next = 0;
        loop {
            let blocks = self.read_from(next, READ_BLOCKS)?;
            for (number, bytes) in &blocks {
                each(*number, bytes)?;
            }
            match blocks.last() {
                Some((last, _)) if blocks.len() == READ_BLOCKS => next = last + 1,
                _ => return Ok(()),
            }
        }
    }

    /// The newest block.
    pub(super) fn last(&self) -> Result<Option<(u64, Bytes)>> {
        let last = self.log()?.read(|db| db.last())?;
        Ok(last.and_then(|(key, bytes)| {
            Some((
                u64::from_be_bytes(<[u8; 8]>::try_from(&key[..]).ok()?),
                bytes,
            ))
        }))
    }
}

/// Makes an empty log beside its place and moves it there when it is whole: sled writes its configuration in two steps,
/// syncs neither that nor the directory, and never opens a log whose configuration was cut short.
fn create(dir: &Path, cache_bytes: u64) -> Result<()> {
    let draft = dir.with_extension("new");
    if draft.exists() {
        std::fs::remove_dir_all(&draft).map_err(|e| io(&draft, "remove", e))?;
    }
    let db = open_patiently(&draft, cache_bytes).map_err(|fault| match fault {
        OpenFault::Damaged(what) => Error::unavailable(format!(
            "the log in {} could not be made: {what}",
            draft.display()
        )),
        OpenFault::Other(error) => error,
    })?;
    db.write(|db| db.flush())?;
    drop(db);
    for name in ["db", "conf"] {
        sync_path(&draft.join(name))?;
    }
    sync_path(&draft)?;
    std::fs::rename(&draft, dir).map_err(|e| io(dir, "make", e))?;
    sync_path(dir.parent().unwrap_or(dir))
}

/// Does something on a thread that is left behind if the disk does not answer in time.
fn within<T: Send + 'static>(
    limit: Duration,
    dir: &Path,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("semel-create".into());
    let started = thread.spawn(move || drop(done.send(work())));
    started.map_err(|e| io(dir, "start a thread to make the log in", e))?;
    wait.recv_timeout(limit).unwrap_or_else(|_| {
        Err(Error::unavailable(format!(
            "the log in {} could not be made in {limit:?}; see to the disk, then open the store again",
            dir.display()
        )))
    })
}

/// What to do after a fault of the disk.
pub(super) const AFTER_FAULT: &str =
    "see to the disk, then reopen the store: everything acknowledged as durable is there";

enum OpenFault {
    /// What sled reads is not what it wrote.
    Damaged(String),
    Other(Error),
}

fn open_patiently(dir: &Path, cache_bytes: u64) -> Result<Handle, OpenFault> {
    let waiting = Stopwatch::start();
    loop {
        let config = sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput);
        match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => {
                return Ok(Handle {
                    db: Some(db),
                    dir: dir.into(),
                });
            }
            Ok(Err(sled::Error::Io(e))) if is_lock_conflict(&e) => {
                if waiting.elapsed() > PREDECESSOR {
                    return Err(OpenFault::Other(Error::new(
                        ErrorKind::StoreLocked,
                        format!(
                            "the log in {} is locked by a process that did not let go of it; end that process",
                            dir.display()
                        ),
                    )));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(Err(sled::Error::Io(e)))
                if e.kind() != std::io::ErrorKind::InvalidData
                    && e.kind() != std::io::ErrorKind::UnexpectedEof
                    && e.raw_os_error().is_some() =>
            {
                return Err(OpenFault::Other(io(dir, "open the log in", e)));
            }
            Ok(Err(error)) => return Err(OpenFault::Damaged(error.to_string())),
            Err(panic) => return Err(OpenFault::Damaged(panic_text(&*panic))),
        }
    }
}

fn is_lock_conflict(error: &std::io::Error) -> bool {
    // sled wraps the lock's error in one of its own, so that the kind may be Other and the text is all there is.
    error.kind() == std::io::ErrorKind::WouldBlock
        || error.to_string().contains("could not acquire lock")
}

fn damaged(dir: &Path, what: &str) -> Error {
    Error::corrupt(format!(
        "the log in {} is damaged: {what}; restore a backup with `semel restore`, and keep the directory for a rescue",
        dir.display()
    ))
}

/// A snapshot that a kill left half written makes every later opening fail.
fn remove_unfinished_snapshots(dir: &Path) -> Result<()> {
    for path in snapshots(dir)? {
        if path.extension().is_some_and(|end| end == "generating") {
            std::fs::remove_file(&path)
                .map_err(|e| io(dir, "remove an unfinished snapshot in", e))?;
        }
    }
    Ok(())
}

fn set_snapshots_aside(dir: &Path) -> Result<()> {
    for path in snapshots(dir)? {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        std::fs::rename(&path, dir.join(format!("aside.{name}")))
            .map_err(|e| io(dir, "set a snapshot aside in", e))?;
    }
    Ok(())
}

fn snapshots(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| io(dir, "read", e))?,
    };
    let is_snapshot = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("snap."))
    };
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_snapshot)
        .collect())
}

/// What sled is asked to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Reading,
    Writing,
}

/// Calls sled; its panic is an error like its errors. One that panics over what it reads has met what it did not write.
fn guarded<T>(doing: Doing, call: impl FnOnce() -> sled::Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if is_damage(&error) => Err(damaged_log(&error.to_string())),
        Ok(Err(error)) => Err(Error::unavailable(format!(
            "the store's disk failed: {error}; {AFTER_FAULT}"
        ))
        .caused_by(error)),
        Err(panic) if doing == Doing::Reading => Err(damaged_log(&panic_text(&*panic))),
        Err(panic) => Err(Error::unavailable(format!(
            "the log failed: {}; {AFTER_FAULT}",
            panic_text(&*panic)
        ))),
    }
}

/// Whether what was read is not what was written; a file that ends too early is that, too.
fn is_damage(error: &sled::Error) -> bool {
    match error {
        sled::Error::Corruption { .. } => true,
        sled::Error::Io(e) => e.kind() == std::io::ErrorKind::UnexpectedEof,
        _ => false,
    }
}

fn damaged_log(what: &str) -> Error {
    Error::corrupt(format!(
        "the log is damaged: {what}; restore a backup with `semel restore`"
    ))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it panicked".to_owned())
}

/// The descriptors of this process that are open on a file.
#[cfg(target_os = "linux")]
fn descriptors_of(file: &Path) -> Vec<std::os::fd::RawFd> {
    let Ok(file) = file.canonicalize() else {
        return Vec::new();
    };
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    open.flatten()
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == file))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(all(unix, not(target_os = "linux")))]
fn descriptors_of(_: &Path) -> Vec<std::os::fd::RawFd> {
    Vec::new()
}
