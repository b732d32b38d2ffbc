//! Named steps of the work: each is done once, however many attempts the work takes.

use std::fmt;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::wait;
use crate::error::{Error, Result};
use crate::key::check_name;
use crate::lifecycle::{Answer, Verb};
use crate::nonce;
use crate::record::{MAX_STEPS, StepRecord, StepState};
use crate::ticket::{Held, Ticket};
use crate::value::{Kept, Value};
use crate::work::{Classify, WorkError};

/// The longest name of a step, in bytes of UTF-8.
pub const MAX_STEP_NAME_BYTES: usize = 128;

impl Ticket {
    /// Runs a named step of the work, once: an attempt that follows skips steps that are done and gets their results.
    /// At most 64 names. A step that runs, in this thread or another, is not begun a second time.
    ///
    /// # Errors
    /// [`WorkError`] of the step: `retryable` and `terminal` say that it took no effect; any other error leaves the step,
    /// and but for [`Policy::Rerun`](crate::Policy::Rerun) the operation, in doubt, even when the ticket is released or
    /// failed after it: the same attempt cannot begin it again either.
    ///
    /// ```
    /// use semel::{Claim, Request, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let request = Request::new("order.create", "ORDER_1");
    /// let mut charges = 0;
    /// for attempt in 1..=2 {
    ///     let Claim::Execute(ticket) = store.claim(&request)? else { panic!() };
    ///     let receipt = ticket.step("charge", || {
    ///         charges += 1;
    ///         Ok::<_, std::io::Error>(format!("receipt {charges}"))
    ///     }).expect("charges");
    ///     assert_eq!(receipt, "receipt 1"); // the second attempt skips the step
    ///     if attempt == 1 { ticket.release()? } else { ticket.complete(&receipt)? }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step<T, E, F>(&self, name: &str, work: F) -> Result<T, StepError<E::Error>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce() -> Result<T, E>,
    {
        let held = &self.0;
        let alone = held.stepping(name);
        if let Some(value) = wait(held.begin_step(name, alone.is_some()))? {
            return value.decode().map_err(StepError::Store);
        }
        wait(held.conclude_step(name, work()))
    }

    /// [`step`](Ticket::step) for callers that await. Dropping the future while the work runs leaves the step's effect
    /// unknown.
    pub async fn step_async<T, E, F, W>(
        &self,
        name: &str,
        work: F,
    ) -> Result<T, StepError<E::Error>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify,
        F: FnOnce() -> W,
        W: Future<Output = Result<T, E>>,
    {
        let held = &self.0;
        let alone = held.stepping(name);
        if let Some(value) = held.begin_step(name, alone.is_some()).await? {
            return value.decode().map_err(StepError::Store);
        }
        held.conclude_step(name, work().await).await
    }
}

/// Why a step gave no result.
#[derive(Debug)]
pub enum StepError<E> {
    /// The step's own error.
    Work(WorkError<E>),
    /// The store, or the ticket: nothing is known of the step's effect if it ran.
    Store(Error),
}

impl<E> From<Error> for StepError<E> {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for StepError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => write!(f, "{error}"),
            Self::Store(error) => write!(f, "{error}"),
        }
    }
}

/// The step's error says of the whole work what it says of the step; `?` in work that is run does the right thing.
impl<E: fmt::Display> Classify for StepError<E> {
    type Error = Self;

    fn classify(self) -> WorkError<Self> {
        match self {
            Self::Work(error @ WorkError::Retryable(_)) => WorkError::Retryable(Self::Work(error)),
            Self::Work(WorkError::Terminal(error, failure)) => {
                let error = Self::Work(WorkError::Terminal(error, failure.clone()));
                WorkError::Terminal(error, failure)
            }
            unknown => WorkError::Unknown(unknown),
        }
    }
}

impl Held {
    /// The result of a step that is done; `None` when it is to run. `alone`: no other call of this ticket runs it.
    pub(crate) async fn begin_step(&self, name: &str, alone: bool) -> Result<Option<Value>> {
        check_name("step name", name, MAX_STEP_NAME_BYTES)?;
        self.check_unfinished()?;
        if !alone {
            return self.step_result(name).await?.map(Some).ok_or_else(|| {
                Error::invalid(format!(
                    "the step {name:?} is running already: begin it once, and not within itself"
                ))
            });
        }
        let verb = Verb::BeginStep {
            fence: self.fence(),
            name: name.to_owned(),
        };
        let told = self.tell(nonce::fresh(), verb).await?;
        match told.answer {
            Answer::StepDone(value) => Ok(Some(value)),
            Answer::Done { .. } => Ok(None),
            Answer::InDoubt { .. } => Err(Error::invalid(format!(
                "the step {name:?} was begun before by this attempt and may have taken effect: only in_doubt = rerun tries it again; end the attempt, then find out and resolve it"
            ))),
            Answer::StepsFull => Err(Error::invalid(format!(
                "a ticket keeps at most {MAX_STEPS} steps; use fewer names"
            ))),
            _ => Err(self.not_the_holder(&told)),
        }
    }

    /// The result of a step, if it has one.
    async fn step_result(&self, name: &str) -> Result<Option<Value>> {
        let seen = self.engine().backend().load(&[self.key()]).await?;
        let record = seen.first().and_then(|seen| seen.record());
        let of_name = |step: &&StepRecord| step.name == name;
        let step = record.and_then(|record| record.steps.iter().find(of_name));
        Ok(step.and_then(|step| match &step.state {
            StepState::Done(value) => Some(value.clone()),
            StepState::Begun { .. } => None,
        }))
    }

    async fn end_step(&self, name: &str, value: Option<Value>) -> Result<()> {
        if let Some(value) = &value
            && value.as_bytes().len() > self.engine().max_result_bytes()
        {
            return Err(Error::invalid(format!(
                "the result of the step is {} bytes long, and the store keeps {}: return something smaller from a step",
                value.as_bytes().len(),
                self.engine().max_result_bytes()
            )));
        }
        let verb = Verb::EndStep {
            fence: self.fence(),
            name: name.to_owned(),
            value,
        };
        let told = self.tell(nonce::fresh(), verb).await?;
        match told.answer {
            Answer::Done { .. } => Ok(()),
            _ => Err(self.not_the_holder(&told)),
        }
    }

    /// Keeps what came of a step; an error that says nothing of the effect leaves it unknown.
    pub(crate) async fn conclude_step<T: Kept, E: Classify>(
        &self,
        name: &str,
        outcome: Result<T, E>,
    ) -> Result<T, StepError<E::Error>> {
        match outcome {
            Ok(result) => {
                let value = result.keep().map_err(StepError::Store)?;
                self.end_step(name, Some(value)).await?;
                Ok(result)
            }
            Err(error) => {
                let error = error.classify();
                if !matches!(error, WorkError::Unknown(_)) {
                    self.end_step(name, None).await?;
                }
                Err(StepError::Work(error))
            }
        }
    }
}
