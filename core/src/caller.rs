//! Who asks, within this process: a thread, or a task that runs an operation. It finds out who would wait for himself.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::key::Key;
use crate::nonce;
use crate::sync::thread_local;

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
    static TASKS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Keys that this thread is being asked about, each with its store.
    static QUESTIONS: RefCell<Vec<(usize, Key)>> = const { RefCell::new(Vec::new()) };
}

/// Who makes a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The thread that calls, and is blocked meanwhile.
    Thread,
    /// A task, known by this number while its work runs.
    Task(u64),
    /// Some task; nobody knows which.
    Unknown,
}

impl Caller {
    /// The number that a record keeps of its holder; 0 is unknown.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Thread => this_thread(),
            Self::Task(number) => number,
            Self::Unknown => 0,
        }
    }

    /// Whether the holder of this number would be waiting for himself.
    pub(crate) fn is(self, number: u64) -> bool {
        number != 0 && (at_work(number) || (self == Self::Thread && number == this_thread()))
    }
}

/// Whether this thread does the work of the holder of a number. One that ends does none any more.
fn at_work(number: u64) -> bool {
    TASKS
        .try_with(|tasks| tasks.borrow().contains(&number))
        .unwrap_or(false)
}

fn this_thread() -> u64 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(nonce::fresh());
        }
        thread.get()
    })
}

/// The work of a task, which claims made inside of it can be told by.
pub(crate) struct Working<F> {
    number: u64,
    work: Pin<Box<F>>,
}

impl<F> Working<F> {
    pub(crate) fn new(number: u64, work: F) -> Self {
        Self {
            number,
            work: Box::pin(work),
        }
    }
}

impl<F: Future> Future for Working<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside = Inside::of(self.number);
        self.work.as_mut().poll(context)
    }
}

/// While it lives, this thread does the work of the holder of a number.
pub(crate) struct Inside(());

impl Inside {
    pub(crate) fn of(number: u64) -> Self {
        let _ = TASKS.try_with(|tasks| tasks.borrow_mut().push(number));
        Self(())
    }

    /// The work of this thread: what it awaits meanwhile, it would await for ever.
    pub(crate) fn this_thread() -> Self {
        Self::of(this_thread())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = TASKS.try_with(|tasks| tasks.borrow_mut().pop());
    }
}

/// While it lives, this thread is being asked about a key: who claims it meanwhile would wait for his own answer.
pub(crate) struct Question(());

impl Question {
    pub(crate) fn about(store: usize, key: &Key) -> Self {
        let _ = QUESTIONS.try_with(|asked| asked.borrow_mut().push((store, key.clone())));
        Self(())
    }

    /// Whether this thread is being asked about this key.
    pub(crate) fn is_open(store: usize, key: &Key) -> bool {
        let same = |(of, asked): &(usize, Key)| *of == store && asked.as_bytes() == key.as_bytes();
        QUESTIONS
            .try_with(|asked| asked.borrow().iter().any(same))
            .unwrap_or(false)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let _ = QUESTIONS.try_with(|asked| asked.borrow_mut().pop());
    }
}
