//! How far the log is on disk, who waits for it to get further, and the fault that ended it, if one did.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The end of what is on disk.
#[derive(Default)]
pub(super) struct Durable {
    pos: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<Error>>,
    waiting: Mutex<Vec<(u64, Waker)>>,
    end: Mutex<End>,
}

/// Whether the committer has ended, or has been given up, and who waits for that.
#[derive(Default)]
struct End {
    came: bool,
    given_up: bool,
    waiting: Vec<Waker>,
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
        Wait {
            durable: self,
            pos,
            known: None,
        }
    }

    /// The committer has written all that it will ever write.
    pub(super) fn end(&self) {
        let waiting = {
            let mut end = self.end.lock();
            end.came = true;
            std::mem::take(&mut end.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The committer may never come back from the disk: nobody waits for it any more.
    pub(super) fn give_up(&self) {
        self.end.lock().given_up = true;
        self.end();
    }

    /// Until the committer has ended, or is given up; whether it has ended.
    pub(super) async fn ended(&self) -> bool {
        poll_fn(|context| {
            let mut end = self.end.lock();
            if end.came {
                return Poll::Ready(!end.given_up);
            }
            end.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// Waits for a position.
pub(super) struct Wait<'a> {
    durable: &'a Durable,
    pos: u64,
    /// The waker that is in the list; it stays there until it is called.
    known: Option<Waker>,
}

impl Future for Wait<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Wait { durable, pos, .. } = *self;
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
        let is_known = |known: &Waker| known.will_wake(context.waker());
        if !self.known.as_ref().is_some_and(is_known) {
            waiting.push((pos, context.waker().clone()));
            drop(waiting);
            self.known = Some(context.waker().clone());
        }
        Poll::Pending
    }
}
