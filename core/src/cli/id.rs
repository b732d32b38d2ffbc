//! `semel id`: ids that no other process gives out, a line each.

use std::io::{BufWriter, Write};

use clap::{Args, Subcommand};

use crate::cli::argument::Text;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::Output;
use crate::{Ids, Result, Store};

/// Prints ids that no other process gives out, one a line.
///
/// An id made anew for every try makes every try another operation: make it once, and send it with every retry.
#[derive(Clone, Debug, Args)]
pub(crate) struct Id {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Clone, Debug, Subcommand)]
enum Kind {
    /// Numbers of 63 bits, by time
    Snowflake {
        /// Directory or URL of the store that leases worker numbers; made when it is not there
        #[arg(long, value_name = "DIR", value_parser = Text)]
        store: String,
        #[command(flatten)]
        count: Count,
    },
    /// Small numbers from 1 up; some are left out
    Segment {
        /// Which sequence
        #[arg(value_name = "NAME", value_parser = Text)]
        name: String,
        /// Directory or URL of the store that counts; made when it is not there
        #[arg(long, value_name = "DIR", value_parser = Text)]
        store: String,
        #[command(flatten)]
        count: Count,
    },
    /// UUIDs of version 7 (RFC 9562), by time; they need no store
    Uuid7 {
        /// Directory or URL of a store whose time they take
        #[arg(long, value_name = "DIR", value_parser = Text, default_value = "memory:")]
        store: String,
        #[command(flatten)]
        count: Count,
    },
}

#[derive(Clone, Copy, Debug, Args)]
struct Count {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

impl Id {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        match &self.kind {
            Kind::Snowflake { store, count } => print(kept(store)?, *count, |ids| {
                ids.snowflake().map(|id| id.to_string())
            }),
            Kind::Segment { name, store, count } => print(kept(store)?, *count, |ids| {
                ids.segment(name).map(|id| id.to_string())
            }),
            Kind::Uuid7 { store, count } => print(store, *count, |ids| ids.uuid7()),
        }
    }
}

/// A store that outlives this process: numbers are unique by what it remembers.
fn kept(store: &str) -> Result<&str, Stop> {
    match store {
        "memory:" => Err(Stop::usage(
            "--store memory: forgets when this ends, so that the next would print the same; name a directory",
        )),
        store => Ok(store),
    }
}

fn print(store: &str, Count { count }: Count, next: impl Fn(Ids<'_>) -> Result<String>) -> Ending {
    let store = Store::open(store)?;
    let mut out = BufWriter::new(Output::stdout()?);
    for _ in 0..count {
        writeln!(out, "{}", next(store.ids())?)?;
    }
    out.flush()?;
    store.close()?;
    Ok(exit::DONE)
}
