//! Duplicates between processes: a broker that delivers again, and a schedule that fires on two machines.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::cli::demo::guard::{Answer, Guard};
use crate::cli::demo::stage::{Stage, broken};
use crate::cli::demo::worker::{ANSWER, EFFECT};
use crate::cli::exit::Stop;
use crate::{Identity, Resolution, Value};

/// How often the broker delivers before it gives up.
const DELIVERIES: usize = 50;
/// How long the broker waits for a worker's word before it delivers again; longer than the lease, as it should be.
const VISIBILITY: Duration = Duration::from_millis(500);
/// How long a dead worker keeps its message.
const LEASE_MS: u64 = 300;

/// A worker is killed after the effect, before it could say so. The broker delivers until somebody acknowledges.
///
/// With semel the second delivery is answered "in doubt": nobody runs it unasked. Somebody looks into the ledger and
/// resolves the key, and the next delivery gets the first answer.
pub(super) fn redelivery(stage: &Stage, operation: &str) -> Result<Vec<Answer>, Stop> {
    let key = stage.key("message");
    let mut answers = vec![kill_after_effect(stage, operation, &key)?];
    for _ in 0..DELIVERIES {
        thread::sleep(VISIBILITY);
        let answer = deliver(stage, operation, &key)?;
        let acknowledged = answer.receipt.is_some();
        if answer.name == "in_doubt" {
            look_and_resolve(stage, operation, &key)?;
        }
        answers.push(answer);
        if acknowledged {
            break;
        }
    }
    Ok(answers)
}

/// Two processes fire for the same period, one after the other.
pub(super) fn schedule(stage: &Stage, operation: &str) -> Result<Vec<Answer>, Stop> {
    let period = stage.key("2026-12-01");
    Ok(vec![
        deliver(stage, operation, &period)?,
        deliver(stage, operation, &period)?,
    ])
}

fn kill_after_effect(stage: &Stage, operation: &str, key: &str) -> Result<Answer, Stop> {
    let mut worker = start(stage, operation, key, true)?;
    let heard = hear(&mut worker)?;
    worker
        .kill()
        .map_err(|error| broken("the worker cannot be killed", error))?;
    worker
        .wait()
        .map_err(|error| broken("the worker cannot be waited for", error))?;
    match heard == EFFECT {
        true => Ok(Answer::new("execute (killed)", None)),
        false => Err(broken("the worker had no effect to be killed after", heard)),
    }
}

/// Lets a worker process handle the message to its end.
fn deliver(stage: &Stage, operation: &str, key: &str) -> Result<Answer, Stop> {
    let mut worker = start(stage, operation, key, false)?;
    let heard = hear(&mut worker)?;
    worker
        .wait()
        .map_err(|error| broken("the worker cannot be waited for", error))?;
    let mut words = heard.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some(ANSWER), Some(name), receipt) => Ok(Answer::new(name, receipt.map(str::to_owned))),
        _ => Err(broken("the worker gave no answer", heard)),
    }
}

fn start(stage: &Stage, operation: &str, key: &str, linger: bool) -> Result<Child, Stop> {
    let program =
        std::env::current_exe().map_err(|error| broken("its own program is not found", error))?;
    let mut command = Command::new(program);
    command.args([
        "demo-worker",
        "--operation",
        operation,
        "--key",
        key,
        "--lease-ms",
        &LEASE_MS.to_string(),
    ]);
    command.arg("--ledger").arg(stage.ledger.path());
    if let Some(store) = &stage.store {
        command.args(["--store", store]);
    }
    if linger {
        command.arg("--linger");
    }
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    started.map_err(|error| broken("a worker process cannot be started", error))
}

/// The worker's first line.
fn hear(worker: &mut Child) -> Result<String, Stop> {
    let Some(stdout) = worker.stdout.take() else {
        return Ok(String::new());
    };
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .map_err(|error| broken("a worker cannot be heard", error))?;
    Ok(line.trim_end().to_owned())
}

/// What a person does about a key in doubt: looks whether the effect is there, and says so.
fn look_and_resolve(stage: &Stage, operation: &str, key: &str) -> Result<(), Stop> {
    let Guard::On(store) = stage.guard()? else {
        return Ok(());
    };
    let receipts = stage
        .ledger
        .receipts(operation)
        .map_err(|error| broken("the ledger cannot be read", error))?;
    let resolution = match receipts.first() {
        Some(receipt) => Resolution::Value(Value::of(receipt)?),
        None => Resolution::Rerun,
    };
    store.resolve(&Identity::new(operation, key), resolution)?;
    Ok(store.close()?)
}
