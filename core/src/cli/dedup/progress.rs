//! How far `semel dedup` is, on a terminal.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::dedup::tally::Tally;
use crate::cli::output::say;

/// A bar over the bytes of the input when their number is known, a count when it is not, and nothing when standard error
/// is no terminal or the lines go to the same one.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Begins at nothing.
    pub(crate) fn begin() -> Self {
        if !io::stderr().is_terminal() || io::stdout().is_terminal() {
            return Self(None);
        }
        let (bar, template) = match input_bytes() {
            Some(total) => (
                ProgressBar::new(total),
                "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {wide_msg}",
            ),
            None => (
                ProgressBar::no_length(),
                "{spinner} {bytes} {bytes_per_sec} {wide_msg}",
            ),
        };
        // Both templates are constants that parse; without one the bar keeps its default look.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(Some(bar))
    }

    /// Shows where it is.
    pub(crate) fn show(&self, bytes: u64, tally: &Tally) {
        if let Some(bar) = &self.0 {
            bar.set_position(bytes);
            bar.set_message(format!(
                "{} lines, {} first, {} repeats",
                tally.lines, tally.first, tally.repeats
            ));
        }
    }

    /// Says a line, above the bar if there is one.
    pub(crate) fn say(&self, line: impl std::fmt::Display) {
        match &self.0 {
            Some(bar) => bar.suspend(|| say(line)),
            None => say(line),
        }
    }

    /// Leaves the terminal as it was.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// How many bytes standard input has; `None` for what is no file.
fn input_bytes() -> Option<u64> {
    let input = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    input
        .metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
}
