//! A transaction that is lent to Python while its closure runs. The only unsafe code of this binding.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use semel::Tx;

use crate::errors::{OrRaise, invalid};

/// A transaction, until its closure has returned.
pub(crate) struct Lent(Mutex<Option<Borrowed>>);

/// Points to the transaction of a closure that has not returned.
struct Borrowed(NonNull<Tx<'static>>);

// SAFETY: a Tx may be used on any thread (`Tx: Send`, checked below), and here by one at a time: under the mutex.
unsafe impl Send for Borrowed {}

const fn is_send<T: Send>() {}
const _: () = is_send::<Tx<'static>>();

impl Lent {
    /// Lends a transaction for as long as `work` runs.
    pub(crate) fn during<R>(tx: &mut Tx<'_>, work: impl FnOnce(&Arc<Self>) -> R) -> R {
        let borrowed = Borrowed(NonNull::from(tx).cast());
        let lent = Arc::new(Self(Mutex::new(Some(borrowed))));
        let back = Back(&lent);
        let told = work(&lent);
        drop(back);
        told
    }

    /// A call of the transaction; the interpreter is let go meanwhile.
    ///
    /// # Errors
    /// `InvalidInput` when the transaction is over.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Tx<'_>) -> semel::Result<R> + Send,
    ) -> PyResult<R> {
        let told = py.detach(|| {
            let mut borrowed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: while there is a pointer, `during` has not returned, so that the transaction is borrowed by it alone;
            // and the mutex, held here, keeps both other calls and the end of the loan away.
            borrowed
                .as_mut()
                .map(|borrowed| call(unsafe { borrowed.0.as_mut() }))
        });
        match told {
            Some(told) => told.or_raise(py),
            None => Err(invalid(
                py,
                "the transaction is over; use tx within the function that got it",
            )),
        }
    }
}

/// Ends a loan, also when the work panics.
struct Back<'a>(&'a Lent);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // A call that another thread makes is waited for; it needs nothing of Python.
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
