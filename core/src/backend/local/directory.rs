//! The directory of a store: what may be one, who holds it, and the identity that makes it this store and no other.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{io, sync_path};
use crate::error::{Error, ErrorKind, Result};
use crate::time::Stopwatch;

/// The version of the directory's layout.
const FORMAT: u32 = 1;
const IDENTITY: &str = "identity";
const OWNER: &str = "owner";
/// What stands in it when its holder has let go, and all is written.
const CLOSED: &str = "closed";
/// How long the text in it is: a process id, what that process is doing, and at the end of it its session.
const OWNER_BYTES: usize = 32;
const LOG: &str = "log";
/// Where the holder listens, and where each process that uses the store holds a file.
pub(crate) const SOCKET: &str = "socket";
/// The same before it has its name: a crash may leave it behind.
pub(crate) const SOCKET_DRAFT: &str = "socket.new";
pub(crate) const SESSIONS: &str = "sessions";
/// How long an opening waits for a holder that says it is opening or closing the store.
pub(crate) const CLOSING_HOLDER: Duration = Duration::from_secs(10);
/// How long an opening waits for a holder that may be about to go: a process that was just killed, say.
pub(crate) const ANY_HOLDER: Duration = Duration::from_millis(250);

/// What makes a store this one: random secrets made at its creation, and the epoch of this life of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Made at creation and at every restore.
    pub(crate) epoch: u64,
    /// Keys the hash of the index.
    pub(crate) hash_secret: [u8; 16],
    /// Keys the fingerprints of payloads.
    pub(crate) fingerprint_secret: [u8; 32],
}

impl Identity {
    pub(crate) fn new() -> Result<Self> {
        let mut random = [0; 56];
        getrandom::fill(&mut random)
            .map_err(|e| Error::unavailable(format!("the system gave no random bytes: {e}")))?;
        let mut identity = Self {
            epoch: 0,
            hash_secret: [0; 16],
            fingerprint_secret: [0; 32],
        };
        identity.epoch = u64::from_le_bytes(random[..8].try_into().unwrap_or_default());
        identity.hash_secret.copy_from_slice(&random[8..24]);
        identity.fingerprint_secret.copy_from_slice(&random[24..]);
        Ok(identity)
    }

    /// The same secrets in a new life.
    pub(crate) fn reborn(&self) -> Result<Self> {
        Ok(Self {
            epoch: Self::new()?.epoch,
            ..self.clone()
        })
    }

    pub(crate) fn to_text(&self) -> String {
        let body = format!(
            "semel store, format {FORMAT}\nepoch {:016x}\nhash {}\nfingerprint {}\n",
            self.epoch,
            hex(&self.hash_secret),
            hex(&self.fingerprint_secret)
        );
        let check = blake3::hash(body.as_bytes()).to_hex();
        format!("{body}check {check}\n")
    }

    pub(crate) fn from_text(text: &str, from: &Path) -> Result<Self> {
        let damaged = || {
            Error::corrupt(format!(
                "{} is damaged; restore a backup with `semel restore`",
                from.display()
            ))
        };
        let first = text.lines().next().unwrap_or_default();
        let format: u32 = first
            .strip_prefix("semel store, format ")
            .and_then(|n| n.parse().ok())
            .ok_or_else(damaged)?;
        if format != FORMAT {
            return Err(Error::corrupt(format!(
                "{} is of format {format}, and this semel reads format {FORMAT}: use the semel that wrote it, or one that says it can convert it",
                from.display()
            )));
        }
        let body_end = text.find("check ").ok_or_else(damaged)?;
        let (body, check) = text.split_at(body_end);
        if check.trim_end() != format!("check {}", blake3::hash(body.as_bytes()).to_hex()) {
            return Err(damaged());
        }
        let field = |name: &str| {
            body.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        let mut identity = Self {
            epoch: 0,
            hash_secret: [0; 16],
            fingerprint_secret: [0; 32],
        };
        identity.epoch = field("epoch")
            .and_then(|text| u64::from_str_radix(text, 16).ok())
            .ok_or_else(damaged)?;
        unhex(
            field("hash").ok_or_else(damaged)?,
            &mut identity.hash_secret,
        )
        .ok_or_else(damaged)?;
        unhex(
            field("fingerprint").ok_or_else(damaged)?,
            &mut identity.fingerprint_secret,
        )
        .ok_or_else(damaged)?;
        Ok(identity)
    }
}

/// A directory that this process holds.
pub(super) struct Directory {
    // First, so that no child shuts a descriptor that has become another file's by then.
    #[cfg(unix)]
    _lock: crate::fork::ShutInChildren,
    path: PathBuf,
    owner: File,
    /// The session of the last holder, if it wrote everything before it let go; 0 is none.
    predecessor: u64,
}

impl Directory {
    /// Checks, makes and locks the directory.
    pub(super) fn hold(path: &Path, patience: Option<Duration>) -> Result<Self> {
        prepare(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(OWNER));
        let mut owner = file.map_err(|e| io(path, "open the lock of", e))?;
        // Before it is locked: a child that is forked while this waits would hold the lock as well.
        #[cfg(unix)]
        let shut = crate::fork::shut_in_children(std::os::fd::AsRawFd::as_raw_fd(&owner));
        lock(&mut owner, path, patience)?;
        let predecessor = predecessor(&mut owner);
        let mut directory = Self {
            path: path.to_path_buf(),
            owner,
            predecessor,
            #[cfg(unix)]
            _lock: shut,
        };
        directory.say("opening")?;
        Ok(directory)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// The store's identity; `None` in a directory that is new.
    pub(super) fn identity(&self) -> Result<Option<Identity>> {
        let path = self.path.join(IDENTITY);
        match fs::read(&path) {
            Ok(bytes) => Identity::from_text(&String::from_utf8_lossy(&bytes), &path).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => match self.log().exists() {
                true => Err(Error::corrupt(format!(
                    "{} is missing and the log cannot be read without it; restore a backup with `semel restore`",
                    path.display()
                ))),
                false => Ok(None),
            },
            Err(e) => Err(io(&path, "read", e)),
        }
    }

    /// Writes the identity of a new store: whole or not at all.
    pub(super) fn establish(&self, identity: &Identity) -> Result<()> {
        let (path, draft) = (self.path.join(IDENTITY), self.path.join("identity.new"));
        let write = || {
            let mut file = File::create(&draft)?;
            restrict(&draft, 0o600)?;
            file.write_all(identity.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|e| io(&path, "write", e))?;
        sync_path(&self.path)?;
        sync_path(&parent(&self.path))
    }

    pub(super) fn predecessor(&self) -> u64 {
        self.predecessor
    }

    /// Tells the next holder that everything is written.
    pub(super) fn leave(&mut self, session: u64) {
        // If it cannot be said, the next one takes this for a holder that crashed.
        let _ = self.say(&format!("{CLOSED} {session:016x}"));
    }

    /// Tells others what the holder is doing.
    pub(super) fn say(&mut self, doing: &str) -> Result<()> {
        // Always as long, and in one write: who reads meanwhile finds the one or the other.
        let text = format!(
            "{:<1$}\n",
            format!("{} {doing}", std::process::id()),
            OWNER_BYTES - 1
        );
        let write = |file: &mut File| {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        };
        write(&mut self.owner).map_err(|e| io(&self.path, "write the lock of", e))
    }
}

/// Whether there is a store at this path.
pub(crate) fn is_store(path: &Path) -> bool {
    path.join(IDENTITY).exists() || path.join(LOG).exists()
}

fn lock(owner: &mut File, path: &Path, patience: Option<Duration>) -> Result<()> {
    let waiting = Stopwatch::start();
    loop {
        match owner.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::WouldBlock) => {}
            Err(fs::TryLockError::Error(e)) => return Err(io(path, "lock", e)),
        }
        let (pid, closing) = holder(owner);
        let patience = patience.unwrap_or(if closing { CLOSING_HOLDER } else { ANY_HOLDER });
        if waiting.elapsed() >= patience {
            let who = if pid.is_empty() {
                "another process".to_owned()
            } else {
                format!("process {pid}")
            };
            return Err(Error::new(
                ErrorKind::StoreLocked,
                format!(
                    "the store in {} is held by {who}: let it end or close the store, or use another directory",
                    path.display()
                ),
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the holder of a store is at, by its own word.
#[cfg(unix)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It reads the log, which takes its time.
    Opening,
    Serving,
    Closing,
}

/// What the holder of a store says that it is doing.
#[cfg(unix)]
pub(crate) fn doing(path: &Path) -> Doing {
    let text = fs::read_to_string(path.join(OWNER)).unwrap_or_default();
    match text.split_whitespace().nth(1) {
        Some("opening") => Doing::Opening,
        Some("closing") => Doing::Closing,
        _ => Doing::Serving,
    }
}

/// Who holds the store, as it says itself, and whether it is opening or closing it, which ends by itself.
fn holder(owner: &mut File) -> (String, bool) {
    let mut text = String::new();
    let _ = owner
        .seek(SeekFrom::Start(0))
        .and_then(|_| owner.take(64).read_to_string(&mut text));
    let mut words = text.split_whitespace();
    (
        words.next().unwrap_or_default().to_owned(),
        matches!(words.next(), Some("opening" | "closing")),
    )
}

/// The session of the last holder, if it said at its end that everything is written.
fn predecessor(owner: &mut File) -> u64 {
    let mut text = String::new();
    let _ = owner
        .seek(SeekFrom::Start(0))
        .and_then(|_| owner.take(64).read_to_string(&mut text));
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [_, CLOSED, session] => u64::from_str_radix(session, 16).unwrap_or(0),
        _ => 0,
    }
}

/// Refuses what cannot or should not be a store's directory, and makes one that does not exist.
fn prepare(path: &Path) -> Result<()> {
    let shown = path.display();
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return create(path),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(Error::invalid(format!(
                "{shown} cannot be a store: a part of the path is a file, not a directory"
            )));
        }
        Err(e) => return Err(io(path, "look at", e)),
    };
    if meta.file_type().is_symlink() {
        return Err(Error::invalid(format!(
            "{shown} is a symbolic link; name the directory it leads to, or a folder inside it"
        )));
    }
    if !meta.is_dir() {
        return Err(Error::invalid(format!(
            "{shown} is a file, and a store is a directory; name one that is empty or does not exist"
        )));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o002 != 0 {
        return Err(Error::invalid(format!(
            "{shown} can be written by every user; use a folder inside it, such as {shown}/semel"
        )));
    }
    if is_store(path) {
        return Ok(());
    }
    let foreign = fs::read_dir(path)
        .map_err(|e| io(path, "read", e))?
        .flatten()
        .find(|entry| {
            let name = entry.file_name();
            ![
                OWNER,
                IDENTITY,
                "identity.new",
                LOG,
                "log.new",
                SOCKET,
                SOCKET_DRAFT,
                SESSIONS,
            ]
            .iter()
            .any(|own| name == *own)
        });
    match foreign {
        Some(entry) => Err(Error::invalid(format!(
            "{shown} is not a store and has other files in it ({}); use a folder inside it, such as {shown}/semel",
            entry.file_name().to_string_lossy()
        ))),
        None => Ok(()),
    }
}

fn create(path: &Path) -> Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotADirectory | std::io::ErrorKind::AlreadyExists => {
            Error::invalid(format!(
                "{} cannot be a store: a part of the path is a file, not a directory",
                path.display()
            ))
        }
        _ => io(path, "make", e),
    })?;
    restrict(path, 0o700).map_err(|e| io(path, "restrict", e))?;
    // A name is durable when its directory is: of the outermost that was made first.
    let parents = missing.iter().rev().map(|dir| parent(dir));
    parents.into_iter().try_for_each(|dir| sync_path(&dir))
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_path_buf(),
        None => path.to_path_buf(),
    }
}

#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict(_: &Path, _: u32) -> std::io::Result<()> {
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str, into: &mut [u8]) -> Option<()> {
    if text.len() != 2 * into.len() {
        return None;
    }
    for (byte, at) in into.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(())
}
