//! `semel restore`: makes a store of a backup.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::argument::StoreArg;
use crate::cli::exit::{self, Ending};
use crate::cli::output::{print, say};

/// Makes a store of a backup, in a directory that has none.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    store: StoreArg,
    /// The file that semel backup wrote
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Restore {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let directory = self
            .store
            .store
            .strip_prefix("sled:")
            .unwrap_or(&self.store.store);
        let restored = crate::restore(&self.from, directory)?;
        match self.json {
            true => print(json!({ "blocks": restored.blocks, "bytes": restored.bytes }))?,
            false => print(format_args!(
                "restored {} blocks, {} bytes, into {directory}",
                restored.blocks, restored.bytes
            ))?,
        }
        say(
            "semel: keys that finished after the backup are unknown to this store, and would run again",
        );
        Ok(exit::DONE)
    }
}
