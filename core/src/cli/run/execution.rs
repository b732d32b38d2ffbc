//! The first time: starts the command, waits for its end, and tells the store of it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::say;
use crate::cli::resolve;
use crate::cli::run::child::{Ended, Running};
use crate::cli::run::signals::{self, Forwarding};
use crate::cli::run::{Run, report};
use crate::{Error, ErrorKind, Result, Ticket};

/// How often the end of a command is told to a store that cannot take it now.
const RECORD_TRIES: u32 = 3;
/// How long between these tries.
const RECORD_PAUSE: Duration = Duration::from_millis(500);

impl Run {
    /// Runs the command under its ticket.
    pub(super) fn execute(&self, ticket: &Ticket) -> Ending {
        let started = Forwarding::begin().and_then(|forwarding| {
            let running = Running::start(&forwarding, self.described(ticket), self.max_output)?;
            Ok((forwarding, running))
        });
        let (forwarding, running) = match started {
            Ok(started) => started,
            Err(error) => return self.not_started(ticket, &error),
        };
        match running.wait(&forwarding) {
            Ok(ended) => self.ended(ticket, &ended),
            Err(error) => self.in_doubt(
                ticket,
                &format!("nobody could wait for the command: {error}"),
                exit::UNAVAILABLE,
            ),
        }
    }

    /// The command, told its key and fence, so that it can hand them on.
    fn described(&self, ticket: &Ticket) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
            .env("SEMEL_OPERATION", &self.key.operation)
            .env("SEMEL_KEY", &self.key.key);
        command
            .env("SEMEL_FENCE", ticket.fence().to_string())
            .env("SEMEL_ATTEMPT", ticket.attempt().to_string());
        command
    }

    fn not_started(&self, ticket: &Ticket, error: &io::Error) -> Ending {
        let program = self.command[0].to_string_lossy();
        let status = if error.kind() == io::ErrorKind::NotFound {
            exit::NOT_FOUND
        } else {
            exit::CANNOT_START
        };
        tell(|| ticket.release())
            .map_err(|lost| self.statuses.unrecorded("was not started", &lost))?;
        let advice = "the key is free for this same command; for a corrected one take a new key, or semel forget this one";
        Err(Stop::new(
            status,
            format!(
                "not executed: {program:?} cannot be started: {error}; nothing happened: {advice}"
            ),
        ))
    }

    fn ended(&self, ticket: &Ticket, ended: &Ended) -> Ending {
        end_line(ended.stderr_open);
        let Some(status) = ended.status.code() else {
            let signal = ended.status.signal().unwrap_or_default();
            let why = format!(
                "the command was ended by signal {signal} ({})",
                signals::name(signal)
            );
            return self.in_doubt(ticket, &why, exit::BY_SIGNAL.wrapping_add(signal as u8));
        };
        let status = status as u8;
        if self.retry_on.contains(&status) {
            tell(|| ticket.release()).map_err(|error| {
                self.statuses
                    .unrecorded(&format!("ended with status {status}"), &error)
            })?;
            let which = format!(
                "attempt {} ended with status {status}, which --retry-on names",
                ticket.attempt()
            );
            let next = if ticket.is_last() {
                "it was the last of --max-attempts, and repeats are told so"
            } else {
                "the key may run again"
            };
            return Err(Stop::new(status, format!("released: {which}; {next}")));
        }
        let outcome = ended.outcome(status);
        if outcome.not_kept > 0 {
            say(format_args!(
                "semel: repeats get the first {} bytes of the output",
                outcome.total_bytes()
            ));
        }
        let value = outcome.to_value().map_err(Stop::from)?;
        tell(|| ticket.complete_value(value.clone())).map_err(|error| {
            self.statuses
                .unrecorded(&format!("ended with status {status}"), &error)
        })?;
        report::executed(ticket.attempt(), status)
    }

    fn in_doubt(&self, ticket: &Ticket, why: &str, status: u8) -> Ending {
        tell(|| ticket.doubt(why)).map_err(|error| self.statuses.unrecorded(why, &error))?;
        let command = resolve::command(&self.store.store, &self.key, ticket.fence());
        Err(Stop::new(
            status,
            format!("in doubt: {why}; see what it did, then resolve with: {command}"),
        ))
    }
}

/// Tells the store, again when it cannot take it now: the command has run, so nothing else may be done.
fn tell(event: impl Fn() -> Result<()>) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        match event() {
            Err(error) if error.kind() == ErrorKind::Unavailable && tries < RECORD_TRIES => {
                thread::sleep(RECORD_PAUSE)
            }
            done => return done,
        }
        tries += 1;
    }
}

/// Ends a line that a command left open, so that the last line of standard error is semel's.
pub(super) fn end_line(open: bool) {
    if open {
        say("");
    }
}
