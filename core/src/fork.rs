//! Which process a handle was made in: a handle that came through `fork()` must not touch what its parent holds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

#[cfg(unix)]
mod heir;
#[cfg(unix)]
pub(crate) use heir::Heir;

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The process a handle was made in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(u64);

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        watch();
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this process is a child of the one that made the handle.
    pub(crate) fn is_foreign(self) -> bool {
        GENERATION.load(Ordering::Relaxed) != self.0
    }

    /// An error in a forked child.
    pub(crate) fn check(self) -> Result<()> {
        match self.is_foreign() {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::ForkedProcess,
                "this store was opened before fork() and belongs to the parent process; open stores after the fork, or start a new program for the child",
            )),
        }
    }
}

/// The process in which the first store was opened.
static HOME: OnceLock<Origin> = OnceLock::new();

/// Refuses to open a store in a child of a process that had opened one. Threads do not come along in a fork: sled's
/// writers, which all stores share, are missing there, and in parking_lot's queues threads stand that will never go.
pub(crate) fn check_home() -> Result<()> {
    match HOME.get().is_some_and(|home| home.is_foreign()) {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::ForkedProcess,
            "no store can be opened here: this process was forked from one that had opened a store, whose threads stayed there. Fork before the first store is opened, or start a new program after the fork",
        )),
    }
}

/// From here on this process has what no child of it can use: a store is opened in it. One that found the store held by
/// another process, and attached, has not.
pub(crate) fn settle() {
    HOME.get_or_init(Origin::here);
}

/// Whether this process is a child of the one whose stores it has inherited.
#[cfg(any(unix, feature = "sled"))]
pub(crate) fn is_away() -> bool {
    HOME.get().is_some_and(|home| home.is_foreign())
}

/// Distinguishes this process from those it was forked from and those forked beside it.
pub(crate) fn process_salt() -> u64 {
    watch();
    SALT.load(Ordering::Relaxed)
}

/// Set in a forked child, where everything else is as in its parent.
static SALT: AtomicU64 = AtomicU64::new(0);

#[cfg(unix)]
use unix::watch;
#[cfg(unix)]
pub(crate) use unix::{ShutInChildren, shut_in_children};

#[cfg(not(unix))]
fn watch() {}

#[cfg(unix)]
mod unix {
    use std::os::fd::RawFd;
    use std::sync::Once;
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::{GENERATION, SALT};

    /// The most descriptors that a child shuts; beyond it a child that outlives its parent keeps a store locked, or a
    /// connection open.
    const MAX_LOCKS: usize = 4096;
    const FREE: RawFd = -1;

    static LOCKS: [AtomicI32; MAX_LOCKS] = [const { AtomicI32::new(FREE) }; MAX_LOCKS];
    static NOTHING: AtomicI32 = AtomicI32::new(FREE);
    static WATCHED: Once = Once::new();

    pub(super) fn watch() {
        WATCHED.call_once(|| {
            // SAFETY: the path is a NUL-terminated literal; the handler calls only async-signal-safe functions.
            unsafe {
                NOTHING.store(
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC),
                    Ordering::SeqCst,
                );
                libc::pthread_atfork(None, None, Some(in_child));
            }
        });
    }

    /// Runs in the child before fork() returns there. A lock is shared with the parent through the descriptor: putting
    /// another file in its place leaves the lock to the parent alone, and keeps the number from being used twice.
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::SeqCst);
        // SAFETY: getpid is async-signal-safe.
        SALT.store((unsafe { libc::getpid() } as u64) << 32, Ordering::SeqCst);
        let nothing = NOTHING.load(Ordering::SeqCst);
        for lock in &LOCKS {
            let descriptor = lock.swap(FREE, Ordering::SeqCst);
            if descriptor != FREE && nothing != FREE {
                // SAFETY: dup2 is async-signal-safe and both numbers are open descriptors of this process.
                unsafe { libc::dup2(nothing, descriptor) };
            }
        }
    }

    /// A descriptor that children of this process must not keep; until this is dropped.
    #[derive(Debug)]
    pub(crate) struct ShutInChildren(RawFd);

    /// Registers a descriptor that holds a lock.
    pub(crate) fn shut_in_children(descriptor: RawFd) -> ShutInChildren {
        watch();
        for lock in &LOCKS {
            if lock
                .compare_exchange(FREE, descriptor, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
            {
                break;
            }
        }
        ShutInChildren(descriptor)
    }

    impl Drop for ShutInChildren {
        fn drop(&mut self) {
            for lock in &LOCKS {
                if lock
                    .compare_exchange(self.0, FREE, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
                {
                    break;
                }
            }
        }
    }
}
