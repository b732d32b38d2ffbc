//! The one-call way: claim, run the work once, keep what came of it, and give every repeat the same.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::{Busy, Claim, Failed, Gone, InDoubt, Mismatch, Twin};
use crate::backend::wait;
use crate::caller::{Caller, Inside, Working};
use crate::error::{Error, ErrorKind};
use crate::nonce;
use crate::record::Doubt;
use crate::request::Request;
use crate::store::Store;
use crate::ticket::Ticket;
use crate::value::Kept;
use crate::work::{Classify, WorkError};

/// Why [`Store::run`] gave no value.
///
/// Without parameters it is what semel itself has to say, apart from the work's error and its value:
/// [`flatten`](RunError::flatten) turns it into the work's own type.
#[derive(Debug)]
pub enum RunError<T = (), E = Infallible> {
    /// Somebody runs it now.
    Busy(Busy),
    /// The key belongs to another request.
    Mismatch(Mismatch),
    /// It may have been done.
    InDoubt(InDoubt),
    /// It was done; the result is no longer kept.
    Gone(Gone),
    /// The same request came under another id before.
    Twin(Twin),
    /// It was done before, and this error is its result.
    Failed(Failed),
    /// The work was done, but its ticket had been lost: this is the value, and another attempt may have run as well. Also
    /// when the work has finished the ticket by itself, since this value is not what repeats get.
    Lost(T),
    /// The work's own error, in the call that ran it.
    Work(E),
    /// The store. When the work had run, its effect is kept as in doubt.
    Store(Error),
}

impl<T, E> RunError<T, E> {
    /// One error for both: the work's own as it is, and everything else as `E` takes it in. The value of
    /// [`Lost`](RunError::Lost) is dropped.
    ///
    /// ```
    /// # use semel::{Request, RunError, Store};
    /// #[derive(Debug)]
    /// enum OrderError {
    ///     SoldOut,
    ///     NoAnswer(RunError),
    /// }
    ///
    /// impl From<RunError> for OrderError {
    ///     fn from(error: RunError) -> Self {
    ///         Self::NoAnswer(error)
    ///     }
    /// }
    /// # impl std::fmt::Display for OrderError {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("no order") }
    /// # }
    /// # impl std::error::Error for OrderError {}
    ///
    /// let store = Store::open("memory:")?;
    /// let request = Request::new("order.create", "ORDER_1");
    /// let work = |_: &_| Err::<(), _>(semel::terminal(OrderError::SoldOut));
    /// let first = store.run(&request, work).map_err(RunError::flatten);
    /// assert!(matches!(first, Err(OrderError::SoldOut)));
    /// let again = store.run(&request, work).map_err(RunError::flatten);
    /// assert!(matches!(again, Err(OrderError::NoAnswer(RunError::Failed(_)))));
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn flatten(self) -> E
    where
        E: From<RunError>,
    {
        E::from(match self {
            Self::Work(error) => return error,
            Self::Busy(answer) => RunError::Busy(answer),
            Self::Mismatch(answer) => RunError::Mismatch(answer),
            Self::InDoubt(answer) => RunError::InDoubt(answer),
            Self::Gone(answer) => RunError::Gone(answer),
            Self::Twin(answer) => RunError::Twin(answer),
            Self::Failed(answer) => RunError::Failed(answer),
            Self::Lost(_) => RunError::Lost(()),
            Self::Store(error) => RunError::Store(error),
        })
    }
}

impl<T, E> From<Error> for RunError<T, E> {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<T, E: fmt::Display> fmt::Display for RunError<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(answer) => write!(f, "not executed: {answer}"),
            Self::Mismatch(answer) => write!(f, "not executed: {answer}"),
            Self::InDoubt(answer) => write!(f, "not executed: {answer}"),
            Self::Gone(answer) => write!(f, "not executed: {answer}"),
            Self::Twin(answer) => write!(f, "not executed: {answer}"),
            Self::Failed(answer) => write!(f, "not executed: {answer}"),
            Self::Lost(_) => {
                f.write_str("executed, but the ticket had been lost to another attempt")
            }
            Self::Work(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

impl<T: fmt::Debug, E: fmt::Debug + fmt::Display> std::error::Error for RunError<T, E> {}

impl Store {
    /// Runs the work once, and gives every repeat its first result.
    ///
    /// The work's error says what is known of its effect: [`retryable`](crate::retryable) releases the key,
    /// [`terminal`](crate::terminal) keeps the error as the result, and any other error, or a panic, leaves the operation
    /// in doubt.
    ///
    /// # Errors
    /// [`RunError`]: the answers that are no result, the work's own error, and the store's.
    ///
    /// ```
    /// use semel::{Request, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let request = Request::new("order.create", "ORDER_1");
    /// let mut orders = 0;
    /// for _ in 0..3 {
    ///     let order = store.run(&request, |_| {
    ///         orders += 1;
    ///         Ok::<_, std::io::Error>(format!("order {orders}"))
    ///     });
    ///     assert_eq!(order.unwrap(), "order 1");
    /// }
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn run<T, E, F>(&self, request: &Request<'_>, work: F) -> Result<T, RunError<T, E::Error>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce(&Ticket) -> Result<T, E>,
    {
        let ticket = match known(self.0.claim_here(request)?) {
            Ok(ticket) => ticket,
            Err(known) => return known,
        };
        let outcome = guarded(&ticket, || work(&ticket));
        wait(conclude(&ticket, outcome))
    }

    /// [`run`](Store::run) for callers that await; any runtime will do. Dropping the future while the work runs leaves the
    /// operation in doubt; once the work has ended, its result is kept even so.
    pub async fn run_async<T, E, F, W>(
        &self,
        request: &Request<'_>,
        work: F,
    ) -> Result<T, RunError<T, E::Error>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce(Ticket) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let task = nonce::fresh();
        let ticket = match known(self.0.claim(request, Caller::Task(task)).await?) {
            Ok(ticket) => ticket,
            Err(known) => return known,
        };
        match Guarded::new(&ticket, task, work(ticket.clone())).await {
            Ok(outcome) => conclude(&ticket, outcome).await,
            Err(panic) => {
                let _ = ticket.doubt_async(Doubt::Panicked).await;
                resume_unwind(panic)
            }
        }
    }
}

/// The ticket, or what is known without running.
pub(crate) fn known<T: Kept, E>(claim: Claim) -> Result<Ticket, Result<T, RunError<T, E>>> {
    Err(match claim {
        Claim::Execute(ticket) => return Ok(ticket),
        Claim::Replay(replay) => T::read(replay.value).map_err(RunError::Store),
        Claim::Failed(answer) => Err(RunError::Failed(answer)),
        Claim::Busy(answer) => Err(RunError::Busy(answer)),
        Claim::Mismatch(answer) => Err(RunError::Mismatch(answer)),
        Claim::InDoubt(answer) => Err(RunError::InDoubt(answer)),
        Claim::Gone(answer) => Err(RunError::Gone(answer)),
        Claim::Twin(answer) => Err(RunError::Twin(answer)),
    })
}

/// Runs the work; a panic leaves the operation in doubt, and goes on.
pub(crate) fn guarded<T>(ticket: &Ticket, work: impl FnOnce() -> T) -> T {
    let work = || {
        let _inside = Inside::this_thread();
        work()
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        // If that cannot be said, the lease ends, which comes to the same.
        let _ = wait(ticket.doubt_async(Doubt::Panicked));
        resume_unwind(panic)
    })
}

/// Keeps what came of the work. The change is made before anything is awaited, so that a caller who goes away after the
/// work's end takes nothing along.
pub(crate) async fn conclude<T, E>(
    ticket: &Ticket,
    outcome: Result<T, E>,
) -> Result<T, RunError<T, E::Error>>
where
    T: Kept,
    E: Classify,
{
    match outcome {
        Ok(value) => {
            let kept = match value.keep() {
                Ok(kept) => ticket.complete_value_async(kept).await,
                Err(error) => {
                    ticket.counters().result_not_kept(error.message());
                    ticket.complete_nothing_async().await
                }
            };
            match kept {
                Ok(()) => Ok(value),
                Err(error) if error.kind() == ErrorKind::Lost => Err(RunError::Lost(value)),
                Err(error) => Err(RunError::Store(error)),
            }
        }
        Err(error) => {
            let error = error.classify();
            let told = match &error {
                WorkError::Retryable(_) => ticket.release_async().await,
                WorkError::Terminal(_, failure) => ticket.fail_async(failure.clone()).await,
                WorkError::Unknown(error) => {
                    ticket
                        .doubt_async(Doubt::Unclassified(bounded(error.to_string())))
                        .await
                }
            };
            // The caller's own error comes first; what could not be said of it, the lease's end says.
            let _ = told;
            Err(RunError::Work(error.into_inner()))
        }
    }
}

/// The most bytes of an error's text that a record keeps.
const MAX_ERROR_BYTES: usize = 4096;

pub(crate) fn bounded(mut text: String) -> String {
    if text.len() > MAX_ERROR_BYTES {
        let end = (0..=MAX_ERROR_BYTES)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// Work that leaves word when it is dropped before its end; a panic of it is caught.
pub(crate) struct Guarded<F> {
    ticket: Ticket,
    work: Working<F>,
    over: bool,
}

impl<F: Future> Guarded<F> {
    /// The work of a ticket, done by the task of this number.
    pub(crate) fn new(ticket: &Ticket, task: u64, work: F) -> Self {
        Self {
            ticket: ticket.clone(),
            work: Working::new(task, work),
            over: false,
        }
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let work = Pin::new(&mut self.work);
        let polled = catch_unwind(AssertUnwindSafe(|| work.poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                self.over = true;
                Poll::Ready(Ok(value))
            }
            Err(panic) => {
                self.over = true;
                Poll::Ready(Err(panic))
            }
        }
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        if !self.over {
            self.ticket.doubt_at_once(Doubt::Cancelled);
        }
    }
}
