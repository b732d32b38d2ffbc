//! Lines that are claimed and not yet marked: printed first, marked after, so that a crash prints again and never loses.

use std::collections::HashSet;
use std::io::{self, Write};

use crate::cli::exit::{self, Stop};
use crate::cli::output::Output;
use crate::{Ticket, Value};

/// The most lines of a batch.
const MAX_LINES: usize = 8192;
/// The most bytes of a batch, but for one line that is longer.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// First occurrences on their way out.
pub(crate) struct Batch {
    to: Output,
    text: Vec<u8>,
    tickets: Vec<Ticket>,
    ids: HashSet<String>,
    /// What a mark keeps: nothing, since a repeat prints nothing.
    mark: Value,
}

impl Batch {
    /// An empty batch that prints to `to`.
    pub(crate) fn new(to: Output) -> Self {
        Self {
            to,
            text: Vec::new(),
            tickets: Vec::new(),
            ids: HashSet::new(),
            mark: Value::bytes([]),
        }
    }

    /// Adds a line whose key was claimed by `ticket`.
    pub(crate) fn add(&mut self, line: &[u8], id: String, ticket: Ticket) {
        self.text.extend_from_slice(line);
        self.ids.insert(id);
        self.tickets.push(ticket);
    }

    /// Whether a line of this key is in it.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Whether it has to go out before more comes in.
    pub(crate) fn is_full(&self) -> bool {
        self.tickets.len() >= MAX_LINES || self.text.len() >= MAX_BYTES
    }

    /// Prints the lines, makes that last, and then marks them.
    pub(crate) fn print_and_mark(&mut self) -> Result<(), Stop> {
        if self.tickets.is_empty() {
            return Ok(());
        }
        let printed = self
            .to
            .write_all(&self.text)
            .and_then(|()| self.to.settle());
        if let Err(error) = printed {
            return Err(self.give_back(&error));
        }
        for ticket in self.tickets.drain(..) {
            ticket.complete_value(self.mark.clone()).map_err(|error| {
                Stop::new(exit::status_of(&error), format!("lines were printed and could not be marked: {error}; run again, and expect them again"))
            })?;
        }
        self.text.clear();
        self.text.shrink_to(MAX_BYTES);
        self.ids.clear();
        Ok(())
    }

    /// Gives the keys of lines that nobody is known to have got back, so that the next run prints them.
    fn give_back(&mut self, error: &io::Error) -> Stop {
        let lines = self.tickets.len();
        for ticket in self.tickets.drain(..) {
            // What cannot be released lapses with its lease, and is printed again just the same.
            let _ = ticket.release();
        }
        let why = match error.kind() {
            io::ErrorKind::BrokenPipe => "the reader of standard output went away".to_owned(),
            _ => format!("standard output cannot be written: {error}"),
        };
        Stop::new(
            exit::INPUT_OUTPUT,
            format!("{why}; the last {lines} lines are not marked, and the next run prints them"),
        )
    }
}
