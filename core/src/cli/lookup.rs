//! `semel lookup`: what is known of one key.

use crate::cli::argument::{KeyArgs, StoreArg};
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::{list, place};

/// Shows what is known of one key. Exit status 1 when it is not there.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Lookup {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    key: KeyArgs,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Lookup {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        match store.lookup(&self.key.identity())? {
            Some(info) => list::record(&info, self.json),
            None => Err(absent(&self.key)),
        }
    }
}

/// There is no such record.
pub(crate) fn absent(key: &KeyArgs) -> Stop {
    let advice = "see what is there with semel list, and name its --operation and --scope";
    Stop::new(
        exit::FAILED,
        format!("absent: the store knows no {}; {advice}", key.named()),
    )
}
