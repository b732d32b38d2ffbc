//! `semel backup`: writes a store into one file.

use std::path::PathBuf;

use serde_json::json;

use crate::cli::argument::StoreArg;
use crate::cli::exit::{self, Ending};
use crate::cli::output::print;
use crate::cli::place;

/// Writes all records into one file, from which `semel restore` makes a store.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    store: StoreArg,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        let backup = store.backup(&self.to)?;
        match self.json {
            true => print(json!({ "blocks": backup.blocks, "bytes": backup.bytes }))?,
            false => print(format_args!(
                "wrote {} blocks, {} bytes, to {}",
                backup.blocks,
                backup.bytes,
                self.to.display()
            ))?,
        }
        Ok(exit::DONE)
    }
}
