//! Leased lock: one holder at a time, for as long as he shows signs of life.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use semel::binding;
use semel::scheme::lock::LockRequest;
use semel::{Busy, Lock as Answer, LockGuard, Renew};

use crate::answers;
use crate::errors::{OrRaise, build, invalid};
use crate::options;
use crate::run::interruptible;
use crate::shared::Shared;
use crate::times;

/// A leased lock, held within a `with`.
///
/// >>> import semel
/// >>> store = semel.open("memory:")
/// >>> with store.lock("pay:1", lease=30) as lock:
/// ...     lock.fence > 0, lock.lost
/// (True, False)
#[pyclass(frozen, module = "semel", name = "Lock")]
pub(crate) struct Lock {
    shared: Arc<Shared>,
    name: String,
    terms: Terms,
    guard: Mutex<Option<LockGuard>>,
}

/// How a lock is acquired.
pub(crate) struct Terms {
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Duration,
    pub(crate) renew: Renew,
    pub(crate) renew_limit: Option<Duration>,
    pub(crate) holder: Option<String>,
    pub(crate) on_lost: Option<Py<PyAny>>,
}

impl Terms {
    pub(crate) fn of(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut terms = Self {
            lease: None,
            wait: Duration::ZERO,
            renew: Renew::On,
            renew_limit: None,
            holder: None,
            on_lost: None,
        };
        for (name, value) in options.iter().flat_map(|options| options.iter()) {
            let name: String = name.extract()?;
            match name.as_str() {
                "lease" => terms.lease = Some(times::span("lease", &value)?),
                "wait" => terms.wait = times::span("wait", &value)?,
                "renew" => terms.renew = options::renew(&value)?,
                "renew_limit" => terms.renew_limit = Some(times::span("renew_limit", &value)?),
                "holder" => terms.holder = Some(value.extract()?),
                "on_lost" => terms.on_lost = Some(value.unbind()),
                other => {
                    let known = "lease, wait, renew, renew_limit, holder, on_lost";
                    return Err(invalid(
                        value.py(),
                        format!("a lock has no option {other:?}; the options are {known}"),
                    ));
                }
            }
        }
        Ok(terms)
    }

    /// The same terms.
    pub(crate) fn again(&self, py: Python<'_>) -> Self {
        Self {
            lease: self.lease,
            wait: self.wait,
            renew: self.renew,
            renew_limit: self.renew_limit,
            holder: self.holder.clone(),
            on_lost: self.on_lost.as_ref().map(|on_lost| on_lost.clone_ref(py)),
        }
    }

    /// The lock of this name, to be acquired on these terms.
    pub(crate) fn request<'a>(
        &'a self,
        py: Python<'_>,
        shared: &'a Shared,
        name: &'a str,
    ) -> LockRequest<'a> {
        let mut request = shared.store.lock(name).wait(self.wait).renew(self.renew);
        if let Some(lease) = self.lease {
            request = request.lease(lease);
        }
        if let Some(limit) = self.renew_limit {
            request = request.renew_limit(limit);
        }
        if let Some(holder) = &self.holder {
            request = request.holder(holder);
        }
        if let Some(on_lost) = &self.on_lost {
            request = request.on_lost(options::teller(py, on_lost));
        }
        request
    }
}

impl Lock {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Ok(Self {
            shared: Arc::clone(shared),
            name: name.to_owned(),
            terms: Terms::of(options)?,
            guard: Mutex::new(None),
        })
    }

    /// What has to be known to acquire it elsewhere.
    pub(crate) fn parts(&self) -> (&Arc<Shared>, &str, &Terms) {
        (&self.shared, &self.name, &self.terms)
    }

    pub(crate) fn hold(&self, guard: LockGuard) {
        *self.held() = Some(guard);
    }

    /// Whoever holds it with this very object would wait for himself.
    pub(crate) fn check_free(&self, py: Python<'_>) -> PyResult<()> {
        if self.held().is_some() {
            return Err(invalid(
                py,
                format!(
                    "the lock {:?} is held by this very object; release it first",
                    self.name
                ),
            ));
        }
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<LockGuard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_guard<R>(&self, py: Python<'_>, call: impl FnOnce(&LockGuard) -> R) -> PyResult<R> {
        self.held().as_ref().map(call).ok_or_else(|| {
            invalid(
                py,
                format!("the lock {:?} is not held; acquire it first", self.name),
            )
        })
    }
}

/// The exception of a lock that somebody else holds.
pub(crate) fn busy(py: Python<'_>, name: &str, busy: &Busy) -> PyErr {
    let facts = PyDict::new(py);
    let set = || -> PyResult<()> {
        facts.set_item("key", (py.None(), "lock", name))?;
        facts.set_item("attempt", busy.attempt)?;
        answers::held(&facts, busy)
    };
    match set() {
        Ok(()) => build(
            py,
            "Busy",
            &format!("the lock {name:?}: {busy}"),
            Some(&facts),
        ),
        Err(error) => error,
    }
}

#[pymethods]
impl Lock {
    /// Acquires the lock, waiting for it as long as `wait` says: first come, first served.
    ///
    /// Raises Busy when somebody else holds it, InvalidInput, and StoreError, which never means that it is held.
    fn acquire(&self, py: Python<'_>) -> PyResult<()> {
        self.check_free(py)?;
        let request = self.terms.request(py, &self.shared, &self.name);
        let told = match self.terms.wait.is_zero() {
            true => py.detach(|| request.acquire()).or_raise(py)?,
            false => interruptible(py, |stop| binding::acquire_unless(&request, stop))?,
        };
        match told {
            Answer::Held(guard) => {
                self.hold(guard);
                Ok(())
            }
            Answer::Busy(told) => Err(busy(py, &self.name, &told)),
        }
    }

    /// Lets go of the lock. Raises Lost when it was lost before: what was done under it may have met another holder.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let guard = self.held().take();
        match guard {
            Some(guard) => py.detach(|| guard.release()).or_raise(py),
            None => Err(invalid(
                py,
                format!("the lock {:?} is not held; acquire it first", self.name),
            )),
        }
    }

    /// Starts the lease anew, as is done by itself at a third of it. Raises Lost when somebody else holds the lock now.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.held().as_ref().map(LockGuard::renew))
            .ok_or_else(|| {
                invalid(
                    py,
                    format!("the lock {:?} is not held; acquire it first", self.name),
                )
            })?
            .or_raise(py)
    }

    /// A number that is higher for every holder of the lock. Raises InvalidInput when it is not held.
    #[getter]
    fn fence(&self, py: Python<'_>) -> PyResult<u64> {
        self.with_guard(py, LockGuard::fence)
    }

    /// Whether the lock is known to be lost.
    #[getter]
    fn lost(&self) -> bool {
        self.held().as_ref().is_some_and(LockGuard::lost)
    }

    /// Whether this object holds the lock.
    #[getter]
    fn is_held(&self) -> bool {
        self.held().is_some()
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().acquire(slf.py())?;
        Ok(slf)
    }

    /// Lets go. An exception of the body comes before the news that the lock was lost.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !self.is_held() {
            return Ok(());
        }
        match self.release(py) {
            Err(error) if kind.is_none() => Err(error),
            _ => Ok(()),
        }
    }

    fn __repr__(&self) -> String {
        let held = if self.is_held() { "held" } else { "not held" };
        format!("<semel.Lock {:?}, {held}>", self.name)
    }
}
