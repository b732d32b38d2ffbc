//! A sidecar that gives any service of HTTP idempotency, with no change to it.
//!
//! ```text
//! clients -> HTTP/1.1, HTTP/2 -> IdempotencyLayer -> HTTP/1.1 -> the service
//! ```
//!
//! Nothing is judged here: which requests are guarded, what is kept and what a repeat is answered is the affair of the
//! [layer](super::IdempotencyLayer). Here requests and answers are carried, and it is said how that ended. `docs/proxy.md` tells
//! users.

mod admin;
mod body;
mod config;
mod fault;
mod fields;
mod front;
mod listener;
mod place;
mod resolution;
mod scope;
mod server;
mod tunnel;
mod upstream;

pub use config::Config;
pub use server::{Ended, Proxy, serve};
