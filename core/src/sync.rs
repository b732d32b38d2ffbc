//! Locks, threads and what a thread keeps for itself, by names of our own: so that a test can put a scheduler of its own below
//! the concurrency core and play its interleavings (`core/tests/interleavings.rs`, built with `--cfg semel_shuttle`).
//!
//! Without that `cfg` they are those of parking_lot and the standard library, under other names.
//!
//! What a forked child makes anew for itself has plain locks (`plain`): parking_lot keeps all who wait in one table of the
//! process, and in a child that table is as some thread of the parent had it in hands at the fork.

#[cfg(not(semel_shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(semel_shuttle))]
pub(crate) use std::{sync::atomic, thread, thread_local};

#[cfg(semel_shuttle)]
pub(crate) use self::plain::{Mutex, MutexGuard};
#[cfg(semel_shuttle)]
pub(crate) use shuttle::{sync::atomic, thread, thread_local};

/// Locks of the standard library, or shuttle's, with the methods of parking_lot's that are used here: no poison, and a
/// condition takes its guard by reference. A wait with a limit has none under shuttle: who is not woken shows as a deadlock.
pub(crate) mod plain {
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::Duration;

    #[cfg(semel_shuttle)]
    use shuttle::sync;
    #[cfg(not(semel_shuttle))]
    use std::sync;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T> {
        lock: &'a Mutex<T>,
        /// `None` while the lock is given back for a moment.
        held: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            MutexGuard {
                lock: self,
                held: Some(held),
            }
        }

        #[cfg(semel_shuttle)]
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let held = match self.0.try_lock() {
                Ok(held) => held,
                Err(sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(sync::TryLockError::WouldBlock) => return None,
            };
            Some(MutexGuard {
                lock: self,
                held: Some(held),
            })
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> MutexGuard<'_, T> {
        pub(crate) fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
            guard.held = None;
            let done = work();
            guard.held = guard.lock.lock().held.take();
            done
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            match &self.held {
                Some(held) => held,
                None => unreachable!("nobody looks at what he has given back"),
            }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            match &mut self.held {
                Some(held) => held,
                None => unreachable!("nobody looks at what he has given back"),
            }
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            if let Some(held) = guard.held.take() {
                let held = self.0.wait(held);
                guard.held = Some(held.unwrap_or_else(PoisonError::into_inner));
            }
        }

        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) {
            #[cfg(semel_shuttle)]
            let _ = limit;
            #[cfg(semel_shuttle)]
            self.wait(guard);
            #[cfg(not(semel_shuttle))]
            if let Some(held) = guard.held.take() {
                let waited = self.0.wait_timeout(held, limit);
                guard.held = Some(waited.unwrap_or_else(PoisonError::into_inner).0);
            }
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
