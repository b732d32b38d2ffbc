//! The six sources of duplicates, by name.

use crate::cli::demo::guard::Answer;
use crate::cli::demo::stage::Stage;
use crate::cli::demo::{click, process, wire};
use crate::cli::exit::Stop;

/// One way in which a thing that is meant once is asked for again.
pub(super) struct Source {
    /// What people call it.
    pub(super) name: &'static str,
    /// The operation that it asks for.
    pub(super) operation: &'static str,
    /// Plays it, and tells what each call was answered.
    pub(super) play: fn(&Stage, &str) -> Result<Vec<Answer>, Stop>,
}

/// All six.
pub(super) const SOURCES: [Source; 6] = [
    Source {
        name: "double click",
        operation: "demo.click",
        play: click::double,
    },
    Source {
        name: "client retry after a lost answer",
        operation: "demo.retry",
        play: wire::lost_answer,
    },
    Source {
        name: "message redelivered, worker killed",
        operation: "demo.message",
        play: process::redelivery,
    },
    Source {
        name: "RPC resent on a time-out",
        operation: "demo.rpc",
        play: wire::resend,
    },
    Source {
        name: "schedule firing in two processes",
        operation: "demo.schedule",
        play: process::schedule,
    },
    Source {
        name: "form sent again after going back",
        operation: "demo.form",
        play: click::form,
    },
];
