//! `semel unresolved`: the records that wait for somebody to say whether they took effect.

use crate::Info;
use crate::cli::argument::{KeyArgs, StoreArg};
use crate::cli::exit::Ending;
use crate::cli::output::print;
use crate::cli::{list, place, resolve};

/// Lists the records in doubt, oldest first, and then the commands that end their doubts.
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
        let found = store.unresolved(self.limit)?;
        let commands: Vec<String> = found.iter().map(|info| self.way_out(info)).collect();
        let ending = list::records(found.into_iter().map(Ok), self.json)?;
        if !self.json && !commands.is_empty() {
            print(format_args!("\n{}", commands.join("\n")))?;
        }
        Ok(ending)
    }

    fn way_out(&self, info: &Info) -> String {
        let key = KeyArgs {
            key: info.id.clone(),
            operation: info.operation.clone(),
            scope: info.scope.clone(),
        };
        resolve::command(&self.store.store, &key, info.fence)
    }
}
