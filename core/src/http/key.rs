//! The key of a request as clients send it: bare, or quoted as the draft has it. `"k"` and `k` are one key.

use std::fmt;

use crate::key::MAX_ID_BYTES;

/// The field that a key stands in, unless another one is named.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFault {
    /// The request has no key.
    Missing,
    /// The field is there more than once: nobody can say which one is meant.
    Repeated,
    /// It is empty, or blank.
    Blank,
    /// It is longer than 255 bytes.
    TooLong(usize),
    /// It is neither a quoted string nor a bare word; why.
    Malformed(&'static str),
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the request has no key; send one for each operation, and the same one with each retry"),
            Self::Repeated => f.write_str("the request has more than one key; send one"),
            Self::Blank => f.write_str("the key is blank; send one that names the operation, for instance a UUID"),
            Self::TooLong(bytes) => write!(f, "the key has {bytes} bytes; at most {MAX_ID_BYTES} are allowed"),
            Self::Malformed(why) => write!(f, "the key {why}; send visible ASCII characters, in double quotes if there are others than letters, digits and -._~:/+="),
        }
    }
}

/// Reads the key out of the values of a field.
///
/// A value in double quotes is a string of RFC 8941: the escapes `\"` and `\\`, nothing else beyond visible ASCII and space;
/// parameters behind it are read and ignored. Any other value is taken as it is, if it is visible ASCII without quotes,
/// backslash, comma and semicolon, which would stand for several keys, or for a key with parameters.
///
/// ```
/// use semel::http::{KeyFault, parse_key};
///
/// assert_eq!(parse_key([&b"\"8e03978e-40d5\""[..]]), parse_key([&b"8e03978e-40d5"[..]]));
/// assert_eq!(parse_key([&b"a"[..], b"a"]), Err(KeyFault::Repeated));
/// assert_eq!(parse_key([]), Err(KeyFault::Missing));
/// ```
///
/// # Errors
/// What is wrong with it, in words for the client.
pub fn parse_key<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Result<String, KeyFault> {
    let mut values = values.into_iter();
    let value = values.next().ok_or(KeyFault::Missing)?;
    if values.next().is_some() {
        return Err(KeyFault::Repeated);
    }
    let value = value.trim_ascii();
    let key = match value.strip_prefix(b"\"") {
        Some(rest) => quoted(rest)?,
        None => bare(value)?,
    };
    of_length(key)
}

/// The key, if it is neither blank nor too long.
pub(super) fn of_length(key: String) -> Result<String, KeyFault> {
    match key.len() {
        _ if key.trim().is_empty() => Err(KeyFault::Blank),
        bytes if bytes > MAX_ID_BYTES => Err(KeyFault::TooLong(bytes)),
        _ => Ok(key),
    }
}

fn bare(value: &[u8]) -> Result<String, KeyFault> {
    let mut key = String::with_capacity(value.len());
    for byte in value {
        match byte {
            b'"' | b'\\' => return Err(KeyFault::Malformed("has a quote in its middle")),
            b',' => return Err(KeyFault::Malformed("has a comma, as if there were several")),
            b';' => return Err(KeyFault::Malformed("has a semicolon outside quotes")),
            0x21..=0x7e => key.push(char::from(*byte)),
            b' ' | b'\t' => return Err(KeyFault::Malformed("has a space outside quotes")),
            _ => return Err(KeyFault::Malformed("has a character that is not ASCII")),
        }
    }
    Ok(key)
}

/// A string of RFC 8941 behind its first quote, and what follows it.
fn quoted(rest: &[u8]) -> Result<String, KeyFault> {
    let mut key = String::with_capacity(rest.len());
    let mut bytes = rest.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return parameters(&rest[at + 1..]).map(|()| key),
            b'\\' => match bytes.next() {
                Some((_, escaped @ (b'"' | b'\\'))) => key.push(char::from(*escaped)),
                _ => {
                    return Err(KeyFault::Malformed(
                        "has a backslash before something that needs none",
                    ));
                }
            },
            0x20..=0x7e => key.push(char::from(*byte)),
            _ => return Err(KeyFault::Malformed("has a character that is not ASCII")),
        }
    }
    Err(KeyFault::Malformed("has no closing quote"))
}

/// Parameters, which mean nothing here but must be ones: `;name` or `;name=value`.
fn parameters(rest: &[u8]) -> Result<(), KeyFault> {
    let malformed = Err(KeyFault::Malformed("is followed by something else"));
    let rest = rest.trim_ascii_end();
    if rest.is_empty() {
        return Ok(());
    }
    let Some(rest) = rest.strip_prefix(b";") else {
        return malformed;
    };
    for parameter in rest.split(|byte| *byte == b';') {
        let parameter = parameter.trim_ascii_start();
        let (name, value) = match parameter.iter().position(|byte| *byte == b'=') {
            Some(at) => (&parameter[..at], Some(&parameter[at + 1..])),
            None => (parameter, None),
        };
        let names = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte)
        };
        let begins = name
            .first()
            .is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*');
        let values = |byte: &u8| byte.is_ascii_graphic() && !b",\"\\".contains(byte);
        if !begins
            || !name.iter().all(names)
            || value.is_some_and(|value| value.is_empty() || !value.iter().all(values))
        {
            return malformed;
        }
    }
    Ok(())
}
