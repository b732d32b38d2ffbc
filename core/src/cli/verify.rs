//! `semel verify`: reads all that a store has on disk and says whether it is what was written.

use serde_json::json;

use crate::cli::argument::StoreArg;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::{print, say};
use crate::cli::place;

/// Reads everything on disk and checks it. Exit status 1 when something is wrong.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    store: StoreArg,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    /// Take a log that is shorter than it was for whole from now on: what is missing will run again
    #[arg(long)]
    accept_rollback: bool,
    /// Take the machine's clock for right although it is more than 366 days past the last time the store was written: what
    /// was to be forgotten by now is forgotten
    #[arg(long)]
    accept_clock: bool,
}

impl Verify {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing_with(&self.store.store, |builder| {
            let builder = match self.accept_rollback {
                true => builder.accept_rollback(),
                false => builder,
            };
            match self.accept_clock {
                true => builder.accept_clock(),
                false => builder,
            }
        })?;
        let found = store.verify()?;
        let sound = found.problems.is_empty();
        match self.json {
            true => {
                let (blocks, entries, live, bytes) =
                    (found.blocks, found.entries, found.live, found.bytes);
                print(
                    json!({ "sound": sound, "blocks": blocks, "entries": entries, "live": live, "bytes": bytes, "problems": found.problems }),
                )?;
            }
            false => print(format_args!(
                "checked {} blocks, {} bytes: {} entries, {} of them live",
                found.blocks, found.bytes, found.entries, found.live
            ))?,
        }
        if sound {
            return Ok(exit::DONE);
        }
        for problem in &found.problems {
            say(format_args!("semel: {problem}"));
        }
        let advice =
            "keep a copy of the directory, then restore the last backup with semel restore";
        Err(Stop::new(
            exit::FAILED,
            format!("{} problems were found; {advice}", found.problems.len()),
        ))
    }
}
