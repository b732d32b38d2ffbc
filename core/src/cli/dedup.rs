//! `semel dedup`: passes on the first line of each key.

mod batch;
mod lines;
mod path;
mod progress;
mod tally;

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::time::Duration;

use serde::de::IgnoredAny;

use self::batch::Batch;
use self::lines::{Lines, MAX_LINE_BYTES, Next};
use self::path::Path;
use self::progress::Progress;
use self::tally::Tally;
use crate::cli::argument::{StoreArg, Text};
use crate::cli::duration;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::{Output, say};
use crate::{
    Claim, Durability, ErrorKind, Policy, Request, Retain, Stopwatch, Store, Ticket, canonical,
};

/// How much is read at once, in bytes.
const READ_BYTES: usize = 1024 * 1024;
/// How long the claim of a line that a killed run left behind blocks it; renewed while this run lives.
const LEASE: Duration = Duration::from_secs(5);
/// How long a line waits for another run that holds its key: a dead one's lease is over by then.
const WAIT: Duration = Duration::from_secs(30);

/// Passes on the first line of each key, byte for byte, and leaves out its repeats, also those of earlier runs.
///
/// Lines are JSON (NDJSON). A line is marked after it was written: after a crash some lines are printed again, and none is
/// lost. A repeat whose payload differs is a mismatch: it is left out, counted, and ends with exit status 65.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Dedup {
    #[command(flatten)]
    store: StoreArg,
    /// Where a line has its key, a string or a number: .id, .order.id, ."odd name", .items[0]
    #[arg(long, value_name = "PATH", value_parser = Path::parse)]
    key: Path,
    /// What must be equal in a repeat
    #[arg(long, value_name = "PATH", default_value = ".", value_parser = Path::parse)]
    payload: Path,
    /// Compare nothing but the key
    #[arg(long, conflicts_with = "payload")]
    no_payload: bool,
    /// The name that the keys are kept under
    #[arg(long, value_name = "NAME", default_value = "dedup", value_parser = Text)]
    operation: String,
    /// Whose lines they are; the global scope when absent
    #[arg(long, value_name = "S", value_parser = Text)]
    scope: Option<String>,
    /// How long a key is remembered
    #[arg(long, value_name = "TIME", default_value = "forever", value_parser = duration::retain)]
    retain: Retain,
    /// What a broken line does: end with exit status 65, or be left out and counted
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_error: OnError,
}

/// What a broken line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// Ends the run
    Stop,
    /// Is left out and counted
    Skip,
}

/// Why a line went nowhere.
enum Fault {
    /// The line itself.
    Line(String),
    /// The store or the output.
    Run(Stop),
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Self {
        Self::Run(stop)
    }
}

impl Dedup {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = Store::open(&self.store.store)?;
        let watch = Stopwatch::start();
        let mut pass = Pass {
            dedup: self,
            store: &store,
            batch: Batch::new(Output::stdout()?),
            tally: Tally::default(),
            progress: Progress::begin(),
        };
        let ending = pass.over(io::stdin().as_fd());
        pass.progress.end();
        let tally = pass.tally;
        say(tally.summary(watch.elapsed()));
        let closed = store.close();
        ending?;
        closed?;
        Ok(match (tally.mismatches, tally.in_doubt) {
            (0, 0) => exit::DONE,
            (0, _) => exit::IN_DOUBT,
            _ => exit::MISMATCH,
        })
    }

    fn request<'r>(
        &'r self,
        id: &'r str,
        payload: Option<&str>,
        wait: Duration,
    ) -> crate::Result<Request<'r>> {
        let mut request = Request::new(&*self.operation, id)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed)
            .lease(LEASE)
            .retain(self.retain)
            .wait(wait);
        if let Some(scope) = &self.scope {
            request = request.scope(scope);
        }
        match payload {
            Some(payload) => request.payload_json(payload.as_bytes()),
            None => Ok(request),
        }
    }
}

/// One pass over the input.
struct Pass<'p> {
    dedup: &'p Dedup,
    store: &'p Store,
    batch: Batch,
    tally: Tally,
    progress: Progress,
}

impl Pass<'_> {
    fn over(&mut self, input: std::os::fd::BorrowedFd<'_>) -> Result<(), Stop> {
        let input = File::from(input.try_clone_to_owned().map_err(unreadable)?);
        let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, input));
        let mut line = Vec::new();
        loop {
            // What is here goes out before anything waits for more.
            if self.batch.is_full() || !lines.is_ready() {
                self.batch.print_and_mark()?;
                self.progress.show(lines.bytes(), &self.tally);
            }
            let taken = match lines.next(&mut line).map_err(unreadable)? {
                Next::End => return self.batch.print_and_mark(),
                Next::Line => self.take(lines.number(), &line),
                Next::TooLong(bytes) => {
                    self.tally.lines += 1;
                    Err(Fault::Line(format!(
                        "the line is {bytes} bytes long; at most {MAX_LINE_BYTES} are read"
                    )))
                }
            };
            match taken {
                Ok(()) => {}
                Err(Fault::Line(fault)) if self.dedup.on_error == OnError::Skip => {
                    self.tally.skip(&self.progress, lines.number(), &fault)
                }
                Err(Fault::Line(fault)) => {
                    self.batch.print_and_mark()?;
                    let advice = "correct the line, or leave such lines out with --on-error skip";
                    return Err(Stop::new(
                        exit::MISMATCH,
                        format!("line {}: {fault}; {advice}", lines.number()),
                    ));
                }
                Err(Fault::Run(stop)) => {
                    // What is claimed goes out if it still can; the first fault is the one that is told.
                    let _ = self.batch.print_and_mark();
                    return Err(Stop {
                        message: stop
                            .message
                            .map(|m| format!("line {}: {m}", lines.number())),
                        ..stop
                    });
                }
            }
        }
    }

    fn take(&mut self, number: u64, line: &[u8]) -> Result<(), Fault> {
        let text = std::str::from_utf8(line)
            .map_err(|e| Fault::Line(format!("byte {} is not UTF-8", e.valid_up_to() + 1)));
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.tally.lines += 1;
        let text = text?;
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|e| Fault::Line(format!("no JSON at column {}: {}", e.column(), bare(&e))))?;
        let id = key(&self.dedup.key, text)?;
        let payload = match self.dedup.no_payload {
            true => None,
            false if self.dedup.payload.is_whole() => Some(text),
            false => Some(part(&self.dedup.payload, text)?),
        };
        self.decide(number, line, id, payload, Duration::ZERO)
    }

    fn decide(
        &mut self,
        number: u64,
        line: &[u8],
        id: String,
        payload: Option<&str>,
        wait: Duration,
    ) -> Result<(), Fault> {
        match self.claim(&id, payload, wait)? {
            Claim::Execute(ticket) => self.first(line, id, ticket),
            Claim::Replay(_) | Claim::Gone(_) | Claim::Failed(_) => self.tally.repeats += 1,
            // The line it repeats waits in the same batch.
            Claim::Busy(_) if self.batch.has(&id) => self.tally.repeats += 1,
            Claim::Busy(_) if wait.is_zero() => {
                self.batch.print_and_mark()?;
                return self.decide(number, line, id, payload, WAIT);
            }
            Claim::Busy(busy) => {
                let holder = busy.holder.unwrap_or_else(|| "another run".to_owned());
                let advice = "end that run, then run again";
                return Err(Stop::new(
                    exit::BUSY,
                    format!("key {id:?} is held by {holder}; {advice}"),
                )
                .into());
            }
            Claim::Mismatch(mismatch) => {
                self.tally
                    .mismatch(&self.progress, number, &id, &mismatch.fields)
            }
            Claim::InDoubt(doubt) => self
                .tally
                .in_doubt(&self.progress, number, &id, &doubt.doubt),
            other => {
                return Err(Stop::unavailable(format!(
                    "the store answered {:?}, which nobody asked for",
                    other.name()
                ))
                .into());
            }
        }
        Ok(())
    }

    fn claim(&self, id: &str, payload: Option<&str>, wait: Duration) -> Result<Claim, Fault> {
        let claimed = self
            .dedup
            .request(id, payload, wait)
            .and_then(|request| self.store.claim(&request));
        claimed.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Fault::Line(error.to_string()),
            _ => Fault::Run(error.into()),
        })
    }

    fn first(&mut self, line: &[u8], id: String, ticket: Ticket) {
        self.tally.first += 1;
        self.batch.add(line, id, ticket);
    }
}

/// The id of a line: a string is itself, a number its canonical text, so that 1, 1.0 and 1e0 are one key.
///
/// A string that could be taken for a number, or for a quoted string, keeps its quotes: `"1"` and 1 are two keys.
fn key(path: &Path, line: &str) -> Result<String, Fault> {
    let found = part(path, line)?;
    if matches!(found.as_bytes().first(), Some(b'-' | b'0'..=b'9')) {
        let number = canonical(found.as_bytes())
            .map_err(|error| Fault::Line(format!("key {path}: {error}")))?;
        return String::from_utf8(number).map_err(|_| no_key(path, found));
    }
    if !found.starts_with('"') {
        return Err(no_key(path, found));
    }
    let text: String = serde_json::from_str(found)
        .map_err(|error| Fault::Line(format!("key {path}: {}", bare(&error))))?;
    let doubtful = text.starts_with('"') || is_number(&text);
    Ok(if doubtful {
        format!("\"{text}\"")
    } else {
        text
    })
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && canonical(text.as_bytes()).is_ok()
}

fn no_key(path: &Path, found: &str) -> Fault {
    let what = match found.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'n') => "null",
        _ => "a truth value",
    };
    Fault::Line(format!(
        "key {path} is {what}; a key is a string or a number"
    ))
}

fn part<'l>(path: &Path, line: &'l str) -> Result<&'l str, Fault> {
    match path.find(line) {
        Ok(Some(part)) => Ok(part),
        Ok(None) => Err(Fault::Line(format!("there is no {path}"))),
        Err(fault) => Err(Fault::Line(format!("{path}: {fault}"))),
    }
}

/// An error of the JSON reader without its place, which within one line is the column alone.
fn bare(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

fn unreadable(error: io::Error) -> Stop {
    Stop::new(
        exit::INPUT_OUTPUT,
        format!("standard input cannot be read: {error}"),
    )
}
