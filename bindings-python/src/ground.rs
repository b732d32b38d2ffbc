//! Where a scheme works: in a transaction of its own, or within one that is under way.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use semel::{DEFAULT_ROW_TIMEOUT, Tx};

use crate::errors::OrRaise;
use crate::lent::Lent;
use crate::shared::Shared;

/// Where a scheme works.
#[derive(Clone)]
pub(crate) enum Ground {
    /// Each call is a transaction of its own.
    Store(Arc<Shared>),
    /// All calls belong to this transaction.
    Within(Arc<Lent>),
}

impl Ground {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self::Store(Arc::clone(shared))
    }

    /// A call of the scheme.
    pub(crate) fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnMut(&mut Tx<'_>) -> semel::Result<R> + Send,
    ) -> PyResult<R> {
        self.patient(py, DEFAULT_ROW_TIMEOUT, call)
    }

    /// [`call`](Ground::call) that waits so long for rows that somebody has locked.
    pub(crate) fn patient<R: Send>(
        &self,
        py: Python<'_>,
        timeout: Duration,
        call: impl FnMut(&mut Tx<'_>) -> semel::Result<R> + Send,
    ) -> PyResult<R> {
        match self {
            Self::Store(shared) => py
                .detach(|| shared.store.transact().timeout(timeout).run(call))
                .or_raise(py),
            Self::Within(lent) => lent.with(py, call),
        }
    }
}
