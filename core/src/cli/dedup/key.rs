//! The key of a line.

use crate::canonical;
use crate::cli::dedup::pass::Fault;
use crate::cli::dedup::path::Path;

/// The id of a line: a string is itself, a number its canonical text, so that 1, 1.0 and 1e0 are one key.
///
/// A string that could be taken for a number, or for a quoted string, keeps its quotes: `"1"` and 1 are two keys.
pub(super) fn key(path: &Path, line: &str) -> Result<String, Fault> {
    let found = part(path, line)?;
    if matches!(found.as_bytes().first(), Some(b'-' | b'0'..=b'9')) {
        let number = canonical(found.as_bytes())
            .map_err(|error| Fault::Line(format!("key {path}: {error}")))?;
        return String::from_utf8(number).map_err(|_| no_key(path, found));
    }
    if !found.starts_with('"') {
        return Err(no_key(path, found));
    }
    let text: String = serde_json::from_str(found)
        .map_err(|error| Fault::Line(format!("key {path}: {}", bare(&error))))?;
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

fn no_key(path: &Path, found: &str) -> Fault {
    let what = match found.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'n') => "null",
        _ => "a truth value",
    };
    Fault::Line(format!(
        "key {path} is {what}; a key is a string or a number"
    ))
}

/// The part of a line that a path leads to.
pub(super) fn part<'l>(path: &Path, line: &'l str) -> Result<&'l str, Fault> {
    match path.find(line) {
        Ok(Some(part)) => Ok(part),
        Ok(None) => Err(Fault::Line(format!("there is no {path}"))),
        Err(fault) => Err(Fault::Line(format!("{path}: {fault}"))),
    }
}

/// An error of the JSON reader without its place, which within one line is the column alone.
pub(super) fn bare(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
