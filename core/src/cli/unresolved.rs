//! `semel unresolved`: the records that wait for somebody to say whether they took effect.

use crate::cli::argument::StoreArg;
use crate::cli::exit::Ending;
use crate::cli::{list, place};

/// Lists the records in doubt, oldest first.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Unresolved {
    #[command(flatten)]
    store: StoreArg,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Unresolved {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        list::records(store.unresolved(self.limit)?.into_iter().map(Ok), self.json)
    }
}
