//! The table: what was measured, beside whom, against which target, and what a crash costs each.

use std::fmt;

use crate::figures::Ratio;
use crate::ground::Ground;
use crate::outcome::Outcome;
use crate::questions::Question;
use crate::scale::Scale;

/// What a ratio must be.
#[derive(Clone, Copy)]
pub enum Target {
    /// Not above this.
    AtMost(f64),
    /// Not below this.
    AtLeast(f64),
    /// Told for comparison only.
    Told,
}

/// One comparison.
pub struct Line {
    /// What was done.
    pub series: String,
    /// What semel needed.
    pub semel: String,
    /// Whom it is compared with, and what that one needed.
    pub rival: String,
    /// semel over the rival.
    pub ratio: Ratio,
    /// What the ratio must be.
    pub target: Target,
    /// What a crash costs semel, then the rival.
    pub crash: [&'static str; 2],
}

/// The answer to one question.
#[derive(Default)]
pub struct Section {
    /// The comparisons.
    pub lines: Vec<Line>,
    /// What a reader needs to judge them.
    pub notes: Vec<String>,
}

/// What came out so far.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    missed: Vec<String>,
    unanswered: Vec<String>,
}

impl Target {
    fn met_by(self, ratio: Ratio) -> Option<bool> {
        match self {
            Self::AtMost(limit) => Some(ratio.median <= limit),
            Self::AtLeast(limit) => Some(ratio.median >= limit),
            Self::Told => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {limit}"),
            Self::AtLeast(limit) => write!(f, ">= {limit}"),
            Self::Told => Ok(()),
        }
    }
}

impl Tally {
    /// The section of one question as markdown; a question that failed gets one that says why.
    pub fn section(&mut self, question: Question, answer: Outcome<Section>) -> String {
        let mut text = format!("### {question}: {}\n\n", question.asks());
        match answer {
            Ok(section) => self.write(&mut text, question, section),
            Err(error) => {
                self.unanswered.push(question.to_string());
                text += &format!("UNANSWERED: {error}\n");
            }
        }
        text
    }

    fn write(&mut self, text: &mut String, question: Question, section: Section) {
        *text += "| series | semel | rival | ratio | target | | a crash costs semel | a crash costs the rival |\n";
        *text += "|---|---|---|---|---|---|---|---|\n";
        for Line {
            series,
            semel,
            rival,
            ratio,
            target,
            crash: [ours, theirs],
        } in section.lines
        {
            let verdict = match target.met_by(ratio) {
                Some(true) => {
                    self.passed += 1;
                    "PASS"
                }
                Some(false) => {
                    self.missed.push(format!(
                        "{question}: {series}: {:.2}, target {target}",
                        ratio.median
                    ));
                    "MISS"
                }
                None => "",
            };
            let row = format!(
                "| {series} | {semel} | {rival} | {ratio} | {target} | {verdict} | {ours} | {theirs} |\n"
            );
            *text += &row;
        }
        for note in section.notes {
            *text += &format!("\n{note}\n");
        }
    }

    /// An error when a question has no answer. A miss is an answer.
    pub fn verdict(&self) -> Outcome<()> {
        match self.unanswered.as_slice() {
            [] => Ok(()),
            some => Err(format!("unanswered: {}", some.join(", ")).into()),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missed, unanswered) = (self.missed.len(), self.unanswered.len());
        writeln!(
            f,
            "{} targets met, {missed} missed, {unanswered} questions unanswered.",
            self.passed
        )?;
        for miss in &self.missed {
            writeln!(f, "- MISS {miss}")?;
        }
        for question in &self.unanswered {
            writeln!(f, "- UNANSWERED {question}")?;
        }
        Ok(())
    }
}

/// A sentence on the machine and the size of the run.
pub fn machine(ground: &Ground, scale: Scale) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = first_value("/proc/cpuinfo", "model name");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (kernel, disk, size) = (kernel.trim(), ground.file_system(), scale.name());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "{cores} cores of {processor}, Linux {kernel}, {disk}; load before the run {load}, which should be near 0; \
         {size}. Ratios: median (lowest-highest)."
    )
}

fn first_value(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line
        .and_then(|line| line.split_once(':'))
        .map(|(_, value)| value.trim().to_owned());
    value.unwrap_or_else(|| "an unnamed processor".to_owned())
}
