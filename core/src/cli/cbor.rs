//! Kept results between CBOR, as the store has them, and JSON, as people read and write them.

use ciborium::Value as Cbor;
use serde_json::{Map, Number, Value as Json, json};

use crate::{TYPED_TAG, canonical};

/// How deep a value may nest; what is deeper is shown as its bytes.
const MAX_DEPTH: usize = 128;
/// The tags of big integers (RFC 8949, section 3.4.3): positive, and negative as -1 - n.
const POSITIVE_BIG: u64 = 2;
const NEGATIVE_BIG: u64 = 3;

/// CBOR bytes as JSON. What JSON lacks is an object of one member that says what it is: `{"hex": ..}` for bytes,
/// `{"tag": .., "value": ..}`, `{"pairs": [[key, value], ..]}` for a map whose names are no text, `{"float": "NaN"}`.
///
/// `None` when the bytes are not one whole CBOR value.
pub(crate) fn to_json(bytes: &[u8]) -> Option<Json> {
    let mut rest = bytes;
    let value: Cbor = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH).ok()?;
    if rest.is_empty() {
        json_of(value)
    } else {
        None
    }
}

fn json_of(value: Cbor) -> Option<Json> {
    Some(match value {
        Cbor::Null => Json::Null,
        Cbor::Bool(truth) => Json::Bool(truth),
        Cbor::Integer(integer) => number(&i128::from(integer).to_string())?,
        Cbor::Float(float) if float.is_finite() => number(ryu::Buffer::new().format_finite(float))?,
        Cbor::Float(float) => json!({ "float": float.to_string() }),
        Cbor::Text(text) => Json::String(text),
        Cbor::Bytes(bytes) => json!({ "hex": hex(&bytes) }),
        Cbor::Array(items) => Json::Array(items.into_iter().map(json_of).collect::<Option<_>>()?),
        Cbor::Map(pairs) => map(pairs)?,
        Cbor::Tag(tag, inner) => tagged(tag, *inner)?,
        _ => return None,
    })
}

fn number(text: &str) -> Option<Json> {
    text.parse::<Number>().ok().map(Json::Number)
}

fn map(pairs: Vec<(Cbor, Cbor)>) -> Option<Json> {
    if pairs.iter().all(|(name, _)| name.is_text()) {
        let member = |(name, value): (Cbor, Cbor)| Some((name.into_text().ok()?, json_of(value)?));
        return Some(Json::Object(
            pairs
                .into_iter()
                .map(member)
                .collect::<Option<Map<_, _>>>()?,
        ));
    }
    let pair = |(key, value)| Some(Json::Array(vec![json_of(key)?, json_of(value)?]));
    Some(json!({ "pairs": pairs.into_iter().map(pair).collect::<Option<Vec<_>>>()? }))
}

fn tagged(tag: u64, inner: Cbor) -> Option<Json> {
    let big = match &inner {
        Cbor::Bytes(bytes) if bytes.len() <= 15 && matches!(tag, POSITIVE_BIG | NEGATIVE_BIG) => {
            Some(
                bytes
                    .iter()
                    .fold(0i128, |sum, byte| sum << 8 | i128::from(*byte)),
            )
        }
        _ => None,
    };
    if tag == TYPED_TAG
        && let Cbor::Array(parts) = &inner
        && let [Cbor::Text(word), _] = parts.as_slice()
    {
        let word = word.clone();
        let content = inner.into_array().ok()?.pop()?;
        return Some(json!({ word: json_of(content)? }));
    }
    match big {
        Some(big) => number(&(if tag == POSITIVE_BIG { big } else { -1 - big }).to_string()),
        None => Some(json!({ "tag": tag, "value": json_of(inner)? })),
    }
}

/// JSON as the CBOR value that a program would have kept.
///
/// # Errors
/// A number that neither a 64-bit integer nor a double has exactly.
pub(crate) fn from_json(json: Json) -> Result<Cbor, String> {
    Ok(match json {
        Json::Null => Cbor::Null,
        Json::Bool(truth) => Cbor::Bool(truth),
        Json::Number(number) => exact(number.as_str())?,
        Json::String(text) => Cbor::Text(text),
        Json::Array(items) => {
            Cbor::Array(items.into_iter().map(from_json).collect::<Result<_, _>>()?)
        }
        Json::Object(members) => {
            let pair = |(name, value)| Ok((Cbor::Text(name), from_json(value)?));
            Cbor::Map(
                members
                    .into_iter()
                    .map(pair)
                    .collect::<Result<_, String>>()?,
            )
        }
    })
}

fn exact(text: &str) -> Result<Cbor, String> {
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(Cbor::Integer(integer.into()));
    }
    if let Ok(integer) = text.parse::<u64>() {
        return Ok(Cbor::Integer(integer.into()));
    }
    let float = text.parse::<f64>().ok().filter(|float| float.is_finite());
    let same = |float: f64| {
        let written = canonical(ryu::Buffer::new().format_finite(float).as_bytes());
        matches!((written, canonical(text.as_bytes())), (Ok(written), Ok(asked)) if written == asked)
    };
    match float {
        Some(float) if same(float) => Ok(Cbor::Float(float)),
        _ => Err(format!(
            "the number {text} is neither a 64-bit integer nor a double; write it as a string"
        )),
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &Cbor) -> Vec<u8> {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).expect("encodes");
        bytes
    }

    #[test]
    fn json_comes_back_as_it_went_in() {
        let cases = [
            "null",
            "true",
            "0",
            "-1",
            "18446744073709551615",
            "0.1",
            "1.5e300",
            r#""text""#,
            r#"[1,"a",[]]"#,
            r#"{"b":{},"a":[null]}"#,
        ];
        for text in cases {
            let json: Json = serde_json::from_str(text).expect("json");
            let cbor = from_json(json.clone()).expect("exact");
            let back = to_json(&bytes(&cbor)).expect("cbor");
            assert_eq!(
                canonical(back.to_string().as_bytes()).ok(),
                canonical(text.as_bytes()).ok(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_json_lacks_is_named() {
        let cases = [
            (Cbor::Bytes(vec![0, 255]), r#"{"hex":"00ff"}"#),
            (Cbor::Float(f64::NAN), r#"{"float":"NaN"}"#),
            (
                Cbor::Tag(2, Box::new(Cbor::Bytes(vec![1, 0, 0, 0, 0, 0, 0, 0, 0]))),
                "18446744073709551616",
            ),
            (
                Cbor::Tag(3, Box::new(Cbor::Bytes(vec![1, 0, 0, 0, 0, 0, 0, 0, 0]))),
                "-18446744073709551617",
            ),
            (
                Cbor::Tag(0, Box::new(Cbor::Text("x".to_owned()))),
                r#"{"tag":0,"value":"x"}"#,
            ),
            (
                Cbor::Tag(
                    TYPED_TAG,
                    Box::new(Cbor::Array(vec!["decimal".into(), "1.50".into()])),
                ),
                r#"{"decimal":"1.50"}"#,
            ),
            (
                Cbor::Map(vec![(Cbor::Integer(1.into()), Cbor::Null)]),
                r#"{"pairs":[[1,null]]}"#,
            ),
        ];
        for (value, json) in cases {
            assert_eq!(
                to_json(&bytes(&value))
                    .map(|json| json.to_string())
                    .as_deref(),
                Some(json)
            );
        }
    }

    #[test]
    fn broken_bytes_and_inexact_numbers_are_refused() {
        for bytes in [&b""[..], b"\xff", b"\x01\x01", b"\x82\x01"] {
            assert_eq!(to_json(bytes), None);
        }
        for text in [
            "18446744073709551616.5",
            "0.12345678901234567890123",
            "1e999",
        ] {
            let json: Json = serde_json::from_str(text).expect("json");
            assert!(
                from_json(json).is_err_and(|e| e.contains("write it as a string")),
                "{text}"
            );
        }
    }
}
