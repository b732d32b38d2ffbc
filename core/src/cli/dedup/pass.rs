//! One pass over the input: each line is claimed, and goes out with its batch when it is the first of its key.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use serde::de::IgnoredAny;

use crate::cli::dedup::batch::Batch;
use crate::cli::dedup::lines::{Lines, MAX_LINE_BYTES, Next};
use crate::cli::dedup::progress::Progress;
use crate::cli::dedup::tally::Tally;
use crate::cli::dedup::{Dedup, OnError};
use crate::cli::exit::{self, Stop};
use crate::json::{bare, key};
use crate::{Claim, ErrorKind, Store, Ticket};

/// How much is read at once, in bytes.
const READ_BYTES: usize = 1024 * 1024;
/// How long a line waits for another run that holds its key: a dead one's lease is over by then.
const WAIT: Duration = Duration::from_secs(30);

/// Why a line went nowhere.
pub(super) enum Fault {
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

/// One pass over the input.
pub(super) struct Pass<'p> {
    pub(super) dedup: &'p Dedup,
    pub(super) store: &'p Store,
    pub(super) batch: Batch,
    pub(super) tally: Tally,
    pub(super) progress: Progress,
}

impl Pass<'_> {
    /// Reads to the end of the input, or to the first fault.
    pub(super) fn over(&mut self, input: BorrowedFd<'_>) -> Result<(), Stop> {
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
        let id = key(&self.dedup.key, text).map_err(Fault::Line)?;
        let payload = match self.dedup.no_payload {
            true => None,
            false if self.dedup.payload.is_whole() => Some(text),
            false => Some(self.dedup.payload.part(text).map_err(Fault::Line)?),
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
            ErrorKind::InvalidInput => {
                let text = error.to_string();
                let path = &self.dedup.key;
                Fault::Line(match text.strip_prefix("id ") {
                    Some(fault) => format!("key {path} {fault}"),
                    None => text,
                })
            }
            _ => Fault::Run(error.into()),
        })
    }

    fn first(&mut self, line: &[u8], id: String, ticket: Ticket) {
        self.tally.first += 1;
        self.batch.add(line, id, ticket);
    }
}

fn unreadable(error: io::Error) -> Stop {
    Stop::new(
        exit::INPUT_OUTPUT,
        format!("standard input cannot be read: {error}"),
    )
}
