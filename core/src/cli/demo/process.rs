//! Duplicates between processes: a broker that delivers again, and a schedule that fires on two machines.

use std::time::Duration;

use tokio::process::Command;

use super::answer::Answer;
use super::client::{Call, PATIENT};
use super::stage::{Stage, broken};
use super::worker::ANSWER;
use crate::cli::exit::Stop;

/// How often the broker delivers before it gives up.
const DELIVERIES: usize = 20;
/// How long the broker waits before it delivers again.
const VISIBILITY: Duration = Duration::from_millis(100);

/// The service is killed after the effect of a message, before it could say so. The broker delivers until somebody acknowledges.
///
/// With semel the next delivery is answered "in doubt": nobody runs it unasked. Somebody looks into the ledger and
/// resolves the key, and the delivery after that gets the first answer.
pub(super) async fn redelivery(
    stage: &Stage,
    operation: &'static str,
) -> Result<Vec<Answer>, Stop> {
    let message = Call::new(operation, stage.key("message"));
    let deliver = || message.ask(stage.address(), PATIENT);
    stage.restart_service(Some(operation)).await?;
    let killed = async {
        stage.service_has_effect().await?;
        stage.restart_service(None).await
    };
    let (first, killed) = tokio::join!(deliver(), killed);
    killed?;
    let mut answers = vec![first];
    for _ in 0..DELIVERIES {
        tokio::time::sleep(VISIBILITY).await;
        let answer = deliver().await;
        let acknowledged = answer.receipt.is_some();
        let in_doubt = answer.name.ends_with("in-doubt");
        answers.push(answer);
        if acknowledged {
            break;
        }
        if in_doubt {
            stage.look_and_resolve(operation, &message.key).await?;
        }
    }
    Ok(answers)
}

/// Two processes fire for the same period, one after the other.
pub(super) async fn schedule(stage: &Stage, operation: &'static str) -> Result<Vec<Answer>, Stop> {
    let period = stage.key("2026-12-01");
    let fire = || fire(stage, operation, &period);
    Ok(vec![fire().await?, fire().await?])
}

/// A process that asks for the operation and ends.
async fn fire(stage: &Stage, operation: &str, key: &str) -> Result<Answer, Stop> {
    let failed = |error| broken("a process of the schedule cannot be started", error);
    let program = std::env::current_exe().map_err(failed)?;
    let at = stage.address().to_string();
    let told = Command::new(program)
        .args([
            "demo-worker",
            "--at",
            &at,
            "--operation",
            operation,
            "--key",
            key,
        ])
        .output()
        .await
        .map_err(failed)?;
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    let mut words = said.trim_end().splitn(3, '\t');
    match (words.next(), words.next(), words.next()) {
        (Some(ANSWER), Some(receipt), Some(name)) => Ok(Answer {
            name: name.to_owned(),
            receipt: (!receipt.is_empty()).then(|| receipt.to_owned()),
        }),
        _ => Err(broken("a process of the schedule gave no answer", said)),
    }
}
