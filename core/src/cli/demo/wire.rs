//! A client and a server with a connection between them that loses an answer, or is slower than the client's patience.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::cli::demo::guard::{Answer, Call, Guard};
use crate::cli::demo::stage::{Stage, broken, panicked};
use crate::cli::exit::Stop;

/// How often the client asks before it gives up.
const TRIES: usize = 5;
const LEASE: Duration = Duration::from_secs(30);
/// A client that waits for as long as it takes.
const PATIENT: Duration = Duration::from_secs(10);
/// A client that does not, and a server that needs longer.
const HASTY: Duration = Duration::from_millis(50);
const SLOW_WORK: Duration = Duration::from_millis(150);

/// What the server does with one request.
#[derive(Clone, Copy)]
struct Conduct {
    work: Duration,
    /// The connection breaks after the effect, before the answer.
    answer_lost: bool,
}

/// The server has the effect, and the connection breaks before its answer. The client asks again.
pub(super) fn lost_answer(stage: &Stage, operation: &str) -> Result<Vec<Answer>, Stop> {
    let conduct = |tried| Conduct {
        work: Duration::ZERO,
        answer_lost: tried == 0,
    };
    talk(stage, operation, |_| PATIENT, conduct)
}

/// The client's time-out is over before the server is done. It sends again while the first call still runs.
pub(super) fn resend(stage: &Stage, operation: &str) -> Result<Vec<Answer>, Stop> {
    let patience = |tried| if tried == 0 { HASTY } else { PATIENT };
    talk(stage, operation, patience, |_| Conduct {
        work: SLOW_WORK,
        answer_lost: false,
    })
}

fn talk(
    stage: &Stage,
    operation: &str,
    patience: impl Fn(usize) -> Duration,
    conduct: impl Fn(usize) -> Conduct,
) -> Result<Vec<Answer>, Stop> {
    let (guard, key) = (stage.guard()?, stage.key("order"));
    thread::scope(|scope| {
        let mut served: Vec<ScopedJoinHandle<'_, Result<Answer, Stop>>> = Vec::new();
        for tried in 0..TRIES {
            let (client, server) =
                UnixStream::pair().map_err(|error| broken("no connection", error))?;
            let (guard, conduct) = (&guard, conduct(tried));
            served.push(scope.spawn(move || serve(stage, guard, operation, server, conduct)));
            if ask(client, &key, patience(tried)).is_some() {
                break;
            }
        }
        served
            .into_iter()
            .map(|server| server.join().map_err(panicked)?)
            .collect()
    })
}

/// Sends the key and waits for the receipt; `None` when the connection broke, or when it took too long.
fn ask(mut connection: UnixStream, key: &str, patience: Duration) -> Option<String> {
    connection.set_read_timeout(Some(patience)).ok()?;
    connection.write_all(format!("{key}\n").as_bytes()).ok()?;
    let mut receipt = String::new();
    BufReader::new(connection).read_line(&mut receipt).ok()?;
    receipt.strip_suffix('\n').map(str::to_owned)
}

/// Handles one request as a server does: reads the key, has the effect, answers.
fn serve(
    stage: &Stage,
    guard: &Guard,
    operation: &str,
    connection: UnixStream,
    conduct: Conduct,
) -> Result<Answer, Stop> {
    let mut request = String::new();
    let mut reader = BufReader::new(connection);
    reader
        .read_line(&mut request)
        .map_err(|error| broken("a request cannot be read", error))?;
    let key = request.trim_end();
    let answer = guard.call(
        &Call {
            operation,
            key,
            lease: LEASE,
        },
        || {
            let receipt = stage.charge(operation, key)?;
            thread::sleep(conduct.work);
            Ok(receipt)
        },
    )?;
    if !conduct.answer_lost {
        let receipt = answer.receipt.as_deref().unwrap_or(&answer.name);
        // The client may be gone; that is its own affair.
        let _ = reader
            .get_mut()
            .write_all(format!("{receipt}\n").as_bytes());
    }
    Ok(answer)
}
