//! HTTP without I/O: which request is guarded and by which key, when two requests are the same, which answers are kept, what
//! of them goes out again, and how every other answer reads.
//!
//! Whatever carries requests (a middleware, a proxy, another language) asks here and judges nothing by itself, so that all
//! of them answer alike. The rules follow draft-ietf-httpapi-idempotency-key-header-07, which is a draft and no standard;
//! `docs/http.md` tells them to users.
//!
//! It gives idempotence: a repeat is not passed on, and gets the first answer.

mod answered;
mod cors;
mod fields;
mod guard;
mod incoming;
mod kept;
mod key;
#[cfg(feature = "tower")]
mod layer;
mod problem;
#[cfg(all(feature = "proxy", unix))]
pub mod proxy;
mod routes;
mod sameness;
mod status;
mod stream;
mod token;

pub use answered::Answered;
pub use cors::{CORS_EXPOSED, cors_lacks, is_preflight};
pub use fields::{FieldRules, KEPT_FIELDS, NEVER_KEPT_FIELDS};
pub use guard::{Guard, Head, JsonPath, Judged, KeySource};
pub use incoming::Incoming;
pub use kept::{Kept, MAX_KEPT_BODY_BYTES, REPLAYED};
pub use key::{IDEMPOTENCY_KEY, KeyFault, parse_key};
#[cfg(feature = "tower")]
pub use layer::{Body, BoxError, Idempotency, IdempotencyLayer, LayerBuilder, Running, Unscoped};
pub use problem::{Problem, ProblemKind};
pub use routes::{MAX_ROUTES, Routes};
pub use sameness::{QueryRule, sameness};
pub use status::{Ending, StatusPolicy, Verdict};
pub use stream::is_stream;
pub use token::TokenRoute;
