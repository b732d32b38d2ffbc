//! Which process a handle was made in: a handle that came through `fork()` must not touch what its parent holds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

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

/// What a handle has in a process that was forked from the one that made it. Every process makes its own, and what its
/// parent made it leaves alone, even in memory: locks in it may be held by threads that do not exist here.
pub(crate) struct Heir<T>(AtomicPtr<Made<T>>);

struct Made<T> {
    origin: Origin,
    value: T,
}

impl<T> Heir<T> {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// What this process has; made at the first call.
    pub(crate) fn or_make(&self, make: impl FnOnce() -> T) -> &T {
        let found = self.0.load(Ordering::Acquire);
        if let Some(value) = Self::here(found) {
            return value;
        }
        let made = Box::into_raw(Box::new(Made {
            origin: Origin::here(),
            value: make(),
        }));
        let held = match self
            .0
            .compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => made,
            Err(earlier) => {
                // SAFETY: nobody else has seen this pointer, which came from a box.
                drop(unsafe { Box::from_raw(made) });
                earlier
            }
        };
        // SAFETY: what is in place was made by this process, and stays until this is dropped.
        unsafe { &(*held).value }
    }

    fn here<'a>(found: *mut Made<T>) -> Option<&'a T> {
        // SAFETY: what is in place came from a box, and is freed only when this is dropped, by the process that made it.
        let made = unsafe { found.as_ref() }?;
        (!made.origin.is_foreign()).then_some(&made.value)
    }
}

impl<T> Drop for Heir<T> {
    fn drop(&mut self) {
        let found = *self.0.get_mut();
        if Self::here(found).is_some() {
            // SAFETY: it came from a box of this process, and nobody can reach it any more.
            drop(unsafe { Box::from_raw(found) });
        }
    }
}

// SAFETY: it is a box that is shared, and given to whoever drops it.
unsafe impl<T: Send + Sync> Sync for Heir<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Heir<T> {}

/// The process in which the first store was opened.
static HOME: OnceLock<Origin> = OnceLock::new();

/// Refuses to open a store in a child of a process that had opened one. Threads do not come along in a fork: sled's
/// writers, which all stores share, are missing there, and in parking_lot's queues threads stand that will never go.
pub(crate) fn check_home() -> Result<()> {
    match HOME.get_or_init(Origin::here).is_foreign() {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::ForkedProcess,
            "no store can be opened here: this process was forked from one that had opened a store, whose threads stayed there. Fork before the first store is opened, or start a new program after the fork",
        )),
    }
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
