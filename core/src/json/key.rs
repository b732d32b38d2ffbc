//! The key that a part of a JSON text is.

use super::path::Path;
use crate::fingerprint::canonical;

/// The id at a path: a string is itself, a number its canonical text, so that 1, 1.0 and 1e0 are one key.
///
/// A string that could be taken for a number, or for a quoted string, keeps its quotes: `"1"` and 1 are two keys.
///
/// # Errors
/// What is wrong, in words that name the path.
pub(crate) fn key(path: &Path, json: &str) -> Result<String, String> {
    let found = path.part(json)?;
    if matches!(found.as_bytes().first(), Some(b'-' | b'0'..=b'9')) {
        let number = canonical(found.as_bytes()).map_err(|error| format!("key {path}: {error}"))?;
        return String::from_utf8(number).map_err(|_| no_key(path, found));
    }
    if !found.starts_with('"') {
        return Err(no_key(path, found));
    }
    let text: String =
        serde_json::from_str(found).map_err(|error| format!("key {path}: {}", bare(&error)))?;
    let doubtful = text.starts_with('"') || is_number(&text);
    Ok(if doubtful {
        format!("\"{text}\"")
    } else {
        text
    })
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && canonical(text.as_bytes()).is_ok()
}

fn no_key(path: &Path, found: &str) -> String {
    let what = match found.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'n') => "null",
        _ => "a truth value",
    };
    format!("key {path} is {what}; a key is a string or a number")
}

/// An error of the JSON reader without its place, which within one line is the column alone.
pub(crate) fn bare(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
