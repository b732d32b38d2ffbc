//! What a forked child has in the place of what it inherited.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::Origin;

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
