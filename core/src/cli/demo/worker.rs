//! The demo's worker: a process that handles one message, and that can be killed between the effect and the word of it.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::argument::Text;
use crate::cli::demo::guard::{Call, Guard};
use crate::cli::demo::ledger::Ledger;
use crate::cli::demo::stage::Stage;
use crate::cli::exit::{self, Ending};
use crate::cli::output::print;

/// The word of a worker that has had the effect and waits to be killed.
pub(super) const EFFECT: &str = "effect";
/// The first word of a worker that is done; the answer's name and the receipt follow.
pub(super) const ANSWER: &str = "answer";

/// Handles one message of the demo.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Worker {
    /// The store; without one the effect is unguarded
    #[arg(long, value_parser = Text)]
    store: Option<String>,
    #[arg(long)]
    ledger: PathBuf,
    #[arg(long, value_parser = Text)]
    operation: String,
    #[arg(long, value_parser = Text)]
    key: String,
    #[arg(long)]
    lease_ms: u64,
    /// Stay between the effect and the answer
    #[arg(long)]
    linger: bool,
}

impl Worker {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let stage = Stage {
            store: self.store.clone(),
            ledger: Ledger::at(&self.ledger),
            pass: String::new(),
        };
        let guard = stage.guard()?;
        let call = Call {
            operation: &self.operation,
            key: &self.key,
            lease: Duration::from_millis(self.lease_ms),
        };
        let answer = guard.call(&call, || {
            let receipt = stage.charge(&self.operation, &self.key)?;
            if self.linger {
                print(EFFECT)?;
                // Until the kill, or the end of a parent that died first.
                let _ = io::stdin().read(&mut [0]);
            }
            Ok(receipt)
        })?;
        if let Guard::On(store) = guard {
            store.close()?;
        }
        print(
            format_args!(
                "{ANSWER} {} {}",
                answer.name,
                answer.receipt.unwrap_or_default()
            )
            .to_string()
            .trim_end(),
        )?;
        Ok(exit::DONE)
    }
}
