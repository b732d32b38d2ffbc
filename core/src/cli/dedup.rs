//! `semel dedup`: passes on the first line of each key.

mod batch;
mod lines;
mod pass;
mod progress;
mod tally;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use self::batch::Batch;
use self::pass::Pass;
use self::progress::Progress;
use self::tally::Tally;
use crate::cli::argument::{StoreArg, Text};
use crate::cli::exit::{self, Ending};
use crate::cli::output::{Output, say};
use crate::duration;
use crate::json::Path;
use crate::{Durability, Identity, Policy, Request, Retain, Stopwatch, Store};

/// How long the claim of a line that a killed run left behind blocks it; renewed while this run lives.
const LEASE: Duration = Duration::from_secs(5);

/// Passes on the first line of each key, byte for byte, and leaves out its repeats, also those of earlier runs.
///
/// Lines are JSON (NDJSON). A line is marked after it was written: after a crash some lines are printed again, and none is
/// lost. A repeat whose payload differs is a mismatch: it is left out, counted, and ends with exit status 65.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Dedup {
    #[command(flatten)]
    store: StoreArg,
    /// Where a line has its key, a string or a number: `.id`, `.order.id`, `."odd name"`, `.items[0]`
    #[arg(long, value_name = "PATH", value_parser = Path::parse)]
    key: Path,
    /// What must be equal in a repeat
    #[arg(long, value_name = "PATH", default_value = ".", value_parser = Path::parse)]
    payload: Path,
    /// Compare nothing but the key
    #[arg(long, conflicts_with = "payload")]
    no_payload: bool,
    /// The name that the keys are kept under
    #[arg(long, value_name = "NAME", default_value = "dedup", value_parser = Text)]
    operation: String,
    /// Whose lines they are; the global scope when absent
    #[arg(long, value_name = "S", value_parser = Text)]
    scope: Option<String>,
    /// How long a key is remembered
    #[arg(long, value_name = "TIME", default_value = "forever", allow_hyphen_values = true, value_parser = duration::retain)]
    retain: Retain,
    /// What a broken line does: end with exit status 65, or be left out and counted
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    on_error: OnError,
}

/// What a broken line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnError {
    /// Ends the run
    Stop,
    /// Is left out and counted
    Skip,
}

impl Dedup {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = Store::open(&self.store.store)?;
        self.check(&store)?;
        let watch = Stopwatch::start();
        let mut pass = Pass {
            dedup: self,
            store: &store,
            batch: Batch::new(Output::stdout()?),
            tally: Tally::default(),
            progress: Progress::begin(),
        };
        let ending = pass.over(io::stdin().as_fd());
        pass.progress.end();
        let tally = pass.tally;
        say(tally.summary(watch.elapsed()));
        let closed = store.close();
        ending?;
        closed?;
        Ok(match (tally.mismatches, tally.in_doubt) {
            (0, 0) => exit::DONE,
            (0, _) => exit::IN_DOUBT,
            _ => exit::MISMATCH,
        })
    }

    /// Refuses names that no key can have, so that they are not blamed on the first line.
    fn check(&self, store: &Store) -> crate::Result<()> {
        let mut identity = Identity::new(&*self.operation, "any");
        if let Some(scope) = &self.scope {
            identity = identity.scope(scope);
        }
        store.lookup(&identity).map(|_| ())
    }

    fn request<'r>(
        &'r self,
        id: &'r str,
        payload: Option<&str>,
        wait: Duration,
    ) -> crate::Result<Request<'r>> {
        let mut request = Request::new(&*self.operation, id)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed)
            .lease(LEASE)
            .retain(self.retain)
            .wait(wait);
        if let Some(scope) = &self.scope {
            request = request.scope(scope);
        }
        match payload {
            Some(payload) => request.payload_json(payload.as_bytes()),
            None => Ok(request),
        }
    }
}
