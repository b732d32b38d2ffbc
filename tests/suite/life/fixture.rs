//! Stores, clocks and small words that the tests of this folder share, and an executor that can be stopped anywhere.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use semel::{Claim, Clock, Request, Stopwatch, Store, Ticket};

/// More than any test waits for on a machine that is busy.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// When the clocks of these tests start.
pub(super) const START: Duration = Duration::from_secs(1_800_000_000);

/// Where a store can be made, until the first is dropped.
pub(super) fn directory() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store").to_str().expect("UTF-8").to_owned();
    (dir, path)
}

/// A store in memory whose time stands still until it is told to move.
pub(crate) fn frozen() -> (Store, Clock) {
    let clock = Clock::manual(START);
    let store = Store::builder("memory:")
        .clock(clock.clone())
        .sweep_by_hand()
        .open()
        .expect("opens");
    (store, clock)
}

pub(crate) fn memory() -> Store {
    Store::open("memory:").expect("opens")
}

pub(super) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Microseconds since the Unix epoch, so long after the start of a frozen clock.
pub(super) fn at(since_start: Duration) -> u64 {
    (START + since_start).as_micros() as u64
}

/// The answer's word.
#[track_caller]
pub(super) fn answer(store: &Store, request: &Request<'_>) -> &'static str {
    store.claim(request).expect("claims").name()
}

/// The ticket of a claim that is to be executed.
#[track_caller]
pub(super) fn execute(store: &Store, request: &Request<'_>) -> Ticket {
    ticket(store.claim(request).expect("claims"))
}

#[track_caller]
pub(super) fn ticket(claim: Claim) -> Ticket {
    match claim {
        Claim::Execute(ticket) => ticket,
        other => panic!("to be executed, but {other:?}"),
    }
}

/// The kept result as text.
#[track_caller]
pub(super) fn replayed(claim: Claim) -> String {
    match claim {
        Claim::Replay(replay) => replay.decode().expect("text"),
        other => panic!("to be replayed, but {other:?}"),
    }
}

/// Takes the one answer that is meant, or says what came instead.
macro_rules! answered {
    ($variant:ident, $claim:expr) => {
        match $claim {
            semel::Claim::$variant(answer) => answer,
            other => panic!("{} was expected, but {other:?}", stringify!($variant)),
        }
    };
}
pub(super) use answered;

/// Waits, by looking again and again, until something is so.
#[track_caller]
pub(super) fn eventually(what: &str, so: impl Fn() -> bool) {
    let waited = Stopwatch::start();
    while !so() {
        assert!(waited.elapsed() < LONG, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future so many times, each when it was woken, then drops it, ready or not.
pub(super) fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    for poll in 1..=times {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        if poll < times {
            std::thread::park_timeout(LONG);
        }
    }
    None
}

/// Runs a future to its end on this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    polled(future, usize::MAX).expect("a future that ends")
}

/// Polls a future once and does not wait for it.
pub(super) fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// An id whose claim was given up by its caller while it was on its way to the disk.
#[track_caller]
pub(super) fn given_up<'a>(store: &Store, of: impl Fn(String) -> Request<'a>) -> String {
    let mut ids = (0..200).map(|n| format!("given up {n}"));
    ids.find(|id| polled(store.claim_async(&of(id.clone())), 1).is_none())
        .expect("a claim that waits for the disk")
}
