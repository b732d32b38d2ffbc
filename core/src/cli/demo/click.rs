//! A person at a page: clicks twice, or goes back and sends the form again.

use super::answer::Answer;
use super::client::{Call, PATIENT};
use super::stage::Stage;
use crate::cli::exit::Stop;

/// How long the service works beside the effect, in milliseconds: both clicks are under way together.
const WORK_MS: u64 = 30;

/// Two requests at the same moment.
pub(super) async fn double(stage: &Stage, operation: &'static str) -> Result<Vec<Answer>, Stop> {
    let call = Call {
        work_ms: WORK_MS,
        ..Call::new(operation, stage.key("cart"))
    };
    let click = || call.ask(stage.address(), PATIENT);
    let (first, second) = tokio::join!(click(), click());
    Ok(vec![first, second])
}

/// The page keeps its form's key in a field, so going back and sending again asks for the same.
pub(super) async fn form(stage: &Stage, operation: &'static str) -> Result<Vec<Answer>, Stop> {
    let hidden_field = Call {
        header: false,
        ..Call::new(operation, stage.key("form"))
    };
    let send = || hidden_field.ask(stage.address(), PATIENT);
    Ok(vec![send().await, send().await])
}
