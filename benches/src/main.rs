//! Measures semel beside its rivals: the same keys, the same results, in the same run, and prints one markdown table.
//!
//! `cargo run --release -p semel-benches -- [question...] [--quick]`; without a question, all of them. Every series
//! is repeated in turns (A B C A B C ...), and every ratio is the median of the ratios of one turn, so that a machine
//! that slows down for a while slows all of them. Data lies below one temporary directory on a real disk, which is
//! removed at the end whatever happened.

mod child;
mod figures;
mod ground;
mod key;
mod outcome;
mod process;
mod questions;
mod report;
mod rivals;
mod scale;
mod subject;

use clap::Parser;

use crate::ground::Ground;
use crate::outcome::Outcome;
use crate::questions::Question;
use crate::report::Tally;
use crate::scale::Scale;

/// Measures semel beside its rivals and prints a markdown table.
#[derive(Parser)]
#[command(name = "semel-benches")]
struct Arguments {
    /// The questions to answer; all of them when none is named.
    #[arg(value_enum)]
    questions: Vec<Question>,
    /// A tenth of the work: to see that the harness runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// A job of a process that the harness starts for itself.
    #[arg(long, hide = true, num_args = 1.., allow_hyphen_values = true)]
    child: Vec<String>,
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    if let Some((job, rest)) = arguments.child.split_first() {
        return child::work(job, rest);
    }
    let scale = Scale::new(arguments.quick);
    let ground = Ground::prepare()?;
    let questions = match arguments.questions.as_slice() {
        [] => Question::all(),
        named => named.to_vec(),
    };
    println!("{}\n", report::machine(&ground, scale));
    let mut tally = Tally::default();
    for question in questions {
        eprintln!("{question}: measuring ...");
        let answer = question.answer(&ground, scale);
        println!("{}", tally.section(question, answer));
        ground.clear();
    }
    println!("{tally}");
    tally.verdict()
}
