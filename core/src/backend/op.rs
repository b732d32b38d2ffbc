//! An answer that is there or will be: one engine serves callers that block and callers that await.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::sync::thread::{self, Thread};
use crate::sync::thread_local;
use crate::time::Stopwatch;

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
            Self::Later(mut future) => {
                match future.as_mut().poll(&mut Context::from_waker(&NOBODY)) {
                    Poll::Ready(value) => Some(value),
                    Poll::Pending => None,
                }
            }
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
    // A thread that ends may have let go of its waker before it lets go of a store.
    match WAKER.try_with(|waker| drive(future.as_mut(), waker)) {
        Ok(value) => value,
        Err(_) => drive(future, &waker()),
    }
}

fn drive<F: Future>(mut future: Pin<&mut F>, waker: &Waker) -> F::Output {
    let mut context = Context::from_waker(waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

/// How often who may be stopped is asked whether he goes on.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Runs a future on this thread until it is ready or `stop` says so; it is asked now and then, while there is something to
/// wait for. What is not ready then is dropped: `None`.
pub(crate) fn wait_unless<F: Future>(
    future: F,
    stop: &mut dyn FnMut() -> bool,
) -> Option<F::Output> {
    let mut future = pin!(future);
    // Not the thread's own waker: who knows that one may block the thread instead of letting it wait.
    let waker = waker();
    let mut context = Context::from_waker(&waker);
    let mut asked = Stopwatch::start();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        #[cfg(not(semel_shuttle))]
        thread::park_timeout(STOP_CHECK);
        #[cfg(semel_shuttle)]
        thread::park();
        if asked.elapsed() >= STOP_CHECK {
            if stop() {
                return None;
            }
            asked = Stopwatch::start();
        }
    }
}

/// Who asks once and does not come back.
static NOBODY: LazyLock<Waker> = LazyLock::new(|| Waker::from(Arc::new(Nobody)));

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Whether who polls is [`Op::now`], which does not come back.
#[cfg(unix)]
pub(crate) fn is_nobody(context: &Context<'_>) -> bool {
    NOBODY.will_wake(context.waker())
}

/// Whether who polls is [`wait`] on this very thread, which has nothing else to do meanwhile.
#[cfg(unix)]
pub(crate) fn is_parked(context: &Context<'_>) -> bool {
    // A thread that ends has none any more, and a helper asks for it.
    WAKER
        .try_with(|waker| waker.will_wake(context.waker()))
        .unwrap_or(false)
}

thread_local! {
    static WAKER: Waker = waker();
}

fn waker() -> Waker {
    Waker::from(Arc::new(Parked(thread::current())))
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
