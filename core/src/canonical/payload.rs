//! The canonical form of one payload.

use std::fmt;

use serde::Serialize;

use super::encode::Encode;
use super::read;
use super::write::{Member, Writer};
use crate::error::Result;

/// Begins the form of opaque bytes. The form of a JSON value begins with one of `{["-0123456789tfn`.
const BYTES_TAG: &[u8] = b"bytes:";

/// The canonical bytes of a payload, and where the top-level members are when it is an object.
///
/// Two payloads are equal when, and only when, their canonical bytes are. The rules are in `docs/canonical.md`.
///
/// ```
/// use semel::Canonical;
///
/// # fn main() -> semel::Result<()> {
/// let sent = Canonical::from_json(br#"{ "currency": "EUR", "amount": 1.50 }"#)?;
/// assert_eq!(sent.as_bytes(), br#"{"amount":1.5,"currency":"EUR"}"#);
/// let names: Vec<&str> = sent.fields().map(|(name, _)| name).collect();
/// assert_eq!(names, ["amount", "currency"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Canonical {
    bytes: Vec<u8>,
    names: String,
    members: Vec<Member>,
}

impl Canonical {
    /// Reads JSON text (RFC 8259, strictly). Numbers keep all their digits.
    ///
    /// Refused with [`InvalidInput`](crate::ErrorKind::InvalidInput), naming the byte offset: text that is no JSON or no
    /// UTF-8, a byte order mark, repeated member names, lone surrogates, and what is beyond
    /// [`MAX_BYTES`](super::MAX_BYTES), [`MAX_DEPTH`](super::MAX_DEPTH) or [`MAX_EXPONENT`](super::MAX_EXPONENT).
    ///
    /// ```
    /// use semel::Canonical;
    ///
    /// # fn main() -> semel::Result<()> {
    /// assert_eq!(Canonical::from_json(b"[1.0, 10e-1]")?.as_bytes(), b"[1,1]");
    /// let error = Canonical::from_json(br#"{"a":1,"\u0061":2}"#).unwrap_err();
    /// assert!(error.message().contains("at byte 7"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let mut writer = Writer::with_capacity(text.len().min(super::MAX_BYTES));
        match read::text(text, &mut writer) {
            Ok(()) => Ok(Self::written(writer)),
            Err(refusal) => Err(refusal.into_error(|| writer.path())),
        }
    }

    /// Takes any value that serde can serialise, with the same result as [`from_json`](Self::from_json) on the JSON
    /// text that `serde_json` makes of it.
    ///
    /// A float stands for its shortest text that reads back as the same float. Refused with
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), naming the member path: NaN and infinities (which `serde_json`
    /// would make null), map keys that are no text, integer or bool, repeated names, and what is beyond the limits.
    ///
    /// ```
    /// use semel::Canonical;
    ///
    /// # fn main() -> semel::Result<()> {
    /// #[derive(serde::Serialize)]
    /// struct Order<'a> {
    ///     item: &'a str,
    ///     amount: f64,
    /// }
    /// let order = Order { item: "tea", amount: 2.0 };
    /// assert_eq!(Canonical::from_serialize(&order)?.as_bytes(), br#"{"amount":2,"item":"tea"}"#);
    /// assert!(Canonical::from_serialize(&f64::NAN).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let mut encode = Encode::new();
        let written = value
            .serialize(&mut encode)
            .and_then(|()| encode.writer.room());
        match written {
            Ok(()) => Ok(Self::written(encode.writer)),
            Err(refusal) => Err(refusal.by_path().into_error(|| encode.writer.path())),
        }
    }

    /// Takes bytes as they are, for a payload that is no JSON. No JSON value has the same canonical form.
    ///
    /// ```
    /// use semel::Canonical;
    ///
    /// # fn main() -> semel::Result<()> {
    /// let raw = Canonical::from_bytes(b"[1]");
    /// assert_eq!(raw.as_bytes(), b"bytes:[1]");
    /// assert_ne!(raw, Canonical::from_json(b"[1]")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_bytes(raw: &[u8]) -> Self {
        Self {
            bytes: [BYTES_TAG, raw].concat(),
            names: String::new(),
            members: Vec::new(),
        }
    }

    /// The canonical bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The top-level members in order: the name, and the canonical bytes of the value. Empty when it is no object.
    ///
    /// ```
    /// use semel::Canonical;
    ///
    /// # fn main() -> semel::Result<()> {
    /// let payload = Canonical::from_json(br#"{"b":[1, 2],"a\n":null}"#)?;
    /// let fields: Vec<(&str, &[u8])> = payload.fields().collect();
    /// assert_eq!(fields, [("a\n", &b"null"[..]), ("b", b"[1,2]")]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.members.iter().map(|member| {
            let value = member.value as usize..member.end as usize;
            (member.name(&self.names), &self.bytes[value])
        })
    }

    /// The members that a writer still has at its end are those of the outermost object.
    pub(super) fn written(writer: Writer) -> Self {
        Self {
            bytes: writer.out,
            names: writer.names,
            members: writer.members,
        }
    }
}

impl PartialEq for Canonical {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Canonical {}

/// Tells the length only: payloads do not belong in logs.
impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canonical({} bytes)", self.bytes.len())
    }
}
