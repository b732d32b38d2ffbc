//! Who sits at the door of a store that this process holds: the keeper, which has a thread anyway. The threads that serve
//! others start when somebody comes.

use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use super::bell::{Bell, CALL, Heard};
use super::server::Server;
use super::session::Sessions;
use super::socket;
use crate::backend::local::{Company, Local};
use crate::fork::{ShutInChildren, shut_in_children};

/// How long the door is left alone when nobody can be let in.
const RETRY: Duration = Duration::from_millis(5);

/// The door of a store.
pub(super) struct Porter {
    // First, so that no child shuts a descriptor that has become another file's by then.
    _shut: ShutInChildren,
    listener: Arc<UnixListener>,
    directory: PathBuf,
    sessions: Sessions,
    bell: Bell,
    local: OnceLock<Weak<Local>>,
    served: Mutex<Served>,
}

/// Who serves those that came.
#[derive(Default)]
enum Served {
    #[default]
    Nobody,
    By(Server),
    /// The store is being closed.
    Closed,
}

impl Porter {
    /// Opens the door of a directory that this process holds; `None` where there are no sockets.
    pub(super) fn at(directory: &Path) -> Option<Arc<Self>> {
        let listener = socket::listen(directory).ok()?;
        let sessions = Sessions::of(directory);
        sessions.tidy();
        Some(Arc::new(Self {
            _shut: shut_in_children(listener.as_raw_fd()),
            listener: Arc::new(listener),
            directory: directory.to_path_buf(),
            sessions,
            bell: Bell::new().ok()?,
            local: OnceLock::new(),
            served: Mutex::default(),
        }))
    }

    /// Lets others in from now on.
    pub(super) fn serve(&self, local: &Arc<Local>) {
        let _ = self.local.set(Arc::downgrade(local));
        self.bell.ring();
    }

    /// Lets nobody in any more: who is being served gets his answer, if it is near, and the others look elsewhere.
    pub(super) fn close(&self) {
        let served = std::mem::replace(&mut *self.served(), Served::Closed);
        match served {
            // By now the socket there may be that of the next owner.
            Served::Closed => return,
            _ => socket::take_away(&self.directory),
        }
        if let Served::By(server) = served {
            server.stop();
        }
        self.send_away();
    }

    /// Hangs up at those who still stand in the line: nobody would come to the door any more, for as long as this process
    /// keeps its handle.
    fn send_away(&self) {
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        while self.listener.accept().is_ok() {}
    }

    /// How many processes use the store beside the one of this session.
    pub(super) fn others(&self, own: u64) -> usize {
        self.sessions.others(own)
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Starts the threads that serve, when somebody knocks at a store that is open; whether there was nothing to be done.
    fn open_up(&self) -> bool {
        let Some(local) = self.local.get().and_then(Weak::upgrade) else {
            return false;
        };
        let mut served = self.served();
        if let Served::Nobody = &*served
            && let Ok(server) = Server::start(Arc::clone(&self.listener), local)
        {
            *served = Served::By(server);
            return true;
        }
        false
    }
}

impl Company for Porter {
    fn lives(&self, session: u64) -> bool {
        self.sessions.lives(session)
    }

    fn wait(&self, pause: Duration) {
        let awaits_first = matches!(&*self.served(), Served::Nobody);
        let listener = awaits_first.then_some((&*self.listener, CALL));
        if self.bell.wait(listener, pause) == Heard::Socket && !self.open_up() {
            // He stays in the line at the door.
            let none: Option<(&UnixStream, _)> = None;
            self.bell.wait(none, RETRY);
        }
    }

    fn ring(&self) {
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_stands_in_the_line_when_the_door_is_closed_is_sent_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let porter = Porter::at(dir.path()).expect("opens");
        let call = || socket::call(dir.path(), Duration::from_secs(1)).expect("calls");
        let (mut first, mut second) = (call(), call());
        porter.close();
        for caller in [&mut first, &mut second] {
            let patience = Some(Duration::from_secs(20));
            caller.set_read_timeout(patience).expect("a time-out");
            assert!(
                !matches!(caller.read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
            );
        }
        assert!(socket::call(dir.path(), Duration::from_secs(1)).is_err());
    }
}
