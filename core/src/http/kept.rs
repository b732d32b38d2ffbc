//! An answer as it is kept, and goes out again.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::fields::FieldRules;
use crate::error::Result;
use crate::value::Value;

/// The field that tells a replay, with the value `true`.
pub const REPLAYED: &str = "idempotent-replayed";

/// The longest body that is kept, in bytes, unless another length is given (1 MiB less what the status and the fields may
/// take). A longer one passes through, and the operation is recorded as executed without an answer.
pub const MAX_KEPT_BODY_BYTES: usize = (1 << 20) - (64 << 10);

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    status: u16,
    fields: Vec<(String, ByteBuf)>,
    body: ByteBuf,
}

impl Kept {
    /// The answer, with those of its fields that may go out again, in the order in which they came.
    ///
    /// ```
    /// use semel::http::{FieldRules, Kept};
    ///
    /// let fields = [("Content-Type", &b"text/plain"[..]), ("Set-Cookie", b"who=ann")];
    /// let kept = Kept::new(201, fields, b"made", &FieldRules::default());
    /// assert_eq!(kept.fields().collect::<Vec<_>>(), [("content-type", &b"text/plain"[..])]);
    /// assert_eq!(Kept::from_value(&kept.to_value()?)?, kept);
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn new<'f>(
        status: u16,
        fields: impl IntoIterator<Item = (&'f str, &'f [u8])>,
        body: &[u8],
        rules: &FieldRules,
    ) -> Self {
        let kept = |(name, value): (&str, &[u8])| {
            rules
                .keeps(name)
                .then(|| (name.to_ascii_lowercase(), ByteBuf::from(value)))
        };
        Self {
            status,
            fields: fields.into_iter().filter_map(kept).collect(),
            body: ByteBuf::from(body),
        }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The fields, with names in lower case. One that came twice is here twice.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_str(), &value[..]))
    }

    /// The body, byte for byte.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// As the result of a ticket.
    ///
    /// # Errors
    /// `InvalidInput` when it cannot be encoded.
    pub fn to_value(&self) -> Result<Value> {
        Value::of(self)
    }

    /// From the result of a ticket.
    ///
    /// # Errors
    /// `InvalidInput` when the result is no answer: something else has completed the operation.
    pub fn from_value(value: &Value) -> Result<Self> {
        value.decode()
    }
}
