//! `semel run`: runs a command once; repeats get its output and exit status.

mod child;
mod outcome;
mod report;
mod signals;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use self::child::{Ended, Running};
pub(crate) use self::outcome::{Outcome, Stream};
use self::report::Statuses;
use self::signals::Forwarding;
use crate::cli::argument::{KeyArgs, StoreArg};
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::{Output, say};
use crate::cli::{cbor, duration, json};
use crate::{
    Claim, Error, ErrorKind, Lease, Policy, Replay, Request, Result, Retain, Store, Ticket,
};

/// What a store keeps of one result unless told otherwise, in bytes.
const STORE_RESULT_BYTES: usize = 1024 * 1024;
/// The most output that `--max-output` takes, in bytes: a store keeps results of at most 4 MiB.
const MAX_OUTPUT_BYTES: usize = 4 * STORE_RESULT_BYTES - outcome::OVERHEAD_BYTES;
/// How often the end of a command is told to a store that cannot take it now.
const RECORD_TRIES: u32 = 3;
/// How long between these tries.
const RECORD_PAUSE: Duration = Duration::from_millis(500);

/// Runs a command once; a repeat of the same key gets its output and exit status instead.
///
/// The last line on standard error says which it was. The key belongs to this command line: with another one it is a
/// mismatch.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    key: KeyArgs,
    /// How long a silent holder keeps the key; `never` ends only with its process
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::lease)]
    lease: Lease,
    /// How long repeats get the output and status; `forever` is allowed
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration::retain)]
    retain: Retain,
    /// How long after that the bare fact is kept
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse)]
    remember: Duration,
    /// How long to wait for another run of the same key
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration::parse)]
    wait: Duration,
    /// What to do with a key whose run ended with unknown effect
    #[arg(long, value_name = "WHAT", default_value = "hold")]
    in_doubt: InDoubtRule,
    /// How many runs may be started
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,
    /// Exit statuses of the command that mean nothing happened: the key is free again
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..))]
    retry_on: Vec<u8>,
    /// How much output to keep
    #[arg(long, value_name = "BYTES", default_value_t = STORE_RESULT_BYTES - outcome::OVERHEAD_BYTES)]
    max_output: usize,
    #[command(flatten)]
    statuses: Statuses,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The policies that a command line can name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum InDoubtRule {
    /// Nobody runs it again until somebody resolves it
    Hold,
    /// The next one runs it again
    Rerun,
}

impl Run {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        if self.max_output > MAX_OUTPUT_BYTES {
            return Err(Stop::usage(format!(
                "--max-output is at most {MAX_OUTPUT_BYTES} bytes; write larger output to a file"
            )));
        }
        let store = self.open().map_err(|error| self.statuses.error(error))?;
        let ending = self.claim(&store);
        match store.close() {
            Err(error) => say(format_args!(
                "semel: the store did not close in order: {error}"
            )),
            Ok(()) => {}
        }
        ending
    }

    fn open(&self) -> Result<Store> {
        let result_bytes = STORE_RESULT_BYTES.max(self.max_output + outcome::OVERHEAD_BYTES);
        Store::builder(&self.store.store)
            .max_result_bytes(result_bytes)
            .open()
    }

    fn claim(&self, store: &Store) -> Ending {
        let request = self.request().map_err(|error| self.statuses.error(error))?;
        match store
            .claim(&request)
            .map_err(|error| self.statuses.error(error))?
        {
            Claim::Execute(ticket) => self.execute(&ticket),
            Claim::Replay(replay) => self.replay(&replay),
            Claim::Failed(failed) => Err(self.statuses.failed(&failed)),
            Claim::Busy(busy) => Err(self.statuses.busy(&busy)),
            Claim::Mismatch(mismatch) => {
                Err(self.statuses.mismatch(&self.key, &mismatch, &self.words()))
            }
            Claim::InDoubt(doubt) => {
                Err(self.statuses.in_doubt(&self.store.store, &self.key, &doubt))
            }
            Claim::Gone(gone) => Err(self.statuses.gone(&gone)),
            other => Err(Stop::unavailable(format!(
                "the store answered {:?}, which nobody asked for",
                other.name()
            ))),
        }
    }

    fn request(&self) -> Result<Request<'_>> {
        let payload = json!({
            "program": argument(&self.command[0]),
            "arguments": self.command[1..].iter().map(|word| argument(word)).collect::<Vec<_>>(),
        });
        let mut request = Request::new(&*self.key.operation, &*self.key.key)
            .payload_json(payload.to_string().as_bytes())?
            .lease(self.lease)
            .retain(self.retain)
            .remember(self.remember)
            .wait(self.wait)
            .in_doubt(match self.in_doubt {
                InDoubtRule::Hold => Policy::Hold,
                InDoubtRule::Rerun => Policy::Rerun,
            })
            .holder(format!("semel run, pid {}", std::process::id()))
            .on_lost(|why| {
                say(format_args!(
                    "semel: the lease is lost: {why}; another run of this key may begin"
                ))
            });
        if let Some(scope) = &self.key.scope {
            request = request.scope(scope);
        }
        if let Some(attempts) = self.max_attempts {
            request = request.max_attempts(attempts);
        }
        Ok(request)
    }

    fn words(&self) -> Vec<String> {
        self.command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    fn replay(&self, replay: &Replay) -> Ending {
        let Some(outcome) = Outcome::of(&replay.value) else {
            // Somebody resolved the key to a value: that value is the output, and success the status.
            warn_unwritten(
                Output::stdout().and_then(|mut to| to.write_all(&json::printable(&replay.value))),
            );
            return report::replayed(replay, exit::DONE);
        };
        let written = Output::stdout()
            .and_then(|mut stdout| outcome.replay(&mut stdout, &mut Output::stderr()?));
        warn_unwritten(written);
        end_line(outcome.leaves_stderr_open());
        if outcome.not_kept > 0 {
            say(format_args!(
                "[semel: output beyond {} bytes was not kept]",
                outcome.total_bytes()
            ));
        }
        report::replayed(replay, outcome.status)
    }

    fn execute(&self, ticket: &Ticket) -> Ending {
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
            return Err(Stop::new(
                status,
                format!("released: {which}; the key may run again"),
            ));
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
        let mut words = vec!["semel", "resolve", "--store", &*self.store.store];
        words.extend(self.key.options());
        let command = crate::cli::quote::line(words);
        Err(Stop::new(
            status,
            format!(
                "in doubt: {why}; see what it did, then resolve with: {command} --value ... | --rerun"
            ),
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

/// A word of the command without loss: text as text, other bytes as an object, which no text is.
fn argument(word: &OsStr) -> Json {
    match word.to_str() {
        Some(text) => Json::from(text),
        None => json!({ "hex": cbor::hex(word.as_bytes()) }),
    }
}

/// Ends a line that a command left open, so that the last line of standard error is semel's.
fn end_line(open: bool) {
    if open {
        say("");
    }
}

fn warn_unwritten(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(format_args!(
                "semel: the kept output cannot be written: {error}"
            ));
        }
        _ => {}
    }
}
