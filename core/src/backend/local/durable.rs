//! How far the log is on disk, who waits for it to get further, and the fault that ended it, if one did.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// The end of what is on disk.
#[derive(Default)]
pub(super) struct Durable {
    pos: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<Error>>,
    waiting: Mutex<Vec<(u64, Waker)>>,
    /// Whether the only writer has ended.
    ended: Mutex<bool>,
    turned: Condvar,
}

impl Durable {
    pub(super) fn at(pos: u64) -> Self {
        Self {
            pos: AtomicU64::new(pos),
            ..Self::default()
        }
    }

    pub(super) fn pos(&self) -> u64 {
        self.pos.load(Ordering::Acquire)
    }

    pub(super) fn reached(&self, pos: u64) -> bool {
        self.pos() >= pos
    }

    /// Everything up to `pos` is on disk now.
    pub(super) fn advance(&self, pos: u64) {
        self.pos.store(pos, Ordering::Release);
        let mut ready = Vec::new();
        self.waiting.lock().retain_mut(|(wanted, waker)| {
            let reached = *wanted <= pos;
            if reached {
                ready.push(waker.clone());
            }
            !reached
        });
        ready.into_iter().for_each(Waker::wake);
    }

    /// Nothing more will get to the disk. The first fault stands.
    pub(super) fn fail(&self, fault: Error) {
        self.fault.lock().get_or_insert(fault);
        self.failed.store(true, Ordering::Release);
        let ready = std::mem::take(&mut *self.waiting.lock());
        ready.into_iter().for_each(|(_, waker)| waker.wake());
        drop(self.ended.lock());
        self.turned.notify_all();
    }

    /// Nothing is written any more: all is on disk, or it failed.
    pub(super) fn end(&self) {
        *self.ended.lock() = true;
        self.turned.notify_all();
    }

    /// Waits for the writer's end; `false` when it hangs in a disk that was given up, so long after the fault.
    pub(super) fn wait_for_end(&self, patience: Duration) -> bool {
        let mut ended = self.ended.lock();
        while !*ended {
            if !self.failed.load(Ordering::Acquire) {
                self.turned.wait(&mut ended);
            } else if self.turned.wait_for(&mut ended, patience).timed_out() {
                break;
            }
        }
        *ended
    }

    /// The fault that ended all writing.
    pub(super) fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let fault = self.fault.lock().clone();
        Err(fault
            .unwrap_or_else(|| Error::unavailable("the store's disk failed; reopen the store")))
    }

    /// Until `pos` is on disk, or can get there no more.
    pub(super) fn wait(&self, pos: u64) -> Wait<'_> {
        Wait { durable: self, pos }
    }
}

/// Waits for a position.
pub(super) struct Wait<'a> {
    durable: &'a Durable,
    pos: u64,
}

impl Future for Wait<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Wait { durable, pos } = *self;
        if durable.reached(pos) {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = durable.waiting.lock();
        // Under the lock: what is not there yet will find the waker, or the waker finds it there.
        if durable.reached(pos) {
            return Poll::Ready(Ok(()));
        }
        if let Err(fault) = durable.check() {
            return Poll::Ready(Err(fault));
        }
        if !waiting
            .iter()
            .any(|(wanted, waker)| *wanted == pos && waker.will_wake(context.waker()))
        {
            waiting.push((pos, context.waker().clone()));
        }
        Poll::Pending
    }
}
