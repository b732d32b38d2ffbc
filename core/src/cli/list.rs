//! `semel list`: the records of a store.

use std::io::{self, Write};

use serde_json::Value as Json;

use crate::Info;
use crate::cli::argument::{StoreArg, Text};
use crate::cli::exit::{self, Ending};
use crate::cli::output::{Output, print, say};
use crate::cli::table::Table;
use crate::cli::{json, place};
use crate::duration;

/// Lists the records of a store, in no particular order.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    store: StoreArg,
    /// Only this operation
    #[arg(long, value_name = "NAME", value_parser = Text)]
    operation: Option<String>,
    /// Only this scope
    #[arg(long, value_name = "S", value_parser = Text)]
    scope: Option<String>,
    /// Only records in this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    state: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// The states of a record.
const STATES: [&str; 7] = [
    "running",
    "confirming",
    "in_doubt",
    "released",
    "succeeded",
    "failed",
    "gone",
];

/// The heading of a list of records.
const HEADING: [&str; 7] = [
    "STATE",
    "ATTEMPT",
    "FIRST RUN",
    "OPERATION",
    "SCOPE",
    "KEY",
    "NOTE",
];

impl List {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        let wanted = store
            .list()
            .filter(|info| info.as_ref().map_or(true, |info| self.wants(info)));
        let limit = usize::try_from(self.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        records(wanted.take(limit), self.json)
    }

    fn wants(&self, info: &Info) -> bool {
        let is = |wanted: &Option<String>, it: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| it == Some(wanted))
        };
        is(&self.operation, Some(&info.operation))
            && is(&self.scope, info.scope.as_deref())
            && is(&self.state, Some(info.state))
    }
}

/// Prints records: a JSON object a line, or a table.
pub(crate) fn records(records: impl Iterator<Item = crate::Result<Info>>, as_json: bool) -> Ending {
    if as_json {
        let mut out = io::BufWriter::new(Output::stdout()?);
        for info in records {
            writeln!(out, "{}", json::record(&info?))?;
        }
        out.flush()?;
        return Ok(exit::DONE);
    }
    let mut table = Table::new(Output::stdout()?, HEADING);
    let mut count = 0u64;
    for info in records {
        table.row(row(&info?))?;
        count += 1;
    }
    match count {
        0 => say("semel: no such record"),
        _ => table.end()?,
    }
    Ok(exit::DONE)
}

fn row(info: &Info) -> [String; 7] {
    [
        info.state.to_owned(),
        info.attempt.to_string(),
        duration::moment(info.first_executed_us),
        info.operation.clone(),
        info.scope.clone().unwrap_or_else(|| "-".to_owned()),
        info.id.clone(),
        note(info),
    ]
}

/// What else matters in a record's state.
fn note(info: &Info) -> String {
    match (&info.doubt, &info.failure, &info.value, info.lease_until_us) {
        (Some((since_us, why)), ..) => {
            format!("since {}, because {why}", duration::moment(*since_us))
        }
        (_, Some(failure), ..) => failure.to_string(),
        (_, _, Some(value), _) => shortened(json::value_line(value)),
        (_, _, _, Some(until_us)) => {
            format!("lease until {}{}", duration::moment(until_us), holder(info))
        }
        _ => String::new(),
    }
}

fn holder(info: &Info) -> String {
    info.holder
        .as_ref()
        .map_or_else(String::new, |holder| format!(", held by {holder}"))
}

/// The longest note of a list, in characters.
const NOTE_CHARS: usize = 60;

fn shortened(text: String) -> String {
    match text.char_indices().nth(NOTE_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// Prints one record: a JSON object, or a line for each thing known of it.
pub(crate) fn record(info: &Info, as_json: bool) -> Ending {
    if as_json {
        print(json::record(info))?;
        return Ok(exit::DONE);
    }
    let Json::Object(members) = json::record(info) else {
        return Ok(exit::DONE);
    };
    let mut table = Table::new(Output::stdout()?, ["state", info.state]);
    for (name, value) in members {
        let text = match value {
            Json::Null => continue,
            Json::Array(items) if items.is_empty() => continue,
            Json::String(_) if name == "state" => continue,
            Json::String(text) => text,
            _ if name == "doubt" || name == "failure" => note(info),
            _ if name == "fields" => info.fields.join(", "),
            _ if name == "value" => info
                .value
                .as_ref()
                .map(json::value_line)
                .unwrap_or_default(),
            other => other.to_string(),
        };
        table.row([name, text])?;
    }
    table.end()?;
    Ok(exit::DONE)
}
