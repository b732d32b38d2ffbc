//! The socket in the store's directory: how it is made, found, and who may be at its other end.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::backend::local::{SOCKET, SOCKET_DRAFT};

/// The longest path that every system takes for a socket.
const MAX_ADDRESS_BYTES: usize = 100;

/// A path to a name in a directory that is short enough for a socket's address, for as long as this lives.
struct Address {
    path: PathBuf,
    /// What a short path leads through.
    _directory: Option<File>,
}

impl Address {
    fn of(directory: &Path, name: &str) -> io::Result<Self> {
        let path = directory.join(name);
        if path.as_os_str().len() <= MAX_ADDRESS_BYTES {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        // The system names the directories that a process has open: those names are short.
        let open = File::open(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()));
        Ok(Self {
            path,
            _directory: Some(open),
        })
    }
}

/// Listens in a directory that this process holds. What another owner has left is replaced, since it is another's no more.
pub(super) fn listen(directory: &Path) -> io::Result<UnixListener> {
    let draft = SOCKET_DRAFT;
    match fs::remove_file(directory.join(draft)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&Address::of(directory, draft)?.path)?;
    fs::set_permissions(directory.join(draft), Permissions::from_mode(0o600))?;
    fs::rename(directory.join(draft), directory.join(SOCKET))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Takes the socket away, while the directory is still held.
pub(super) fn take_away(directory: &Path) {
    let _ = fs::remove_file(directory.join(SOCKET));
}

/// Calls who listens in a directory. Whoever has stopped with a full line of callers is given up after `patience`.
pub(super) fn call(directory: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = Address::of(directory, SOCKET)?;
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    let address = SocketAddrUnix::new(&address.path)?;
    // A signal may end the wait for a place in the line.
    retry_on_intr(|| connect(&socket, &address))?;
    Ok(UnixStream::from(socket))
}

/// Whether the other end belongs to this user, or to root, or, for who calls, to the owner of the directory.
pub(super) fn is_trusted(stream: &UnixStream, directory: Option<&Path>) -> bool {
    let Some(peer) = peer(stream) else {
        return true; // where the system does not say, the directory's permissions decide
    };
    let of_directory = directory.and_then(|directory| fs::metadata(directory).ok());
    peer.uid == rustix::process::geteuid().as_raw()
        || peer.uid == 0
        || of_directory.is_some_and(|found| found.uid() == peer.uid)
}

/// Who is at the other end, by the word of the system.
pub(super) struct Peer {
    pub(super) uid: u32,
    pub(super) pid: i32,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn peer(stream: &UnixStream) -> Option<Peer> {
    let found = rustix::net::sockopt::socket_peercred(stream.as_fd()).ok()?;
    Some(Peer {
        uid: found.uid.as_raw(),
        pid: found.pid.as_raw_nonzero().get(),
    })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn peer(_: &UnixStream) -> Option<Peer> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_longer_than_an_address() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut deep = dir.path().to_path_buf();
        while deep.as_os_str().len() < 400 {
            deep.push("x".repeat(60));
        }
        fs::create_dir_all(&deep).expect("made");
        let listener = listen(&deep).expect("listens");
        let mode = fs::metadata(deep.join(SOCKET))
            .expect("is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let called = call(&deep, Duration::from_secs(1)).expect("calls");
        let (taken, _) = listener.accept().expect("is called");
        assert!(is_trusted(&taken, None) && is_trusted(&called, Some(&deep)));
    }

    #[test]
    fn what_another_owner_has_left_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(listen(dir.path()).expect("listens"));
        let refused = call(dir.path(), Duration::from_secs(1)).expect_err("nobody is there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listener = listen(dir.path()).expect("listens again");
        call(dir.path(), Duration::from_secs(1)).expect("calls");
    }
}
