//! Records for programs: one JSON object each, with times in RFC 3339 and kept results as JSON.

use serde_json::{Value as Json, json};

use crate::cli::cbor;
use crate::cli::run::Outcome;
use crate::{Content, Info, Value};

/// A record as one JSON object. Members that have no meaning in its state are null.
pub(crate) fn record(info: &Info) -> Json {
    let mut record = info.json();
    record["value"] = info.value.as_ref().map(value).into();
    record
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
