//! How the command ends: the exit statuses of the contract, and the one type that carries them with their message.

use std::io;

use crate::{Error, ErrorKind};

/// Done, or replayed.
pub(crate) const DONE: u8 = 0;
/// It was done and failed, or what was asked about is not there.
pub(crate) const FAILED: u8 = 1;
/// The command line cannot be used.
pub(crate) const USAGE: u8 = 64;
/// The key was first used with another payload, or a line of the input is broken.
pub(crate) const MISMATCH: u8 = 65;
/// The store cannot serve.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Nobody knows whether the work took effect.
pub(crate) const IN_DOUBT: u8 = 73;
/// Reading the input or writing the output failed.
pub(crate) const INPUT_OUTPUT: u8 = 74;
/// Somebody else is running it.
pub(crate) const BUSY: u8 = 75;
/// It was executed; its result is not kept any more.
pub(crate) const GONE: u8 = 76;
/// The command to run cannot be started.
pub(crate) const CANNOT_START: u8 = 126;
/// The command to run was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a command.
pub(crate) const BY_SIGNAL: u8 = 128;

/// Why the command ends now: its exit status and what is said on standard error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) status: u8,
    /// `None` when there is nothing left to say, or nobody left to hear it.
    pub(crate) message: Option<String>,
}

/// How a subcommand ends: an exit status, or a status with a message.
pub(crate) type Ending = Result<u8, Stop>;

impl Stop {
    pub(crate) fn new(status: u8, message: impl Into<String>) -> Self {
        Self {
            status,
            message: Some(message.into()),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }
}

/// The exit status of an error of the store.
pub(crate) fn status_of(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::Unsupported => USAGE,
        _ => UNAVAILABLE,
    }
}

/// What an error says, in the words of the command line: there an id is the `--key`.
pub(crate) fn text_of(error: &Error) -> String {
    let text = error.to_string();
    match text.strip_prefix("id ") {
        Some(fault) if error.kind() == ErrorKind::InvalidInput => format!("--key {fault}"),
        _ => text,
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::new(status_of(&error), text_of(&error))
    }
}

impl From<io::Error> for Stop {
    /// A reader that went away (`semel list | head`) has seen enough: that is no failure.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self {
                status: DONE,
                message: None,
            },
            _ => Self::new(
                INPUT_OUTPUT,
                format!("standard output cannot be written: {error}; free its disk and repeat"),
            ),
        }
    }
}
