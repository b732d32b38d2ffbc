//! Every answer that is not the operation's own: a problem document (RFC 9457) of a stable type.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::key::KeyFault;
use crate::answer::{Busy, Claim};
use crate::error::{Error, ErrorKind};
use crate::moment::rfc3339;
use crate::scheme::token::Refusal;

/// What the type of every problem begins with.
const TYPES: &str = "urn:semel:problem:";
/// When to ask again after a fault of the store.
const RETRY_AFTER_FAULT: Duration = Duration::from_secs(1);

/// Types of problems. Their names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// 400: a key is required and the request has none.
    KeyMissing,
    /// 400: the key cannot be read.
    KeyMalformed,
    /// 400: the request cannot be told apart from others: its scope is missing, say, or its body is no JSON that has the key.
    RequestMalformed,
    /// 413: the body is longer than what is compared.
    BodyTooLarge,
    /// 403: the key has to be a token that was issued for this, and is none that is good (`reason`).
    TokenRefused,
    /// 409 with `Retry-After`: the same request is under way.
    InFlight,
    /// 409: nobody knows whether the operation took effect; somebody has to resolve it.
    InDoubt,
    /// 409: the same request came before under another key.
    Twin,
    /// 422: the key was used for another request.
    KeyReused,
    /// 410: the operation was executed, and its answer is no longer kept, or could not be.
    AnswerGone,
    /// 409: the operation is known to have failed for good.
    Failed,
    /// 500: the request was passed on, and what answers it broke off: nobody knows whether it took effect.
    BrokenOff,
    /// 503: the store cannot say. Nothing was passed on.
    StoreUnavailable,
    /// 503: the request was passed on and answered, and the answer could not be recorded.
    NotRecorded,
    /// 503 with `Retry-After`: a proxy did not reach the service behind it. Nothing was passed on.
    UpstreamUnreachable,
    /// 502: a proxy passed the request on, and got no whole answer.
    UpstreamBroken,
    /// 504: a proxy passed the request on, and got no answer in time.
    UpstreamTimeout,
    /// 404: a proxy has nothing at this path, and does not pass it on.
    NotFound,
}

impl ProblemKind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::RequestMalformed,
        Self::BodyTooLarge,
        Self::TokenRefused,
        Self::InFlight,
        Self::InDoubt,
        Self::Twin,
        Self::KeyReused,
        Self::AnswerGone,
        Self::Failed,
        Self::BrokenOff,
        Self::StoreUnavailable,
        Self::NotRecorded,
        Self::UpstreamUnreachable,
        Self::UpstreamBroken,
        Self::UpstreamTimeout,
        Self::NotFound,
    ];

    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::KeyMissing => ("key-missing", 400, "An idempotency key is required"),
            Self::KeyMalformed => ("key-malformed", 400, "The idempotency key cannot be read"),
            Self::RequestMalformed => {
                ("request-malformed", 400, "The request cannot be identified")
            }
            Self::BodyTooLarge => (
                "body-too-large",
                413,
                "The body is too large to be compared",
            ),
            Self::TokenRefused => ("token-refused", 403, "The token is not good"),
            Self::InFlight => ("in-flight", 409, "The same request is under way"),
            Self::InDoubt => (
                "in-doubt",
                409,
                "It is unknown whether the request took effect",
            ),
            Self::Twin => ("twin", 409, "The same request came under another key"),
            Self::KeyReused => (
                "key-reused",
                422,
                "The idempotency key belongs to another request",
            ),
            Self::AnswerGone => (
                "answer-gone",
                410,
                "The request was executed; its answer is no longer kept",
            ),
            Self::Failed => ("failed", 409, "The request is known to have failed"),
            Self::BrokenOff => (
                "broken-off",
                500,
                "The request was passed on, and broke off",
            ),
            Self::StoreUnavailable => (
                "store-unavailable",
                503,
                "Idempotency cannot be ensured now",
            ),
            Self::NotRecorded => ("not-recorded", 503, "The answer could not be recorded"),
            Self::UpstreamUnreachable => {
                ("upstream-unreachable", 503, "The service cannot be reached")
            }
            Self::UpstreamBroken => ("upstream-broken", 502, "The service gave no whole answer"),
            Self::UpstreamTimeout => (
                "upstream-timeout",
                504,
                "The service did not answer in time",
            ),
            Self::NotFound => ("not-found", 404, "There is nothing here"),
        }
    }

    /// The last part of its type: `in-flight`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The type, which is no address: `urn:semel:problem:in-flight`.
    pub fn uri(self) -> String {
        format!("{TYPES}{}", self.name())
    }

    /// The status.
    pub fn status(self) -> u16 {
        self.row().1
    }

    /// The title: the same for every problem of the kind.
    pub fn title(self) -> &'static str {
        self.row().2
    }
}

/// An answer that is not the operation's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    retry_after: Option<Duration>,
    more: Map<String, Json>,
}

impl Problem {
    /// The media type of its body.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";

    /// A problem of a kind, in words for who sent the request.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            retry_after: None,
            more: Map::new(),
        }
    }

    /// The problem that a claim is answered with; `None` for what is to be executed or replayed.
    pub fn of_claim(claim: &Claim) -> Option<Self> {
        Some(match claim {
            Claim::Execute(_) | Claim::Replay(_) => return None,
            Claim::Busy(busy) => Self::in_flight(busy),
            Claim::Mismatch(other) => {
                Self::new(ProblemKind::KeyReused, format!("{other}; use a new key for a new request"))
                    .with("fields", json!(other.fields))
            }
            Claim::InDoubt(doubt) => Self::new(
                ProblemKind::InDoubt,
                format!(
                    "it was passed on, and nobody knows since {} whether it took effect; it will not be tried again before that is known",
                    rfc3339(doubt.since_us)
                ),
            )
            .with("since", json!(rfc3339(doubt.since_us))),
            Claim::Gone(gone) => Self::gone(gone.first_executed_us),
            Claim::Failed(failed) => Self::new(ProblemKind::Failed, failed.failure.message.clone())
                .with("code", json!(failed.failure.code)),
            Claim::Twin(twin) => Self::new(
                ProblemKind::Twin,
                format!("the same request came before under the key {:?}", twin.first_id),
            )
            .with("first_key", json!(twin.first_id)),
        })
    }

    fn in_flight(busy: &Busy) -> Self {
        let mut problem = Self::new(
            ProblemKind::InFlight,
            format!(
                "it is under way since {}; ask again",
                rfc3339(busy.since_us)
            ),
        );
        problem.retry_after = Some(busy.retry_after);
        problem
    }

    /// The problem that an error of the store is answered with. What it says of the store is for its operator, and is not told.
    pub fn of_error(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidInput => Self::new(ProblemKind::RequestMalformed, error.message()),
            _ => Self::unavailable(),
        }
    }

    pub(super) fn unavailable() -> Self {
        let mut problem = Self::new(
            ProblemKind::StoreUnavailable,
            "the request was not passed on; try again",
        );
        problem.retry_after = Some(RETRY_AFTER_FAULT);
        problem
    }

    pub(super) fn gone(first_executed_us: u64) -> Self {
        Self::new(
            ProblemKind::AnswerGone,
            format!("it was executed, first at {}", rfc3339(first_executed_us)),
        )
    }

    /// The problem of a body that is longer than what is compared.
    pub fn too_large(limit_bytes: usize) -> Self {
        Self::new(
            ProblemKind::BodyTooLarge,
            format!("its body is too long; at most {limit_bytes} bytes are compared"),
        )
    }

    /// The problem of a request that nobody is known to have made: its key would be everybody's.
    pub fn without_scope() -> Self {
        Self::new(
            ProblemKind::RequestMalformed,
            "it does not say on whose behalf it is made",
        )
    }

    /// The problem of a body that did not come whole; nothing was passed on.
    pub fn cut_short() -> Self {
        Self::new(
            ProblemKind::RequestMalformed,
            "its body broke off before its end; it was not passed on",
        )
    }

    /// The problem of a request that was passed on, and got no whole answer: a panic of the handler, say, or an answer that
    /// broke off.
    pub fn broken_off() -> Self {
        Self::new(
            ProblemKind::BrokenOff,
            "it was passed on, and its answer broke off; nobody knows whether it took effect, and it is in doubt under its key",
        )
    }

    /// The problem of a request whose answer could not be recorded. The answer is not shown, since repeats might get
    /// another; asking again with the same key is safe, and tells what is known.
    pub fn not_recorded() -> Self {
        let mut problem = Self::new(
            ProblemKind::NotRecorded,
            "it was passed on, and what came of it could not be recorded; ask again with the same key, which does not run it again unasked",
        );
        problem.retry_after = Some(RETRY_AFTER_FAULT);
        problem
    }

    /// The problem of a key that is no good token. One of somebody else's is told like one that was never issued.
    pub fn of_refusal(refusal: Refusal) -> Self {
        let refusal = match refusal {
            Refusal::OtherScope => Refusal::Unknown,
            told => told,
        };
        let words = match refusal {
            Refusal::Used => "the token was spent on another request",
            Refusal::Expired => "the token has expired; ask for a new one",
            Refusal::OtherPurpose => "the token was issued for something else",
            _ => "no such token was issued, or it expired long ago; ask for a new one",
        };
        Self::new(ProblemKind::TokenRefused, words).with("reason", json!(refusal.name()))
    }

    /// The problem of a key that cannot be used.
    pub fn of_key(fault: &KeyFault) -> Self {
        let kind = match fault {
            KeyFault::Missing => ProblemKind::KeyMissing,
            _ => ProblemKind::KeyMalformed,
        };
        Self::new(kind, fault.to_string())
    }

    /// The same problem with the time after which to ask again.
    pub fn ask_again_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    fn with(mut self, name: &str, value: Json) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// Its kind.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.kind.status()
    }

    /// The value of the field `Retry-After`, in whole seconds, from 1; `None` when asking again is of no use.
    pub fn retry_after(&self) -> Option<u64> {
        let seconds = |after: Duration| after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.retry_after.map(|after| seconds(after).max(1))
    }

    /// The body: `type`, `title`, `status` and `detail`, and what the kind has besides.
    pub fn body(&self) -> String {
        let mut body = Map::new();
        body.insert("type".to_owned(), json!(self.kind.uri()));
        body.insert("title".to_owned(), json!(self.kind.title()));
        body.insert("status".to_owned(), json!(self.status()));
        body.insert("detail".to_owned(), json!(self.detail));
        body.extend(self.more.clone());
        Json::from(body).to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.status(),
            self.kind.title(),
            self.detail
        )
    }
}
