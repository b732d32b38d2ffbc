//! What a thread hears that waits at a socket: another thread that has something for it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A bell. It is heard once for any number of rings.
pub(super) struct Bell {
    ear: UnixStream,
    mouth: UnixStream,
}

/// What was heard at a bell and a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    Bell,
    /// Something at the socket; perhaps the bell too.
    Socket,
}

impl Bell {
    pub(super) fn new() -> std::io::Result<Self> {
        let (ear, mouth) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        mouth.set_nonblocking(true)?;
        Ok(Self { ear, mouth })
    }

    pub(super) fn ring(&self) {
        // When it is full of rings that nobody has heard yet, one more says nothing new.
        let _ = (&self.mouth).write(&[1]);
    }

    /// Waits for a ring, or for something at a socket, no longer than `patience`.
    pub(super) fn wait(
        &self,
        socket: Option<(&impl std::os::fd::AsFd, PollFlags)>,
        patience: Duration,
    ) -> Heard {
        let patience = Timespec::try_from(patience).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let ear = PollFd::new(&self.ear, PollFlags::IN);
        let (heard, at_socket) = match socket {
            Some((socket, events)) => {
                let mut both = [ear, PollFd::new(socket, events)];
                let heard = poll(&mut both, Some(&patience));
                (heard, !both[1].revents().is_empty())
            }
            None => (poll(&mut [ear], Some(&patience)), false),
        };
        match heard {
            Ok(0) => Heard::Nothing,
            _ => {
                let _ = (&self.ear).read(&mut [0; 64]);
                match at_socket {
                    true => Heard::Socket,
                    false => Heard::Bell,
                }
            }
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// What is to be heard at a socket whose other end goes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) const HANG_UP: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const HANG_UP: PollFlags = PollFlags::HUP;

/// What is to be heard at a socket when somebody calls.
pub(super) const CALL: PollFlags = PollFlags::IN;
