//! The answer to a claim in public words.

use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Busy, Claim, Failed, Gone, InDoubt, Mismatch, Replay};
use crate::backend::Decided;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::lifecycle::Answer;
use crate::record::{Doubt, Record, State};
use crate::request::Request;
use crate::stats::Counters;
use crate::ticket::Ticket;
use crate::time::NEVER_US;

impl Engine {
    /// The claim's answer, and the ticket if it is to be executed.
    pub(crate) fn answer(
        self: &Arc<Self>,
        request: &Request<'_>,
        key: &Key,
        decided: Decided,
        twin: Option<String>,
        counters: &Arc<Counters>,
    ) -> Result<Claim> {
        let Decided { answer, record } = decided;
        let record = match (&answer, record) {
            (_, Some(record)) => record,
            (Answer::Busy { retry_after_us }, None) => {
                return Ok(Claim::Busy(self.in_line(*retry_after_us)));
            }
            (_, None) => {
                return Err(Error::corrupt(
                    "the store answered a claim without a record; report this",
                ));
            }
        };
        let (attempt, first_executed_us) = (record.attempt, record.first_us);
        Ok(match answer {
            Answer::Execute { takeover } => Claim::Execute(Ticket::new(
                self,
                key.clone(),
                &record,
                takeover,
                twin,
                request,
                Arc::clone(counters),
            )),
            Answer::Replay(value) => Claim::Replay(Replay {
                value,
                attempt,
                fence: record.fence,
                first_executed_us,
                twin,
            }),
            Answer::Failed(failure) => Claim::Failed(Failed {
                failure,
                attempt,
                first_executed_us,
            }),
            Answer::Busy { retry_after_us } => Claim::Busy(self.busy(&record, retry_after_us)),
            Answer::Mismatch { fields } => Claim::Mismatch(Mismatch {
                fields,
                attempt,
                first_executed_us,
            }),
            Answer::InDoubt { since_us, doubt } | Answer::Ask { since_us, doubt } => {
                Claim::InDoubt(self.in_doubt_answer(request, &record, since_us, doubt))
            }
            Answer::Gone => Claim::Gone(Gone {
                attempt,
                first_executed_us,
            }),
            other => {
                return Err(Error::corrupt(format!(
                    "the store answered a claim with {other:?}; report this"
                )));
            }
        })
    }

    fn busy(&self, record: &Record, retry_after_us: u64) -> Busy {
        let lease_until_us = match record.state {
            State::Running { lease_until_us } => Some(lease_until_us).filter(|us| *us != NEVER_US),
            State::Confirming { until_us, .. } => Some(until_us),
            _ => Some(0),
        };
        Busy {
            attempt: record.attempt,
            first_executed_us: record.first_us,
            since_us: record.claimed_us,
            lease_remaining: lease_until_us
                .map(|us| Duration::from_micros(us.saturating_sub(self.now_us()))),
            holder: record.holder.label.as_deref().map(str::to_owned),
            retry_after: Duration::from_micros(retry_after_us),
        }
    }

    /// Nobody runs it, but somebody who waited is about to.
    fn in_line(&self, retry_after_us: u64) -> Busy {
        let now_us = self.now_us();
        Busy {
            attempt: 0,
            first_executed_us: now_us,
            since_us: now_us,
            lease_remaining: Some(Duration::ZERO),
            holder: None,
            retry_after: Duration::from_micros(retry_after_us),
        }
    }

    fn in_doubt_answer(
        &self,
        request: &Request<'_>,
        record: &Record,
        since_us: u64,
        doubt: Doubt,
    ) -> InDoubt {
        let way_out = match self.place() {
            "memory:" => "Store::resolve, in this process".to_owned(),
            place => {
                let scope = request
                    .scope
                    .text()
                    .map(|scope| option("scope", scope))
                    .unwrap_or_default();
                format!(
                    "semel resolve{}{}{}{scope} --fence {} (--value JSON | --executed | --error CODE --message TEXT | --rerun)",
                    option("store", place),
                    option("operation", &request.operation),
                    option("key", &request.id),
                    record.fence,
                )
            }
        };
        let message = format!(
            "attempt {} of {} may have taken effect: since {}, {doubt}. Find out, then resolve it: {way_out}",
            record.attempt,
            request.operation,
            crate::moment::rfc3339(since_us),
        );
        InDoubt {
            since_us,
            doubt,
            attempt: record.attempt,
            fence: record.fence,
            first_executed_us: record.first_us,
            message,
        }
    }
}

/// An option with its value; one that begins as an option does is joined to it, or the command would take it for one.
fn option(name: &str, value: &str) -> String {
    let joint = if value.starts_with('-') { '=' } else { ' ' };
    format!(" --{name}{joint}{}", quoted(value))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c));
    if plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
