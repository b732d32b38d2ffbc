//! `semel resolve`: ends the doubt about a key.

use serde_json::json;

use crate::cli::argument::{KeyArgs, StoreArg, Text};
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::print;
use crate::cli::{cbor, lookup, place, quote};
use crate::{Failure, Resolution, Resolved, Value};

/// Ends the doubt about a key: it was done with this result, it failed, or it may run again.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("to").required(true)))]
pub(crate) struct Resolve {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    key: KeyArgs,
    /// It was done, with this result
    #[arg(long, value_name = "JSON", group = "to", allow_negative_numbers = true, value_parser = value)]
    value: Option<Value>,
    /// It was done, with these bytes as its result
    #[arg(long, value_name = "TEXT", group = "to", value_parser = Text)]
    value_bytes: Option<String>,
    /// It was done, and its result is unknown
    #[arg(long, group = "to")]
    executed: bool,
    /// It failed for good, with this code
    #[arg(long, value_name = "CODE", group = "to", requires = "message", value_parser = Text)]
    error: Option<String>,
    /// What the failure says to people
    #[arg(long, value_name = "M", requires = "error", conflicts_with_all = ["value", "value_bytes", "executed", "rerun"], value_parser = Text)]
    message: Option<String>,
    /// It was not done, or may be done twice: the next claim runs it
    #[arg(long, group = "to")]
    rerun: bool,
    /// Only while the doubt is about the attempt of this fence, as shown by lookup and unresolved
    #[arg(long, value_name = "N")]
    fence: Option<u64>,
    /// The answer as one JSON object
    #[arg(long)]
    json: bool,
}

impl Resolve {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        let identity = self.key.identity();
        let resolved = match self.fence {
            Some(fence) => store.resolve_attempt(&identity, fence, self.resolution())?,
            None => store.resolve(&identity, self.resolution())?,
        };
        let (name, status) = match resolved {
            Resolved::Resolved => ("resolved", exit::DONE),
            Resolved::NotInDoubt => ("not_in_doubt", exit::FAILED),
            Resolved::Absent => ("absent", exit::FAILED),
        };
        if self.json {
            print(json!({ "answer": name }))?;
            return Ok(status);
        }
        match resolved {
            Resolved::Resolved => print(format_args!("resolved {}", self.key.named()))?,
            Resolved::Absent => return Err(lookup::absent(&self.key)),
            Resolved::NotInDoubt => {
                let info = store.lookup(&identity)?;
                let state = info.as_ref().map_or("absent", |info| info.state);
                let message = match info {
                    Some(info) if info.state == "in_doubt" => format!(
                        "not that attempt: {} is in doubt about attempt {}, of fence {}; look into that one first",
                        self.key.named(),
                        info.attempt,
                        info.fence
                    ),
                    _ => format!(
                        "not in doubt: {} is {state}; only what is in doubt can be resolved",
                        self.key.named()
                    ),
                };
                return Err(Stop::new(status, message));
            }
        }
        Ok(status)
    }

    fn resolution(&self) -> Resolution {
        match (&self.value, &self.value_bytes, &self.error) {
            (Some(value), ..) => Resolution::Value(value.clone()),
            (_, Some(text), _) => Resolution::Value(Value::bytes(text.as_bytes())),
            (_, _, Some(code)) => {
                Resolution::Failure(Failure::new(code, self.message.clone().unwrap_or_default()))
            }
            _ if self.executed => Resolution::Executed,
            _ => Resolution::Rerun,
        }
    }
}

/// The command that ends the doubt about the attempt of this fence, to be completed by what is known of it.
pub(crate) fn command(store: &str, key: &KeyArgs, fence: u64) -> String {
    let options = key.options();
    let words = ["semel", "resolve", "--store", store]
        .into_iter()
        .chain(options.iter().map(String::as_str));
    format!(
        "{} --fence {fence} (--value JSON | --executed | --error CODE --message TEXT | --rerun)",
        quote::line(words)
    )
}

fn value(text: &str) -> Result<Value, String> {
    let json = serde_json::from_str(text).map_err(|error| {
        format!("no JSON: {error}; text goes between double quotes, or in --value-bytes")
    })?;
    Value::of(&cbor::from_json(json)?).map_err(|error| error.to_string())
}
