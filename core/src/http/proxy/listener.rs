//! Where connections come in: an address of the network, or a Unix socket that is its owner's alone.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as Knock;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::fields::Peer;
use super::place::Place;
use crate::error::{Error, ErrorKind, Result};

/// Who may use a socket: its owner.
const SOCKET_MODE: u32 = 0o600;

/// A place at which connections come in.
pub(super) enum Listener {
    Network(TcpListener),
    Socket {
        listener: UnixListener,
        _file: Leftover,
    },
}

/// The file of a socket, removed with it.
pub(super) struct Leftover(PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // One that stays is found to be dead by the next who listens there.
        let _ = fs::remove_file(&self.0);
    }
}

/// A connection.
pub(super) enum Connection {
    Network(TcpStream),
    Socket(UnixStream),
}

impl Listener {
    pub(super) async fn bind(place: &Place) -> Result<Self> {
        match place {
            Place::Network(address) => {
                let listener = TcpListener::bind(address.as_str()).await;
                listener.map(Self::Network).map_err(|e| cannot(address, &e))
            }
            Place::Socket(path) => {
                let listener = socket(path);
                listener
                    .map(|listener| Self::Socket {
                        listener,
                        _file: Leftover(path.clone()),
                    })
                    .map_err(|e| cannot(&format!("unix:{}", path.display()), &e))
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Connection, Option<Peer>)> {
        match self {
            Self::Network(listener) => {
                let (stream, peer) = listener.accept().await?;
                // An answer is one piece, and is not to wait for another.
                stream.set_nodelay(true)?;
                Ok((Connection::Network(stream), Some(Peer(peer.ip()))))
            }
            Self::Socket { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok((Connection::Socket(stream), None))
            }
        }
    }

    /// Its address, if it is one of the network.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Network(listener) => listener.local_addr().ok(),
            Self::Socket { .. } => None,
        }
    }
}

fn cannot(place: &str, error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot listen at {place}: {error}; name another place, or end who has it"),
    )
}

/// Listens at a path that nobody listens at. The socket is closed to others before it stands there.
fn socket(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::other("there is a file that is no socket"));
        }
        Ok(_) if Knock::connect(path).is_ok() => {
            return Err(io::Error::other("another process listens there"));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut made = path.as_os_str().to_owned();
    made.push(format!(".{}", std::process::id()));
    let made = Leftover(made.into());
    let listener = UnixListener::bind(&made.0)?;
    fs::set_permissions(&made.0, Permissions::from_mode(SOCKET_MODE))?;
    fs::rename(&made.0, path)?;
    Ok(listener)
}
