//! Leased lock: one holder at a time, for as long as he shows signs of life.
//!
//! Stops: two at the same time. Does not stop: one after the other, so that a repeated request runs again: claim it
//! instead. It is mutual exclusion, of those that are alive: who is stopped for longer than the lease may find, when he
//! goes on, that another holds the lock. Choose it around a scarce resource, and hand its fence to whatever can refuse a
//! lower one.
//!
//! ```
//! use semel::{Lock, Store};
//!
//! let store = Store::open("memory:")?;
//! let Lock::Held(guard) = store.lock("pay:1").acquire()? else { panic!() };
//! assert!(matches!(store.lock("pay:1").acquire()?, Lock::Busy(_)));
//! guard.release()?;
//! assert!(matches!(store.lock("pay:1").acquire()?, Lock::Held(_)));
//! # Ok::<(), semel::Error>(())
//! ```

use std::time::Duration;

use crate::answer::{Busy, Claim};
use crate::backend::{Durability, wait};
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::key::{Key, Namespace};
use crate::record::Policy;
use crate::request::{Lease, Renew, Request};
use crate::store::Store;
use crate::ticket::Ticket;

/// How long the record of a lock that was left behind is kept beyond its lease.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// What acquiring a lock came to.
#[derive(Debug)]
pub enum Lock {
    /// It is held until the guard is released or dropped, or its lease ends without a renewal.
    Held(LockGuard),
    /// Somebody else holds it: who, and how long his lease has left.
    Busy(Busy),
}

/// A lock that is to be acquired.
#[derive(Clone, Debug)]
pub struct LockRequest<'a> {
    store: &'a Store,
    /// Locks of the engine itself are in spaces of their own, so that no name of a caller is one of them.
    space: &'static str,
    request: Request<'a>,
}

/// A lock that is held. Dropping it releases it.
#[derive(Debug)]
pub struct LockGuard {
    ticket: Ticket,
}

impl Store {
    /// The lock `name`: with a lease of 30 s that is renewed at a third, and without waiting, unless it is told otherwise.
    pub fn lock<'a>(&'a self, name: &'a str) -> LockRequest<'a> {
        self.lock_of("lock", name)
    }

    pub(crate) fn lock_of<'a>(&'a self, space: &'static str, name: &'a str) -> LockRequest<'a> {
        let request = Request::new("lock", name)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed)
            .retain(LEFT_BEHIND);
        LockRequest {
            store: self,
            space,
            request,
        }
    }
}

impl<'a> LockRequest<'a> {
    /// How long the holder may give no sign of life.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.request = self.request.lease(Lease::For(lease));
        self
    }

    /// Whether the lease is renewed by itself at a third of it: on by default.
    pub fn renew(mut self, renew: Renew) -> Self {
        self.request = self.request.renew(renew);
        self
    }

    /// How long it is renewed at most, against leaked guards: 24 h by default.
    pub fn renew_limit(mut self, limit: Duration) -> Self {
        self.request = self.request.renew_limit(limit);
        self
    }

    /// How long to wait for the lock: first come, first served.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.request = self.request.wait(wait);
        self
    }

    /// Who asks, in the caller's words; shown to those who find it busy.
    pub fn holder(mut self, holder: &'a str) -> Self {
        self.request = self.request.holder(holder);
        self
    }

    /// Called as soon as the lock is known to be lost.
    pub fn on_lost(mut self, on_lost: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.request = self.request.on_lost(on_lost);
        self
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// `InvalidInput` for a name or lease that cannot be used; store errors, which never mean that it is held.
    pub fn acquire(&self) -> Result<Lock> {
        wait(self.take(Caller::Thread))
    }

    /// [`acquire`](LockRequest::acquire) for callers that await. Dropping the future leaves the line, or lets go of the lock.
    pub async fn acquire_async(&self) -> Result<Lock> {
        self.take(Caller::Unknown).await
    }

    pub(crate) async fn take(&self, caller: Caller) -> Result<Lock> {
        let key = Key::row(
            Namespace::Lock,
            ("lock", self.space),
            ("lock name", &self.request.id),
        )?;
        match self.store.0.claim_at(key, &self.request, caller).await? {
            Claim::Execute(ticket) => Ok(Lock::Held(LockGuard { ticket })),
            Claim::Busy(busy) => Ok(Lock::Busy(busy)),
            other => Err(Error::corrupt(format!(
                "a lock was answered {}; report this",
                other.name()
            ))),
        }
    }
}

impl LockGuard {
    /// A number that is higher for every holder of the lock.
    pub fn fence(&self) -> u64 {
        self.ticket.fence()
    }

    /// Whether the lock is known to be lost.
    pub fn lost(&self) -> bool {
        self.ticket.lost()
    }

    /// Starts the lease anew, as is done by itself at a third of it.
    ///
    /// # Errors
    /// `Lost` when somebody else holds the lock now.
    pub fn renew(&self) -> Result<()> {
        self.ticket.renew()
    }

    /// Lets go of the lock.
    ///
    /// # Errors
    /// `Lost` when the lock was lost before: what was done under it may have met another holder.
    pub fn release(self) -> Result<()> {
        self.ticket.unlock()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.ticket.unlock_at_once();
    }
}
