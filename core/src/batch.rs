//! Many operations in one go: each has its own answer, and all of them share the wait for the disk.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Claim;
use crate::backend::wait;
use crate::caller::Caller;
use crate::error::Result;
use crate::request::Request;
use crate::run::{self, RunError};
use crate::store::Store;
use crate::ticket::Ticket;
use crate::value::Kept;
use crate::work::Classify;

/// Futures that are all begun before any is waited for.
struct Begun<'a, T>(Vec<Step<'a, T>>);

enum Step<'a, T> {
    Ready(T),
    Pending(Pin<Box<dyn Future<Output = T> + 'a>>),
}

impl<'a, T> Begun<'a, T> {
    fn new() -> Self {
        Self(Vec::new())
    }

    /// Begins a future: what it does before it has to wait is done now.
    fn begin(&mut self, future: impl Future<Output = T> + 'a) {
        let mut future: Pin<Box<dyn Future<Output = T> + 'a>> = Box::pin(future);
        self.0.push(
            match future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Ready(value) => Step::Ready(value),
                Poll::Pending => Step::Pending(future),
            },
        );
    }

    fn finish(self) -> Vec<T> {
        let finish = |step| match step {
            Step::Ready(value) => value,
            Step::Pending(future) => wait(future),
        };
        self.0.into_iter().map(finish).collect()
    }
}

/// What one operation of a batch came to.
type Outcome<T, E> = Result<T, RunError<T, <E as Classify>::Error>>;

/// Operations that were claimed and have not begun: when another of the batch panics, they may run again.
struct Unbegun(VecDeque<(usize, Ticket)>);

impl Drop for Unbegun {
    fn drop(&mut self) {
        for (_, ticket) in &self.0 {
            ticket.release_at_once();
        }
    }
}

impl Store {
    /// Claims many operations; each has an answer or an error of its own. All of them share one wait for the disk.
    ///
    /// ```
    /// use semel::{Request, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let requests: Vec<_> = ["A", "B", "A"].map(|id| Request::new("mail.send", id)).into();
    /// let answers: Vec<_> = store.claim_many(&requests).into_iter().map(|claim| claim.unwrap().name()).collect();
    /// assert_eq!(answers, ["execute", "execute", "busy"]); // the third is the first again
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn claim_many(&self, requests: &[Request<'_>]) -> Vec<Result<Claim>> {
        let mut begun = Begun::new();
        for request in requests {
            begun.begin(self.0.claim(request, Caller::Thread));
        }
        begun.finish()
    }

    /// Runs the work for each operation that was not done before, one after the other, and gives each its value or error. A
    /// request that comes twice in the batch is run once. The claims share one wait for the disk, and so do the results.
    ///
    /// What others hold is waited for last, one after the other, each for as long as its request says.
    ///
    /// The work gets the operation's place in the batch and its ticket.
    pub fn run_many<T, E, F>(
        &self,
        requests: &[Request<'_>],
        work: F,
    ) -> Vec<Result<T, RunError<T, E::Error>>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnMut(usize, &Ticket) -> Result<T, E>,
    {
        self.run_many_kept(requests, work)
    }

    /// [`run_many`](Store::run_many) of values that serde does not know.
    #[doc(hidden)]
    pub fn run_many_kept<T, E, F>(
        &self,
        requests: &[Request<'_>],
        mut work: F,
    ) -> Vec<Result<T, RunError<T, E::Error>>>
    where
        T: Kept,
        E: Classify,
        F: FnMut(usize, &Ticket) -> Result<T, E>,
    {
        // Nobody waits while he holds others up: what is busy is waited for when the rest is done.
        let at_once: Vec<Request<'_>> = requests
            .iter()
            .map(|request| request.clone().wait(Duration::ZERO))
            .collect();
        let claims = self.claim_many(&at_once);
        let mut outcomes: Vec<Option<Outcome<T, E>>> = requests.iter().map(|_| None).collect();
        let mut ends = Begun::new();
        let mut running = Vec::new();
        let mut again = Vec::new();
        let mut claimed = Unbegun(Default::default());
        for (at, claim) in claims.into_iter().enumerate() {
            match claim.map(run::known) {
                Err(error) => outcomes[at] = Some(Err(RunError::Store(error))),
                Ok(Ok(ticket)) => claimed.0.push_back((at, ticket)),
                Ok(Err(Err(RunError::Busy(busy)))) => {
                    again.push(at);
                    outcomes[at] = Some(Err(RunError::Busy(busy)));
                }
                Ok(Err(known)) => outcomes[at] = Some(known),
            }
        }
        while let Some((at, ticket)) = claimed.0.pop_front() {
            let outcome = run::guarded(&ticket, || work(at, &ticket));
            running.push(at);
            ends.begin(async move { run::conclude(&ticket, outcome).await });
        }
        for (at, outcome) in running.into_iter().zip(ends.finish()) {
            outcomes[at] = Some(outcome);
        }
        // What was busy may have been so by an operation of this very batch, which has ended since.
        for at in again {
            match self.claim(&requests[at]).map(run::known) {
                Ok(Err(known)) => outcomes[at] = Some(known),
                Ok(Ok(ticket)) => {
                    let outcome = run::guarded(&ticket, || work(at, &ticket));
                    outcomes[at] = Some(wait(run::conclude(&ticket, outcome)));
                }
                Err(error) => outcomes[at] = Some(Err(RunError::Store(error))),
            }
        }
        outcomes.into_iter().flatten().collect()
    }
}
