//! Why a payload has no canonical form: what was wrong, where, and what to do.

use std::fmt;

use crate::error::Error;

/// The longest piece of the payload's own text (a member name, a message) that an error repeats, in bytes.
const MAX_QUOTED_BYTES: usize = 64;

/// A payload was refused. The place is added by whoever knows it: the reader an offset, the encoder a path.
#[derive(Debug)]
pub(super) struct Refusal(Box<Inner>);

#[derive(Debug)]
struct Inner {
    what: String,
    advice: &'static str,
    offset: Option<usize>,
}

impl Refusal {
    pub(super) fn new(what: impl Into<String>, advice: &'static str) -> Self {
        Self(Box::new(Inner {
            what: what.into(),
            advice,
            offset: None,
        }))
    }

    /// The same refusal, at this byte of the JSON text; a more exact offset that is known already stays.
    pub(super) fn at(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// The same refusal without its offset, for a value of which the caller never saw a text.
    pub(super) fn by_path(mut self) -> Self {
        self.0.offset = None;
        self
    }

    /// The error for the caller; `place` is used when there is no offset.
    pub(super) fn into_error(self, place: impl FnOnce() -> String) -> Error {
        let Inner {
            what,
            advice,
            offset,
        } = *self.0;
        let place = offset.map_or_else(place, |offset| format!("byte {offset}"));
        Error::invalid(format!("payload refused at {place}: {what}; {advice}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.0.what, self.0.advice)
    }
}

impl std::error::Error for Refusal {}

impl serde::ser::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        Self::new(
            format!(
                "its Serialize implementation failed with {}",
                quoted(&message)
            ),
            "correct the value or its Serialize implementation",
        )
    }
}

/// The text in quotes, with escapes, and cut when it is long.
pub(super) fn quoted(text: &str) -> String {
    let shown = head(text, MAX_QUOTED_BYTES);
    let cut = if shown.len() < text.len() { "..." } else { "" };
    format!("{shown:?}{cut}")
}

/// The first characters of `text` that fit in `max_bytes`.
pub(crate) fn head(text: &str, max_bytes: usize) -> &str {
    let mut end = max_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_text_is_escaped_and_cut_between_characters() {
        for (text, shown) in [
            ("", "\"\"".to_owned()),
            ("a\"b\n", "\"a\\\"b\\n\"".to_owned()),
            (&"x".repeat(64), format!("\"{}\"", "x".repeat(64))),
            (&"x".repeat(65), format!("\"{}\"...", "x".repeat(64))),
            (
                &format!("x{}", "é".repeat(32)),
                format!("\"x{}\"...", "é".repeat(31)),
            ),
            (&"é".repeat(33), format!("\"{}\"...", "é".repeat(32))),
        ] {
            assert_eq!(quoted(text), shown);
        }
    }

    #[test]
    fn the_first_offset_is_the_exact_one() {
        let error = Refusal::new("no", "stop")
            .at(3)
            .at(9)
            .into_error(|| unreachable!());
        assert_eq!(error.message(), "payload refused at byte 3: no; stop");
        let error = Refusal::new("no", "stop").into_error(|| "$.a".to_owned());
        assert_eq!(error.message(), "payload refused at $.a: no; stop");
    }
}
