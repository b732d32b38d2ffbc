//! A person at a page: clicks twice, or goes back and sends the form again.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::cli::demo::guard::{Answer, Call, Guard};
use crate::cli::demo::stage::{Stage, panicked};
use crate::cli::exit::Stop;

/// How long the page's request takes beside its effect: both clicks are under way together.
const WORK: Duration = Duration::from_millis(30);
const LEASE: Duration = Duration::from_secs(30);

/// Two threads ask for the same at the same moment.
pub(super) fn double(stage: &Stage, operation: &str) -> Result<Vec<Answer>, Stop> {
    let (guard, key, together) = (stage.guard()?, stage.key("cart"), Barrier::new(2));
    let click = || {
        together.wait();
        submit(stage, &guard, operation, &key)
    };
    thread::scope(|scope| {
        let clicks = [scope.spawn(click), scope.spawn(click)];
        clicks
            .into_iter()
            .map(|click| click.join().map_err(panicked)?)
            .collect()
    })
}

/// The page keeps its form's key, so going back and sending again asks for the same.
pub(super) fn form(stage: &Stage, operation: &str) -> Result<Vec<Answer>, Stop> {
    let (guard, hidden_field) = (stage.guard()?, stage.key("form"));
    let send = || submit(stage, &guard, operation, &hidden_field);
    Ok(vec![send()?, send()?])
}

fn submit(stage: &Stage, guard: &Guard, operation: &str, key: &str) -> Result<Answer, Stop> {
    guard.call(
        &Call {
            operation,
            key,
            lease: LEASE,
        },
        || {
            let receipt = stage.charge(operation, key)?;
            thread::sleep(WORK);
            Ok(receipt)
        },
    )
}
