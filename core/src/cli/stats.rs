//! `semel stats`: what a store holds and what it answered.

use serde_json::{Value as Json, json};

use crate::cli::argument::StoreArg;
use crate::cli::exit::{self, Ending};
use crate::cli::output::{Output, print};
use crate::cli::place;
use crate::cli::table::Table;
use crate::duration;
use crate::{OperationStats, Stats, rfc3339};

/// Shows what a store holds. Counts of answers belong to the process that gave them; this one has given none yet.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ShowStats {
    #[command(flatten)]
    store: StoreArg,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    /// As Prometheus text
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

impl ShowStats {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let store = place::existing(&self.store.store)?;
        if self.prometheus {
            print(store.metrics().trim_end())?;
            return Ok(exit::DONE);
        }
        let stats = store.stats();
        if self.json {
            print(object(&stats))?;
            return Ok(exit::DONE);
        }
        let mut table = Table::new(Output::stdout()?, ["records", &stats.records.to_string()]);
        table.row(["unresolved".to_owned(), stats.unresolved.to_string()])?;
        if let Some(oldest_us) = stats.oldest_unresolved_us {
            table.row(["oldest unresolved".to_owned(), duration::moment(oldest_us)])?;
        }
        table.row(["swept".to_owned(), stats.swept.to_string()])?;
        for (topic, failures) in &stats.blocked_topics {
            table.row([
                format!("topic {topic} blocked, tries"),
                failures.to_string(),
            ])?;
        }
        for (name, counts) in &stats.operations {
            for (what, count) in counts.counts().filter(|(_, count)| *count > 0) {
                table.row([format!("{name} {what}"), count.to_string()])?;
            }
        }
        table.end()?;
        Ok(exit::DONE)
    }
}

fn object(stats: &Stats) -> Json {
    let operation = |counts: &OperationStats| {
        let mut members: serde_json::Map<String, Json> = counts
            .counts()
            .map(|(name, count)| (name.to_owned(), Json::from(count)))
            .collect();
        members.insert(
            "interception_rate".to_owned(),
            json!(counts.interception_rate()),
        );
        members.insert("hit_rate".to_owned(), json!(counts.hit_rate()));
        Json::Object(members)
    };
    let operations: serde_json::Map<String, Json> = stats
        .operations
        .iter()
        .map(|(name, counts)| (name.clone(), operation(counts)))
        .collect();
    json!({
        "records": stats.records,
        "unresolved": stats.unresolved,
        "oldest_unresolved": stats.oldest_unresolved_us.map(rfc3339),
        "swept": stats.swept,
        "blocked_topics": stats.blocked_topics,
        "operations": operations,
    })
}
