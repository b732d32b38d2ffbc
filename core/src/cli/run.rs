//! `semel run`: runs a command once; repeats get its output and exit status.

mod child;
mod execution;
mod outcome;
mod period;
mod repeat;
mod report;
mod signals;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde_json::{Value as Json, json};

pub(crate) use self::outcome::{Outcome, Stream};
use self::report::Statuses;
use crate::cli::argument::{KeyArgs, StoreArg};
use crate::cli::cbor;
use crate::cli::exit::{Ending, Stop};
use crate::cli::output::say;
use crate::duration;
use crate::{Claim, DEFAULT_RETAIN, Lease, Policy, Request, Result, Retain, Stopwatch, Store};

/// What a store keeps of one result unless told otherwise, in bytes.
const STORE_RESULT_BYTES: usize = 1024 * 1024;
/// The most output that `--max-output` takes, in bytes: a store keeps results of at most 4 MiB.
const MAX_OUTPUT_BYTES: usize = 4 * STORE_RESULT_BYTES - outcome::OVERHEAD_BYTES;

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
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true, value_parser = duration::lease)]
    lease: Lease,
    /// Run it once in each such period, aligned to UTC: the key is that of the present period
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    every: Option<Duration>,
    /// How long repeats get the output and status, `24h` unless given, and two periods of `--every`; `forever` is allowed
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::retain)]
    retain: Option<Retain>,
    /// How long after that the bare fact is kept
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true, value_parser = duration::parse)]
    remember: Duration,
    /// How long to wait for another run of the same key, or for one that holds the store
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true, value_parser = duration::parse)]
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
        if self.store.store == "memory:" {
            return Err(Stop::usage(
                "--store memory: forgets when this run ends, so every run would be the first; name a directory",
            ));
        }
        if self.max_output > MAX_OUTPUT_BYTES {
            return Err(Stop::usage(format!(
                "--max-output is at most {MAX_OUTPUT_BYTES} bytes; write larger output to a file"
            )));
        }
        let waiting = Stopwatch::start();
        let store = self.open().map_err(|error| self.statuses.error(error))?;
        let patient = Self {
            wait: self.wait.saturating_sub(waiting.elapsed()),
            ..self.clone()
        };
        let ending = match self.every {
            None => patient.claim(&store),
            Some(every) => match patient.of_period(&store, every) {
                Ok(run) => run.claim(&store),
                Err(error) => Err(self.statuses.error(error)),
            },
        };
        // What was answered is durable already; nothing that could still go wrong changes it.
        let _ = store.close();
        ending
    }

    fn open(&self) -> Result<Store> {
        let result_bytes = STORE_RESULT_BYTES.max(self.max_output + outcome::OVERHEAD_BYTES);
        let mut builder = Store::builder(&self.store.store).max_result_bytes(result_bytes);
        if self.wait > Duration::ZERO {
            builder = builder.lock_timeout(self.wait);
        }
        builder.open()
    }

    fn claim(&self, store: &Store) -> Ending {
        let request = self.request().map_err(|error| self.statuses.error(error))?;
        match store
            .claim(&request)
            .map_err(|error| self.statuses.error(error))?
        {
            Claim::Execute(ticket) => self.execute(&ticket),
            Claim::Replay(replay) => repeat::replay(&replay),
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
            .retain(self.retain.unwrap_or(Retain::For(DEFAULT_RETAIN)))
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
}

/// A word of the command without loss: text as text, other bytes as an object, which no text is.
fn argument(word: &OsStr) -> Json {
    match word.to_str() {
        Some(text) => Json::from(text),
        None => json!({ "hex": cbor::hex(word.as_bytes()) }),
    }
}
