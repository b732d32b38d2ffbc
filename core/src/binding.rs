//! What a binding for another language stands on: values that it encodes itself, tasks that it numbers itself, and waiting
//! that can be given up.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::answer::Claim;
use crate::backend::{wait, wait_unless};
use crate::caller::{Caller, Inside};
use crate::error::Result;
#[cfg(feature = "http")]
use crate::key::Scope;
use crate::nonce;
use crate::record::{Doubt, Policy};
use crate::request::Request;
use crate::run::{self, RunError};
use crate::scheme::lock::{Lock, LockRequest};
#[cfg(feature = "http")]
use crate::scheme::token::Redeem;
use crate::step::StepError;
use crate::store::Store;
use crate::ticket::{Stepping, Ticket};
use crate::value::Value;
use crate::work::Classify;

pub use crate::info::hex;
pub use crate::value::Kept;

/// A number for a task that is about to claim; no other task has it.
pub fn task() -> u64 {
    nonce::fresh()
}

/// [`Store::claim`], given up when `stop` says so: it is asked every 50 ms of waiting. `None`: it was, and nothing is claimed.
///
/// # Errors
/// As [`Store::claim`].
pub fn claim_unless(
    store: &Store,
    request: &Request<'_>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Claim>> {
    wait_unless(store.0.claim(request, Caller::Thread), stop).transpose()
}

/// [`Store::claim_async`] by the task of this number, which does the work of the tasks `within`: what they run, it does not
/// wait for.
///
/// # Errors
/// As [`Store::claim_async`].
pub async fn claim_within(
    store: &Store,
    request: &Request<'_>,
    task: u64,
    within: Vec<u64>,
) -> Result<Claim> {
    Within {
        tasks: within,
        claim: Box::pin(store.0.claim(request, Caller::Task(task))),
    }
    .await
}

/// A claim that is made while the work of tasks is done.
struct Within<F> {
    tasks: Vec<u64>,
    claim: Pin<Box<F>>,
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _inside: Vec<Inside> = self.tasks.iter().map(|task| Inside::of(*task)).collect();
        self.claim.as_mut().poll(context)
    }
}

/// [`LockRequest::acquire`], given up when `stop` says so.
///
/// # Errors
/// As [`LockRequest::acquire`].
pub fn acquire_unless(
    lock: &LockRequest<'_>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Lock>> {
    wait_unless(lock.take(Caller::Thread), stop).transpose()
}

/// Runs the work of a ticket that was claimed before, and keeps what came of it: the second half of [`Store::run`].
///
/// # Errors
/// As [`Store::run`].
pub fn work<T: Kept, E: Classify>(
    ticket: &Ticket,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, RunError<T, E::Error>> {
    let outcome = run::guarded(ticket, work);
    wait(run::conclude(ticket, outcome))
}

/// Keeps what came of work that was done elsewhere: the last part of [`Store::run_async`]. The change is made when it is
/// first polled.
///
/// # Errors
/// As [`Store::run_async`].
pub async fn conclude<T: Kept, E: Classify>(
    ticket: &Ticket,
    outcome: Result<T, E>,
) -> Result<T, RunError<T, E::Error>> {
    run::conclude(ticket, outcome).await
}

/// Lets go of a ticket whose work has not begun, without waiting for anything: it may run again.
pub fn give_back(ticket: &Ticket) {
    ticket.release_at_once();
}

/// Leaves the work of a ticket in doubt, without waiting for anything: whoever did it went away.
pub fn abandon(ticket: &Ticket) {
    ticket.doubt_at_once(Doubt::Cancelled);
}

/// [`Ticket::complete_without_result`] for callers that await.
///
/// # Errors
/// As [`Ticket::complete`].
pub async fn complete_nothing(ticket: &Ticket) -> Result<()> {
    ticket.complete_nothing_async().await
}

/// [`Ticket::doubt`] for callers that await.
///
/// # Errors
/// As [`Ticket::complete`].
pub async fn doubt(ticket: &Ticket, why: String) -> Result<()> {
    ticket.doubt_async(Doubt::Stated(run::bounded(why))).await
}

/// What a store does by default after an attempt with unknown effect.
pub fn in_doubt(store: &Store) -> Policy {
    store.0.in_doubt()
}

/// Which one of its operation a request is about.
pub fn id<'r>(request: &'r Request<'_>) -> &'r str {
    &request.id
}

/// Binds the token that is the id of a request to its operation, as the HTTP rules do before the claim of a guard that
/// takes tokens alone as keys.
///
/// # Errors
/// As [`Store::claim`].
#[cfg(feature = "http")]
pub fn bind_token(
    store: &Store,
    scope: Scope<'_>,
    purpose: &str,
    request: &Request<'_>,
) -> Result<Redeem> {
    let tokens = store.tokens().scope(scope);
    tokens.bind(&request.id, purpose, request)
}

/// A step of a ticket's work that was begun.
pub enum Step {
    /// It was done before, with this result.
    Done(Value),
    /// It is to be run, and then concluded; dropped before, its effect is unknown.
    Run(StepRun),
}

/// A step that runs.
pub struct StepRun {
    ticket: Ticket,
    name: String,
    _alone: Option<Stepping>,
}

/// Begins a step: the first half of [`Ticket::step`].
///
/// # Errors
/// As [`Ticket::step`].
pub async fn begin_step(ticket: &Ticket, name: &str) -> Result<Step> {
    let alone = ticket.0.stepping(name);
    Ok(match ticket.0.begin_step(name, alone.is_some()).await? {
        Some(value) => Step::Done(value),
        None => Step::Run(StepRun {
            ticket: ticket.clone(),
            name: name.to_owned(),
            _alone: alone,
        }),
    })
}

impl StepRun {
    /// Keeps what came of the step: the second half of [`Ticket::step`].
    ///
    /// # Errors
    /// As [`Ticket::step`].
    pub async fn conclude<T: Kept, E: Classify>(
        &self,
        outcome: Result<T, E>,
    ) -> Result<T, StepError<E::Error>> {
        self.ticket.0.conclude_step(&self.name, outcome).await
    }
}

/// Runs a future on this thread, which sleeps between its steps.
pub fn block_on<F: Future>(future: F) -> F::Output {
    wait(pin!(future))
}
