//! A question on its way to the owner: asked on this thread when it blocks anyway, and by a helper for those who await.

use std::future::Future;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::client::{Client, PAUSE, Told};
use crate::backend::{is_nobody, is_parked};
use crate::error::{Error, Result};
use crate::time::{after, micros};

/// What a helper and the caller share.
#[derive(Default)]
pub(super) struct Slot(Mutex<Place>);

#[derive(Default)]
struct Place {
    told: Option<Result<Told>>,
    waker: Option<Waker>,
    /// What is being asked at, to be hung up when nobody wants the answer any more.
    stream: Option<Arc<UnixStream>>,
    given_up: bool,
    /// Questions that may only be asked after this one.
    then: Vec<Vec<u8>>,
    over: bool,
}

impl Slot {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Says where it is being asked; whether somebody still wants to know.
    pub(super) fn asked_at(&self, stream: Option<&Arc<UnixStream>>) -> bool {
        let mut place = self.place();
        place.stream = stream.map(Arc::clone);
        !place.given_up
    }

    /// Nobody wants the answer any more.
    pub(super) fn give_up(&self) {
        let mut place = self.place();
        place.given_up = true;
        if let Some(stream) = &place.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Asks something else once this was answered; whether that is still to come.
    pub(super) fn then(&self, frame: Vec<u8>) -> std::result::Result<(), Vec<u8>> {
        let mut place = self.place();
        match place.over {
            true => Err(frame),
            false => {
                place.then.push(frame);
                Ok(())
            }
        }
    }

    fn tell(&self, told: Result<Told>) {
        let waker = {
            let mut place = self.place();
            place.told = Some(told);
            place.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What is to be asked next; when there is nothing, nothing can be added any more.
    fn next(&self) -> Option<Vec<u8>> {
        let mut place = self.place();
        let next = (!place.then.is_empty()).then(|| place.then.remove(0));
        place.over = next.is_none();
        next
    }
}

/// An event that nobody waits for, until it has arrived or never will.
struct Lately {
    client: Arc<Client>,
    number: u64,
}

impl Lately {
    fn begin(client: &Arc<Client>) -> Self {
        Self {
            number: client.late().begin(),
            client: Arc::clone(client),
        }
    }
}

impl Drop for Lately {
    fn drop(&mut self) {
        self.client.late().end(self.number);
    }
}

/// A question, and then its answer.
pub(super) struct Asking {
    client: Arc<Client>,
    frame: Vec<u8>,
    /// The nonce of a claim, which may be withdrawn before it is answered; 0 is no claim.
    claim: u64,
    /// Whether it may take long, and is of no use once nobody awaits it.
    waits: bool,
    slot: Option<Arc<Slot>>,
}

impl Asking {
    pub(super) fn new(client: &Arc<Client>, frame: Vec<u8>) -> Self {
        Self {
            client: Arc::clone(client),
            frame,
            claim: 0,
            waits: false,
            slot: None,
        }
    }

    pub(super) fn claiming(mut self, claim: u64) -> Self {
        self.claim = claim;
        self
    }

    pub(super) fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Gives the question to a helper.
    fn hand_over(&mut self, context: &Context<'_>) -> Poll<Result<Told>> {
        let slot = Arc::new(Slot::default());
        slot.place().waker = Some(context.waker().clone());
        self.slot = Some(Arc::clone(&slot));
        let (client, mut frame) = (Arc::clone(&self.client), std::mem::take(&mut self.frame));
        let (claim, waits) = (self.claim, self.waits);
        if claim != 0 {
            client.note_claim(claim, Some(&slot));
        }
        let (asker, asked) = (Arc::clone(&client), Arc::clone(&slot));
        // Nobody waits for it; but what this process asks after it comes after it.
        let nobody_waits = !self.waits && is_nobody(context);
        let late = nobody_waits.then(|| Lately::begin(&client));
        let job = move || {
            if late.is_none() {
                asker.late().wait(asker.terms.silence);
            }
            asked.tell(match waits {
                false => asker.ask(&mut frame, Some(&asked)),
                true => asker.ask_and_wait(&mut frame, &asked),
            });
            while let Some(mut next) = asked.next() {
                let _ = asker.ask(&mut next, None);
            }
            if claim != 0 {
                asker.note_claim(claim, None);
            }
            drop(late);
        };
        if nobody_waits {
            client.late().helpers().start(job);
            return Poll::Pending;
        }
        if self.waits {
            if !client.waiters().start_at_once(job) {
                // As many wait as may: this one looks again in a while.
                let due_us = after(client.clock().now_us(), micros(PAUSE));
                client
                    .timers()
                    .at(due_us, move || slot.tell(Ok(Told::NoTurn)));
            }
            return Poll::Pending;
        }
        match client.helpers().start(job) {
            true => Poll::Pending,
            false => {
                client.note_claim(claim, None);
                Poll::Ready(Err(Error::unavailable(
                    "too many calls wait for the process that holds the store; do less at a time",
                )))
            }
        }
    }
}

impl Future for Asking {
    type Output = Result<Told>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(slot) = &self.slot {
            let mut place = slot.place();
            return match place.told.take() {
                Some(told) => Poll::Ready(told),
                None => {
                    place.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            };
        }
        if !is_parked(context) {
            return self.hand_over(context);
        }
        let mut frame = std::mem::take(&mut self.frame);
        self.client.late().wait(self.client.terms.silence);
        match self.waits {
            false => Poll::Ready(self.client.ask(&mut frame, None)),
            true => Poll::Ready(self.client.ask_and_wait(&mut frame, &Arc::default())),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.waits
            && let Some(slot) = &self.slot
        {
            slot.give_up();
        }
    }
}
