//! The six sources of duplicates, by name.

use std::future::Future;
use std::pin::Pin;

use super::answer::Answer;
use super::stage::Stage;
use super::{click, process, wire};
use crate::cli::exit::Stop;

/// What each call was answered, when a source has played.
type Playing<'s> = Pin<Box<dyn Future<Output = Result<Vec<Answer>, Stop>> + 's>>;

/// One way in which a thing that is meant once is asked for again.
pub(super) struct Source {
    /// What people call it.
    pub(super) name: &'static str,
    /// The operation that it asks for, and the path of the service.
    pub(super) operation: &'static str,
    /// Plays it, and tells what each call was answered.
    pub(super) play: for<'s> fn(&'s Stage, &'static str) -> Playing<'s>,
}

/// All six.
pub(super) const SOURCES: [Source; 6] = [
    Source {
        name: "double click",
        operation: "demo.click",
        play: |stage, operation| Box::pin(click::double(stage, operation)),
    },
    Source {
        name: "client retry, gateway lost the answer",
        operation: "demo.retry",
        play: |stage, operation| Box::pin(wire::lost_answer(stage, operation)),
    },
    Source {
        name: "message redelivered, service killed",
        operation: "demo.message",
        play: |stage, operation| Box::pin(process::redelivery(stage, operation)),
    },
    Source {
        name: "RPC resent on a time-out",
        operation: "demo.rpc",
        play: |stage, operation| Box::pin(wire::resend(stage, operation)),
    },
    Source {
        name: "schedule firing in two processes",
        operation: "demo.schedule",
        play: |stage, operation| Box::pin(process::schedule(stage, operation)),
    },
    Source {
        name: "form sent again after going back",
        operation: "demo.form",
        play: |stage, operation| Box::pin(click::form(stage, operation)),
    },
];
