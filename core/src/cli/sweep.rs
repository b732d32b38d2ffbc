//! `semel sweep`: frees what has expired, now.

use serde_json::json;

use crate::cli::argument::StoreArg;
use crate::cli::exit::{self, Ending};
use crate::cli::output::print;
use crate::cli::place;

/// Frees what has expired. Stores that are open do it by themselves.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    store: StoreArg,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Sweep {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        let swept = store.sweep()?;
        store.close()?;
        match self.json {
            true => print(json!({ "swept": swept }))?,
            false => print(format_args!("swept {swept} records"))?,
        }
        Ok(exit::DONE)
    }
}
