//! `semel demo`: the six sources of duplicates, over real HTTP, with semel's proxy before the service and without.

mod answer;
mod click;
mod client;
mod folder;
mod gateway;
mod ledger;
mod process;
mod service;
mod source;
mod stage;
mod wire;
mod worker;

use self::answer::Answer;
use self::folder::Folder;
use self::ledger::Ledger;
pub(crate) use self::service::Serve;
use self::source::{SOURCES, Source};
use self::stage::{Stage, broken, runtime};
pub(crate) use self::worker::Worker;
use crate::cli::argument::Text;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::{Output, print};
use crate::cli::table::Table;

/// Runs the six sources of duplicates for real, against a service over HTTP, and counts their effects outside.
///
/// Each source means one effect. Its control is the same without semel: the clients ask the service itself. Exit status 1 when an
/// effect of semel's column is missing or doubled.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Demo {
    /// Directory or URL of the proxy's store; a temporary one when absent
    #[arg(long, value_name = "DIR", value_parser = Text)]
    store: Option<String>,
}

/// What one source did in one pass.
struct Played {
    answers: Vec<Answer>,
    effects: usize,
}

impl Demo {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        runtime()?.block_on(self.play())
    }

    async fn play(&self) -> Ending {
        let folder = Folder::make().map_err(|error| broken("no temporary folder", error))?;
        let inside = folder.path().join("store").to_string_lossy().into_owned();
        let ledger = |name: &str| Ledger::at(folder.path().join(name));
        let without = Stage::set(ledger("without.ledger"), None).await?;
        let store = self.store.as_ref().unwrap_or(&inside);
        let with = Stage::set(ledger("with.ledger"), Some(store)).await?;

        let heading = [
            "SOURCE",
            "CALLS",
            "EFFECTS WITHOUT SEMEL",
            "EFFECTS WITH SEMEL",
            "WHAT CLIENTS GOT WITH SEMEL",
        ];
        let mut table = Table::new(Output::stdout()?, heading);
        let (mut faults, mut total_without, mut total_with) = (Vec::new(), 0, 0);
        for source in &SOURCES {
            let (control, guarded) = (play(source, &without).await?, play(source, &with).await?);
            table.row(row(source, &control, &guarded))?;
            faults.extend(fault(source, &guarded));
            (total_without, total_with) = (
                total_without + control.effects,
                total_with + guarded.effects,
            );
        }
        table.end()?;
        without.clear().await?;
        with.clear().await?;
        if !faults.is_empty() {
            return Err(Stop::new(
                exit::FAILED,
                format!("not once: {}", faults.join("; ")),
            ));
        }
        let meant = SOURCES.len();
        print(format_args!(
            "{meant} effects were meant: {total_without} happened without semel, {total_with} with it."
        ))?;
        Ok(exit::DONE)
    }
}

async fn play(source: &Source, stage: &Stage) -> Result<Played, Stop> {
    let answers = (source.play)(stage, source.operation).await?;
    let receipts = stage
        .ledger
        .receipts(source.operation)
        .map_err(|error| broken("the ledger cannot be read", error))?;
    Ok(Played {
        answers,
        effects: receipts.len(),
    })
}

fn row(source: &Source, control: &Played, guarded: &Played) -> [String; 5] {
    let calls = match (control.answers.len(), guarded.answers.len()) {
        (without, with) if without == with => with.to_string(),
        (without, with) => format!("{without} / {with}"),
    };
    let answers: Vec<&str> = guarded
        .answers
        .iter()
        .map(|answer| answer.name.as_str())
        .collect();
    [
        source.name.to_owned(),
        calls,
        control.effects.to_string(),
        guarded.effects.to_string(),
        answers.join(", "),
    ]
}

/// What is wrong when a source had another number of effects than one, or its callers got different receipts.
fn fault(source: &Source, played: &Played) -> Option<String> {
    let mut receipts: Vec<&str> = played
        .answers
        .iter()
        .filter_map(|answer| answer.receipt.as_deref())
        .collect();
    let answered = receipts.len();
    receipts.dedup();
    match (played.effects, answered, receipts.len()) {
        (1, 1.., 1) => None,
        (1, 0, _) => Some(format!("{} never got its answer", source.name)),
        (1, ..) => Some(format!(
            "{} got {} different answers",
            source.name,
            receipts.len()
        )),
        (effects, ..) => Some(format!("{} had {effects} effects", source.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_effect_with_one_answer_is_no_fault() {
        type Case = (usize, &'static [Option<&'static str>], Option<&'static str>);
        let cases: [Case; 6] = [
            (1, &[Some("r1"), Some("r1")], None),
            (1, &[None, Some("r1")], None),
            (1, &[None], Some("never got")),
            (1, &[Some("r1"), Some("r2")], Some("2 different answers")),
            (2, &[Some("r1"), Some("r1")], Some("had 2 effects")),
            (0, &[Some("r1")], Some("had 0 effects")),
        ];
        for (effects, receipts, expect) in cases {
            let answers = receipts
                .iter()
                .map(|receipt| Answer {
                    name: String::new(),
                    receipt: receipt.map(str::to_owned),
                })
                .collect();
            let found = fault(&SOURCES[0], &Played { answers, effects });
            match expect {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.is_some_and(|fault| fault.contains(part)), "{part}"),
            }
        }
    }
}
