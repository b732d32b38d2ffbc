//! The demo's worker: a process that a schedule starts, which asks for one operation and ends.

use std::net::SocketAddr;

use super::client::{Call, PATIENT};
use super::source::SOURCES;
use super::stage::runtime;
use crate::cli::argument::Text;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::print;

/// The first word of a worker that is done; the receipt and the answer's name follow, between tabs.
pub(super) const ANSWER: &str = "answer";

/// Asks for one operation of the demo.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Worker {
    /// Where the service is, or the proxy before it
    #[arg(long)]
    at: SocketAddr,
    #[arg(long, value_parser = Text)]
    operation: String,
    #[arg(long, value_parser = Text)]
    key: String,
}

impl Worker {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let known = SOURCES
            .iter()
            .find(|source| source.operation == self.operation);
        let Some(source) = known else {
            return Err(Stop::usage("the demo has no such operation"));
        };
        let call = Call::new(source.operation, self.key.clone());
        let answer = runtime()?.block_on(call.ask(self.at, PATIENT));
        print(format_args!(
            "{ANSWER}\t{}\t{}",
            answer.receipt.unwrap_or_default(),
            answer.name
        ))?;
        Ok(exit::DONE)
    }
}
