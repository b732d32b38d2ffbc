//! A gateway that loses an answer, and a client that is hastier than its server.

use std::net::SocketAddr;
use std::time::Duration;

use super::answer::Answer;
use super::client::{Call, PATIENT};
use super::gateway::Gateway;
use super::stage::Stage;
use crate::cli::exit::Stop;

/// How often the client asks before it gives up.
const TRIES: usize = 5;
/// A client that does not wait for long, and how long the service works beside the effect.
const HASTY: Duration = Duration::from_millis(50);
const SLOW_WORK_MS: u64 = 150;

/// The service has the effect, and the gateway breaks before its answer. The client asks again.
pub(super) async fn lost_answer(
    stage: &Stage,
    operation: &'static str,
) -> Result<Vec<Answer>, Stop> {
    let gateway = Gateway::before(stage.address()).await?;
    let call = Call::new(operation, stage.key("order"));
    Ok(retry(gateway.address, &call, |_| PATIENT).await)
}

/// The client's time-out is over before the server is done. It sends again while the first call still runs.
pub(super) async fn resend(stage: &Stage, operation: &'static str) -> Result<Vec<Answer>, Stop> {
    let call = Call {
        work_ms: SLOW_WORK_MS,
        ..Call::new(operation, stage.key("call"))
    };
    let patience = |tried| if tried == 0 { HASTY } else { PATIENT };
    Ok(retry(stage.address(), &call, patience).await)
}

/// Asks with the same key until there is an answer.
async fn retry(at: SocketAddr, call: &Call, patience: impl Fn(usize) -> Duration) -> Vec<Answer> {
    let mut answers = Vec::new();
    for tried in 0..TRIES {
        let answer = call.ask(at, patience(tried)).await;
        let answered = answer.receipt.is_some();
        answers.push(answer);
        if answered {
            break;
        }
    }
    answers
}
