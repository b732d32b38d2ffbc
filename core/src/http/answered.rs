//! What a claim comes to for a client: the right to pass the request on, the first answer, or a problem.

use super::kept::Kept;
use super::problem::Problem;
use crate::answer::Claim;
use crate::ticket::Ticket;

/// What becomes of a request that was claimed.
#[derive(Debug)]
pub enum Answered {
    /// It is passed on; how that ends, the ticket is told.
    Execute(Ticket),
    /// It is answered with what is kept, and the field [`REPLAYED`](super::REPLAYED).
    Replay(Kept),
    /// It is answered with this.
    Refused(Problem),
}

impl Answered {
    /// By the answer to the claim. A result that is no answer of HTTP, as somebody gives who resolves a doubt, says that the
    /// operation was executed, and no more.
    ///
    /// ```
    /// use semel::http::{Answered, ProblemKind};
    /// use semel::{Request, Store};
    ///
    /// let store = Store::open("memory:")?;
    /// let request = Request::new("http", "k");
    /// let Answered::Execute(ticket) = Answered::of(store.claim(&request)?) else { panic!() };
    /// ticket.complete("no answer of HTTP")?;
    /// let Answered::Refused(problem) = Answered::of(store.claim(&request)?) else { panic!() };
    /// assert_eq!(problem.kind(), ProblemKind::AnswerGone);
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn of(claim: Claim) -> Self {
        let problem = Problem::of_claim(&claim);
        match (claim, problem) {
            (Claim::Execute(ticket), _) => Self::Execute(ticket),
            (Claim::Replay(replay), _) => match Kept::from_value(&replay.value) {
                Ok(kept) => Self::Replay(kept),
                Err(_) => Self::Refused(Problem::gone(replay.first_executed_us)),
            },
            (_, Some(problem)) => Self::Refused(problem),
            (_, None) => Self::Refused(Problem::unavailable()),
        }
    }
}
