//! How a ticket ends, and what is done when that cannot be recorded.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::record::Doubt;
use crate::ticket::Ticket;
use crate::value::Value;

/// The pause before recording is tried again; the next ones are twice as long each, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often recording is tried again: for about ten minutes.
const MAX_TRIES: u32 = 125;

/// What the ticket is told.
pub(super) enum End {
    /// The answer is the operation's.
    Keep(Value),
    /// It was executed; its answer is not kept.
    Executed,
    /// Nothing happened.
    Release,
    /// Nobody knows.
    Doubt(Doubt),
}

impl End {
    pub(super) fn doubt(words: impl Into<String>) -> Self {
        Self::Doubt(Doubt::Stated(crate::run::bounded(words.into())))
    }

    /// Whether the client may know of the answer only when this is recorded.
    pub(super) fn comes_first(&self) -> bool {
        matches!(self, Self::Keep(_) | Self::Executed)
    }

    pub(super) async fn record(&self, ticket: &Ticket) -> Result<()> {
        match self {
            Self::Keep(value) => ticket.complete_value_async(value.clone()).await,
            Self::Executed => ticket.complete_nothing_async().await,
            Self::Release => ticket.release_async().await,
            Self::Doubt(doubt) => ticket.doubt_async(doubt.clone()).await,
        }
    }

    /// Tries again what could not be recorded, while the ticket goes on being renewed. If it never can be, the ticket is
    /// dropped, which leaves a doubt, now or at the end of its lease.
    pub(super) async fn insist(&self, ticket: &Ticket, mut error: Error) {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MAX_TRIES {
            if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
            match self.record(ticket).await {
                Ok(()) => return,
                Err(again) => error = again,
            }
        }
    }
}
