//! An answer that is there or will be: one engine serves callers that block and callers that await.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sync::thread::{self, Thread};
use crate::sync::thread_local;

/// A result that is ready, or a future of it. `.await` it, or `.wait()` for it on this thread.
pub(crate) enum Op<'a, T> {
    Ready(Option<T>),
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> Op<'a, T> {
    pub(crate) fn ready(value: T) -> Self {
        Self::Ready(Some(value))
    }

    pub(crate) fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }
}

impl<T: Unpin> Op<'_, T> {
    /// Waits for the result on this thread.
    pub(crate) fn wait(self) -> T {
        wait(self)
    }

    /// The result, if it is there without waiting.
    pub(crate) fn now(self) -> Option<T> {
        match self {
            Self::Ready(value) => value,
            Self::Later(mut future) => match future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(value) => Some(value),
                Poll::Pending => None,
            },
        }
    }
}

impl<T: Unpin> Future for Op<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut *self {
            Self::Ready(value) => match value.take() {
                Some(value) => Poll::Ready(value),
                None => Poll::Pending,
            },
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// Runs a future on this thread, which sleeps between its steps.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            thread::park();
        }
    })
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Parked(thread::current())));
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
