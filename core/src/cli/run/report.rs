//! What `semel run` says on the last line of standard error, and the exit status that goes with it.

use crate::cli::argument::KeyArgs;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::{quote, resolve};
use crate::duration;
use crate::{Busy, Error, ErrorKind, Failed, Gone, InDoubt, Mismatch, Replay};

/// Exit statuses that a caller may move, when the command's own are the same.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Statuses {
    /// Exit status when somebody else is running it
    #[arg(long, value_name = "N", default_value_t = exit::BUSY)]
    busy_status: u8,
    /// Exit status when the key was first used with another command
    #[arg(long, value_name = "N", default_value_t = exit::MISMATCH)]
    mismatch_status: u8,
    /// Exit status when nobody knows whether it took effect
    #[arg(long, value_name = "N", default_value_t = exit::IN_DOUBT)]
    in_doubt_status: u8,
    /// Exit status when it was executed and its result is not kept any more
    #[arg(long, value_name = "N", default_value_t = exit::GONE)]
    gone_status: u8,
    /// Exit status when a failure is kept: attempts used up, or resolved so
    #[arg(long, value_name = "N", default_value_t = exit::FAILED)]
    failed_status: u8,
    /// Exit status when the store cannot serve
    #[arg(long, value_name = "N", default_value_t = exit::UNAVAILABLE)]
    unavailable_status: u8,
}

impl Statuses {
    /// An error of the store, before the command was run.
    pub(crate) fn error(&self, error: Error) -> Stop {
        match exit::status_of(&error) {
            exit::UNAVAILABLE => {
                let advice = match error.kind() {
                    ErrorKind::StoreLocked => "; or wait for it with --wait 1m",
                    _ => "",
                };
                Stop::new(
                    self.unavailable_status,
                    format!("unavailable: {error}{advice}"),
                )
            }
            status => Stop::new(status, exit::text_of(&error)),
        }
    }

    /// The command has ended and the store could not be told.
    pub(crate) fn unrecorded(&self, how: &str, error: &Error) -> Stop {
        let fate = "the key stays taken: a repeat gets this end if the disk has kept it, and is told that it is in doubt if not";
        Stop::new(
            self.unavailable_status,
            format!("executed, but not recorded: the command {how}, and {error}; {fate}"),
        )
    }

    pub(crate) fn busy(&self, busy: &Busy) -> Stop {
        let holder = busy.holder.as_deref().unwrap_or("somebody");
        let lease = busy
            .lease_remaining
            .map_or("without end".to_owned(), |left| {
                format!("for {} more", duration::readable(left))
            });
        let since = duration::moment(busy.since_us);
        let advice = format!(
            "ask again in {}, or wait with --wait 1m",
            duration::readable(busy.retry_after)
        );
        Stop::new(
            self.busy_status,
            format!(
                "busy: attempt {} runs since {since}, held by {holder} {lease}; {advice}",
                busy.attempt
            ),
        )
    }

    pub(crate) fn mismatch(&self, key: &KeyArgs, mismatch: &Mismatch, words: &[String]) -> Stop {
        let what = match mismatch.fields.is_empty() {
            true => "another command".to_owned(),
            false => format!("another command (other {})", mismatch.fields.join(" and ")),
        };
        let this = quote::line(words.iter().map(String::as_str));
        let advice = "take a new key for a new command, or repeat the first one";
        Stop::new(
            self.mismatch_status,
            format!(
                "mismatch: {} was first used with {what}, not with {this}; {advice}",
                key.named()
            ),
        )
    }

    pub(crate) fn in_doubt(&self, store: &str, key: &KeyArgs, doubt: &InDoubt) -> Stop {
        let since = duration::moment(doubt.since_us);
        let command = resolve::command(store, key, doubt.fence);
        let message = format!(
            "in doubt since {since}, because {}, resolve with: {command}",
            doubt.doubt
        );
        Stop::new(self.in_doubt_status, message)
    }

    pub(crate) fn gone(&self, gone: &Gone) -> Stop {
        let first = first_run(gone.first_executed_us, gone.attempt);
        Stop::new(
            self.gone_status,
            format!(
                "gone: it was executed ({first}), and its output and status are not kept any more"
            ),
        )
    }

    pub(crate) fn failed(&self, failed: &Failed) -> Stop {
        let first = first_run(failed.first_executed_us, failed.attempt);
        Stop::new(
            self.failed_status,
            format!("failed ({first}): {}", failed.failure),
        )
    }
}

/// A repeat got the first answer.
pub(crate) fn replayed(replay: &Replay, status: u8) -> Ending {
    Err(Stop::new(
        status,
        format!(
            "replayed ({})",
            first_run(replay.first_executed_us, replay.attempt)
        ),
    ))
}

/// The command was run, and its end is kept.
pub(crate) fn executed(attempt: u32, status: u8) -> Ending {
    let which = if attempt > 1 {
        format!(" (attempt {attempt})")
    } else {
        String::new()
    };
    Err(Stop::new(status, format!("executed{which}")))
}

fn first_run(first_executed_us: u64, attempt: u32) -> String {
    format!(
        "first run {}, attempt {attempt}",
        duration::moment(first_executed_us)
    )
}
