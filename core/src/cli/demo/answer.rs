//! What a client of the demo was answered.

use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::response::Parts;
use serde_json::Value as Json;

/// The field that a replay carries.
const REPLAYED: &str = "idempotent-replayed";

/// What a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status and what it means, or what became of the call before it got one.
    pub(super) name: String,
    /// What the service has given for the effect.
    pub(super) receipt: Option<String>,
}

impl Answer {
    /// A call that ended without an answer.
    pub(super) fn none(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            receipt: None,
        }
    }

    /// An answer as it came: a receipt, or a problem by the last part of its type.
    pub(super) fn of(head: &Parts, body: &[u8]) -> Self {
        let status = head.status.as_u16();
        if head.status == StatusCode::CREATED {
            let replayed = match head.headers.contains_key(REPLAYED) {
                true => " replayed",
                false => "",
            };
            return Self {
                name: format!("{status}{replayed}"),
                receipt: Some(String::from_utf8_lossy(body).into_owned()),
            };
        }
        let is_problem = head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes() == crate::http::Problem::CONTENT_TYPE.as_bytes());
        let problem: Option<Json> = is_problem
            .then(|| serde_json::from_slice(body).ok())
            .flatten();
        let kind = problem
            .as_ref()
            .and_then(|problem| problem["type"].as_str()?.rsplit(':').next());
        Self::none(format!("{status} {}", kind.unwrap_or_default()).trim_end())
    }
}
