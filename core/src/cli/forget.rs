//! `semel forget`: makes a key absent.

use serde_json::json;

use crate::Forgotten;
use crate::cli::argument::{KeyArgs, StoreArg};
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::print;
use crate::cli::place;

/// Makes a key absent, so that its operation runs again. A key that is absent already is no failure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Forget {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    key: KeyArgs,
    /// The answer as one JSON object
    #[arg(long)]
    json: bool,
}

impl Forget {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        let forgotten = store.forget(&self.key.identity())?;
        let (name, status) = match forgotten {
            Forgotten::Forgotten => ("forgotten", exit::DONE),
            Forgotten::Absent => ("absent", exit::DONE),
            Forgotten::Busy => ("busy", exit::BUSY),
        };
        match forgotten {
            _ if self.json => print(json!({ "answer": name }))?,
            Forgotten::Busy => {
                return Err(Stop::new(
                    status,
                    format!(
                        "busy: {} is running; forget it once it has ended",
                        self.key.named()
                    ),
                ));
            }
            _ => print(format_args!("{name} {}", self.key.named()))?,
        }
        Ok(status)
    }
}
