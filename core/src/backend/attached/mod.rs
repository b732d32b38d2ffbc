//! Many processes on one machine, one store: one process owns it, and the others send it their calls over a socket.
//!
//! A frame is one call of the trait [`Backend`](crate::backend::Backend). Events carry nonces, so that a call whose answer
//! was lost is sent again, to the same owner or to the next, and answers the same. `docs/processes.md` tells the story.

use std::time::Duration;

mod asked;
mod bell;
mod calls;
mod client;
mod finding;
mod frame;
mod helpers;
mod holder;
mod hub;
mod late;
mod link;
mod owner;
mod porter;
mod remote;
mod server;
mod serving;
mod session;
mod socket;
mod wire;

pub(crate) use hub::Hub;

/// How long an owner may say nothing before it counts as stopped: it says every second that it is still at a call.
pub(crate) const OWNER_SILENCE: Duration = Duration::from_secs(5);
/// How often an owner says that it is still at a call.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a call looks for an owner, when one has ended and the next is not there yet.
const FINDING_PATIENCE: Duration = Duration::from_secs(10);
/// The same while somebody says that it is opening the store, which takes its time when the store is large.
const OPENING_PATIENCE: Duration = Duration::from_secs(60);
