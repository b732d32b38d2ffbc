//! Records for programs: one JSON object each, with times in RFC 3339 and kept results as JSON.

use serde_json::{Value as Json, json};

use crate::cli::cbor;
use crate::cli::run::Outcome;
use crate::{Content, Info, Policy, Value, rfc3339};

/// A record as one JSON object. Members that have no meaning in its state are null.
pub(crate) fn record(info: &Info) -> Json {
    let doubt = info
        .doubt
        .as_ref()
        .map(|(since_us, doubt)| json!({ "since": rfc3339(*since_us), "why": doubt.to_string() }));
    let failure = info
        .failure
        .as_ref()
        .map(|f| json!({ "code": f.code, "kind": f.kind, "message": f.message }));
    let steps: Vec<Json> = info
        .steps
        .iter()
        .map(|(name, done)| json!({ "name": name, "done": done }))
        .collect();
    json!({
        "scope": info.scope,
        "operation": info.operation,
        "id": info.id,
        "state": info.state,
        "attempt": info.attempt,
        "fence": info.fence,
        "first_executed": rfc3339(info.first_executed_us),
        "claimed": rfc3339(info.claimed_us),
        "lease_until": info.lease_until_us.map(rfc3339),
        "finished": info.finished_us.map(rfc3339),
        "forgotten_at": info.forgotten_at_us.map(rfc3339),
        "in_doubt": policy(info.in_doubt),
        "doubt": doubt,
        "value": info.value.as_ref().map(value),
        "failure": failure,
        "holder": info.holder,
        "fields": info.fields,
        "steps": steps,
    })
}

/// A policy by its name.
pub(crate) fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Hold => "hold",
        Policy::Rerun => "rerun",
        Policy::Ask => "ask",
    }
}

/// A kept result as an object that says what it is: `run` for the outcome of a command, `json`, `text`, or `hex`.
pub(crate) fn value(value: &Value) -> Json {
    if let Some(outcome) = Outcome::of(value) {
        return json!({ "run": {
            "status": outcome.status,
            "stdout_bytes": outcome.kept_bytes(crate::cli::run::Stream::Stdout),
            "stderr_bytes": outcome.kept_bytes(crate::cli::run::Stream::Stderr),
            "not_kept_bytes": outcome.not_kept,
        }});
    }
    let bytes = value.as_bytes();
    let decoded = if value.content() == Content::Cbor {
        cbor::to_json(bytes)
    } else {
        None
    };
    match (decoded, value.content(), std::str::from_utf8(bytes)) {
        (Some(json), ..) => json!({ "json": json }),
        (None, Content::Bytes, Ok(text)) => json!({ "text": text }),
        _ => json!({ "hex": cbor::hex(bytes) }),
    }
}

/// A kept result as output: JSON on a line of its own for a value, the bytes themselves for bytes.
pub(crate) fn printable(value: &Value) -> Vec<u8> {
    let json = if value.content() == Content::Cbor {
        cbor::to_json(value.as_bytes())
    } else {
        None
    };
    json.map_or_else(
        || value.as_bytes().to_vec(),
        |json| format!("{json}\n").into_bytes(),
    )
}

/// A kept result on one line, for people.
pub(crate) fn value_line(kept: &Value) -> String {
    if let Some(outcome) = Outcome::of(kept) {
        return outcome.line();
    }
    match value(kept) {
        Json::Object(mut members) => match (
            members.remove("json"),
            members.remove("text"),
            members.remove("hex"),
        ) {
            (Some(json), ..) => json.to_string(),
            (_, Some(text), _) => text.to_string(),
            (_, _, Some(hex)) => format!(
                "{} bytes: {}",
                kept.as_bytes().len(),
                hex.as_str().unwrap_or_default()
            ),
            _ => String::new(),
        },
        other => other.to_string(),
    }
}
