//! HTTP without I/O: which request is guarded and by which key, when two requests are the same, which answers are kept, what
//! of them goes out again, and how every other answer reads.
//!
//! Whatever carries requests (a middleware, a proxy, another language) asks here and judges nothing by itself, so that all
//! of them answer alike. The rules follow draft-ietf-httpapi-idempotency-key-header-07, which is a draft and no standard;
//! `docs/http.md` tells them to users.
//!
//! It gives idempotence: a repeat is not passed on, and gets the first answer.

mod fields;
mod guard;
mod kept;
mod key;
mod problem;
mod sameness;
mod status;

pub use fields::{FieldRules, KEPT_FIELDS, NEVER_KEPT_FIELDS};
pub use guard::{Guard, Head, JsonPath, Judged, KeySource};
pub use kept::{Kept, MAX_KEPT_BODY_BYTES, REPLAYED};
pub use key::{IDEMPOTENCY_KEY, KeyFault, parse_key};
pub use problem::{Problem, ProblemKind};
pub use sameness::{QueryRule, sameness};
pub use status::{Ending, StatusPolicy, Verdict};
