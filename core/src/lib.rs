//! `semel` (Latin: "once") makes an operation take effect once, however often it is asked for, and gives every repeat the
//! answer of the first time.
//!
//! ```text
//! idempotence = a unique key  +  a durable memory of it  +  one atomic step
//! ```
//!
//! ```
//! use semel::{Claim, Request, Store};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("data").to_str().unwrap().to_owned();
//! let store = Store::open(&path)?; // an embedded, durable store in a directory
//! let request = Request::new("order.create", "ORDER_1").scope("tenant-7").payload(&("cup", 2))?;
//!
//! match store.claim(&request)? {
//!     Claim::Execute(ticket) => ticket.complete("created")?, // the first time: do it, and keep the answer
//!     Claim::Replay(replay) => drop(replay.decode::<String>()?), // every time after: the same answer
//!     other => println!("{}", other.name()), // failed, busy, mismatch, in_doubt, gone, twin
//! }
//! # Ok::<(), semel::Error>(())
//! ```
//!
//! It is an in-process engine: no server, no network. A claim that was acknowledged survives the loss of power. An
//! attempt that ended with unknown effect is held until somebody who knows resolves it: nobody runs it again unasked.
//!
//! It is not a queue, not a cache, and not a lock service: it remembers that something was done, and what came of it.

mod answer;
mod answering;
#[cfg(not(target_arch = "wasm32"))]
mod archive;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod attribute;
mod backend;
mod batch;
#[doc(hidden)]
pub mod binding;
mod builder;
mod caller;
pub mod canonical;
mod claiming;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod codec;
#[doc(hidden)]
pub mod duration;
mod engine;
mod error;
pub mod fingerprint;
mod fork;
mod glance;
mod histogram;
#[cfg(feature = "http")]
pub mod http;
pub mod ids;
mod info;
#[cfg(any(feature = "cli", feature = "http"))]
mod json;
mod key;
mod lanes;
mod lifecycle;
mod message;
mod metrics;
mod moment;
mod nonce;
mod record;
mod request;
mod reserve;
mod run;
pub mod scheme;
mod stats;
mod step;
mod store;
mod sync;
mod ticket;
mod time;
mod timer;
mod transaction;
mod tx;
mod value;
mod watchdog;
mod work;

pub use answer::{Busy, Claim, Failed, Gone, InDoubt, Mismatch, Replay, Twin};
pub use backend::Durability;
pub use builder::{Shared, StoreBuilder};
pub use canonical::Canonical;
pub use error::{Error, ErrorKind, Result};
pub use fingerprint::{FieldHash, Fingerprint, canonical, fingerprint};
pub use histogram::Histogram;
pub use ids::Ids;
pub use info::Info;
pub use key::{GLOBAL, MAX_ID_BYTES, MAX_NAME_BYTES, Scope};
pub use moment::rfc3339;
pub use record::{Doubt, MAX_STEPS, Policy};
pub use request::{
    Confirmation, DEFAULT_LEASE, DEFAULT_RENEW_LIMIT, DEFAULT_RETAIN, Identity, Lease,
    MAX_HOLDER_BYTES, MAX_LEASE, OnTwin, Renew, Request, Retain,
};
pub use run::RunError;
pub use scheme::inbox::Consumed;
pub use scheme::ledger::Post;
pub use scheme::lock::{Lock, LockGuard};
pub use scheme::machine::{Edges, Fire, Transition};
pub use scheme::outbox::Relayed;
pub use scheme::rows::Rows;
pub use scheme::table::{Row, Update};
pub use scheme::tick::Tick;
pub use scheme::token::{Redeem, Refusal, TokenClaim};
pub use scheme::unique::Insert;
pub use stats::{OperationStats, Stats};
pub use step::{MAX_STEP_NAME_BYTES, StepError};
pub use store::{
    Copied, Forgotten, Listing, Resolution, Resolved, Store, Verified, is_store, restore,
};
pub use ticket::Ticket;
pub use time::{Clock, Stopwatch};
pub use transaction::{DEFAULT_ROW_TIMEOUT, MAX_CONFLICTS, Transaction};
pub use tx::{MAX_TRANSACTION_KEYS, Tx};
pub use value::{ATTEMPTS_EXHAUSTED, Content, Failure, TYPED_TAG, Value};
pub use work::{Classify, WorkError, retryable, terminal};

#[cfg(feature = "macros")]
#[doc = include_str!("attribute.md")]
pub use semel_macros::idempotent;

// The examples of the README are tested with those of this page.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
