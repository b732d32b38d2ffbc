//! What `semel dedup` counts, and what it says of single lines.

use std::fmt;
use std::time::Duration;

use crate::cli::dedup::progress::Progress;

/// How many lines of one kind are named; the others are counted only.
const MAX_NAMED: u64 = 10;

/// Counts of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Lines with something on them.
    pub(crate) lines: u64,
    pub(crate) first: u64,
    pub(crate) repeats: u64,
    pub(crate) mismatches: u64,
    pub(crate) in_doubt: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// A line whose key was seen with another payload.
    pub(crate) fn mismatch(&mut self, to: &Progress, number: u64, key: &str, fields: &[String]) {
        self.mismatches += 1;
        let which = if fields.is_empty() {
            String::new()
        } else {
            format!(" (other {})", fields.join(", "))
        };
        name(
            to,
            self.mismatches,
            number,
            format_args!("key {key:?} was first seen with another payload{which}; left out"),
        );
    }

    /// A line whose key another program left in doubt.
    pub(crate) fn in_doubt(
        &mut self,
        to: &Progress,
        number: u64,
        key: &str,
        why: impl fmt::Display,
    ) {
        self.in_doubt += 1;
        name(
            to,
            self.in_doubt,
            number,
            format_args!(
                "key {key:?} is in doubt, {why}; left out until semel resolve ends the doubt"
            ),
        );
    }

    /// A broken line that was passed over.
    pub(crate) fn skip(&mut self, to: &Progress, number: u64, fault: &str) {
        self.skipped += 1;
        name(to, self.skipped, number, format_args!("{fault}; skipped"));
    }

    /// Everything on one line.
    pub(crate) fn summary(&self, took: Duration) -> String {
        let seconds = took.as_secs_f64().max(1e-6);
        format!(
            "semel: {} lines: {} first, {} repeats, {} mismatches, {} in doubt, {} skipped; {seconds:.2} s, {:.0} per second",
            self.lines,
            self.first,
            self.repeats,
            self.mismatches,
            self.in_doubt,
            self.skipped,
            self.lines as f64 / seconds
        )
    }
}

fn name(to: &Progress, count: u64, number: u64, what: fmt::Arguments<'_>) {
    if count <= MAX_NAMED {
        to.say(format_args!("semel: line {number}: {what}"));
    }
    if count == MAX_NAMED {
        to.say("semel: more of this kind are counted, and not named");
    }
}
