//! `semel hold`: owns a store for other processes, and does nothing else.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::cli::argument::StoreArg;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::place;
use crate::duration;
use crate::{ErrorKind, Stopwatch};

/// How often it looks whether anybody uses the store.
const LOOK: Duration = Duration::from_secs(1);

/// Holds a store for other processes, until it is told to end (SIGTERM, SIGINT, SIGHUP).
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Hold {
    #[command(flatten)]
    store: StoreArg,
    /// End by itself when no other process has used the store for so long
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    idle: Option<Duration>,
}

impl Hold {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        shut_inherited();
        let told = signals().map_err(|e| Stop::unavailable(format!("no signals: {e}")))?;
        let store = place::existing(&self.store.store)?;
        if !store.is_owner() {
            // Somebody else came first, who will do as well.
            return match self.idle {
                Some(_) => Ok(exit::DONE),
                None => Err(Stop::from(crate::Error::new(
                    ErrorKind::StoreLocked,
                    "another process holds the store; end it first, or let it",
                ))),
            };
        }
        let mut alone: Option<Stopwatch> = None;
        while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(LOOK) {
            match store.other_processes() {
                0 => {
                    let since = alone.get_or_insert_with(Stopwatch::start);
                    if self.idle.is_some_and(|idle| since.elapsed() >= idle) {
                        break;
                    }
                }
                _ => alone = None,
            }
        }
        store.close()?;
        Ok(exit::DONE)
    }
}

/// Lets go of the files of whoever started this process, which lives on without it.
fn shut_inherited() {
    // SAFETY: nothing of this process has more open than the three standard streams yet.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

/// Takes the signals that end a process, from all its threads; says when one came.
fn signals() -> io::Result<Receiver<()>> {
    let (tell, told) = channel();
    // SAFETY: the set is made by sigemptyset before it is used; blocking signals has no other conditions. Threads that are
    // started later inherit it.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        set
    };
    std::thread::Builder::new()
        .name("semel-signals".to_owned())
        .spawn(move || {
            let mut signal = 0;
            // SAFETY: the set is one that was made, and `signal` is a valid place.
            unsafe { libc::sigwait(&raw const set, &raw mut signal) };
            let _ = tell.send(());
        })?;
    Ok(told)
}
