//! Standard output and error as plain descriptors: written whole, whatever mode they were left in, and never with a panic.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};

/// A descriptor of the process, unbuffered.
///
/// Another process may have made the shared descriptor non-blocking; a write then waits, as it would on a blocking one.
pub(crate) struct Output(File);

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> io::Result<Self> {
        Self::of(io::stdout().as_fd())
    }

    /// Standard error.
    pub(crate) fn stderr() -> io::Result<Self> {
        Self::of(io::stderr().as_fd())
    }

    fn of(descriptor: std::os::fd::BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(File::from(descriptor.try_clone_to_owned()?)))
    }

    /// Makes what was written survive a power cut, where that means something: on a regular file.
    pub(crate) fn settle(&self) -> io::Result<()> {
        if self.0.metadata()?.is_file() {
            self.0.sync_data()
        } else {
            Ok(())
        }
    }

    fn wait_until_writable(&self) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: `poll` is one valid entry, and its descriptor is open while `self` lives.
        match unsafe { libc::poll(&mut poll, 1, -1) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_until_writable()?
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Says one line on standard error. A closed standard error hears nothing, and that ends nothing.
pub(crate) fn say(line: impl fmt::Display) {
    let text = format!("{line}\n");
    if let Ok(mut stderr) = Output::stderr() {
        let _ = stderr.write_all(text.as_bytes());
    }
}

/// Prints one line on standard output.
pub(crate) fn print(line: impl fmt::Display) -> io::Result<()> {
    Output::stdout()?.write_all(format!("{line}\n").as_bytes())
}
