//! Results as they are kept: bytes with a content tag, so that every repeat gets an equal value of an equal type.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How the bytes of a [`Value`] are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Content {
    /// Bytes as the caller gave them.
    Bytes,
    /// CBOR (RFC 8949): self-describing, with bytes, big integers and tags.
    Cbor,
}

/// The CBOR tag of a value of a type that CBOR has no word for: an array of the type's word and what stands for the value.
/// `docs/values.md` has the words.
pub const TYPED_TAG: u64 = 0x7365_6d65;

/// A result: its bytes and what they are. Cloning shares the bytes.
///
/// ```
/// let value = semel::Value::of(&("paid", 100))?;
/// assert_eq!(value.decode::<(String, u32)>()?, ("paid".to_owned(), 100));
/// assert_eq!(semel::Value::bytes(*b"").as_bytes(), b""); // empty is a result like any other
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    content: Content,
    #[serde(with = "shared_bytes")]
    bytes: Arc<[u8]>,
}

/// Shared bytes as one serde byte string, not as a sequence of numbers.
mod shared_bytes {
    use std::sync::Arc;

    use serde::de::{Deserializer, Error, SeqAccess, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Arc<[u8]>, D::Error> {
        input.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Arc<[u8]>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
            Ok(bytes.into())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Self::Value, E> {
            Ok(bytes.into())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Self::Value, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = numbers.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes.into())
        }
    }
}

impl Value {
    /// Encodes a value of Rust. What serde cannot write is an `InvalidInput` error.
    ///
    /// Serde tells no `Some` of nothing from `None` in a self-describing encoding: `Some(())` and `Some(None)` read back as
    /// `None`. Where that counts, return an enum or a struct.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let mut bytes = Vec::with_capacity(64);
        ciborium::into_writer(value, &mut bytes).map_err(|e| {
            Error::invalid(format!(
                "the value cannot be encoded: {e}; return one that serde can write"
            ))
        })?;
        Ok(Self {
            content: Content::Cbor,
            bytes: bytes.into(),
        })
    }

    /// Keeps bytes as they are.
    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self {
            content: Content::Bytes,
            bytes: bytes.into(),
        }
    }

    /// Decodes into a value of Rust. Raw bytes decode into byte types only through [`Value::as_bytes`].
    ///
    /// # Errors
    /// `InvalidInput` when the bytes are not of this type: the code that reads is not the code that wrote.
    ///
    /// ```
    /// let error = semel::Value::of("paid")?.decode::<u32>().unwrap_err();
    /// assert!(error.message().contains("asked for: invalid type: string"), "{error}");
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        match self.content {
            Content::Cbor => ciborium::from_reader(&self.bytes[..]).map_err(|e| {
                // Written as it is, this error is in the words of Rust's debugging.
                let why = match e {
                    ciborium::de::Error::Semantic(_, why) => why,
                    other => other.to_string(),
                };
                Error::invalid(format!("the kept result does not read as the type asked for: {why}; read it with the type that wrote it"))
            }),
            Content::Bytes => {
                Err(Error::invalid("the kept result is raw bytes, not an encoded value; read it with as_bytes()"))
            }
        }
    }

    /// Whether it is an equal value of an equal type, also where a map was written in another order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        if self == other || self.content != other.content || self.content == Content::Bytes {
            return self == other;
        }
        match (self.in_order(), other.in_order()) {
            (Some(one), Some(two)) => one == two,
            _ => false,
        }
    }

    /// The value with the members of its maps in one order, whatever the writer's.
    fn in_order(&self) -> Option<ciborium::Value> {
        let mut value = ciborium::from_reader(&self.bytes[..]).ok()?;
        order(&mut value, 0)?;
        Some(value)
    }

    /// The bytes, whatever they mean.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the bytes are.
    pub fn content(&self) -> Content {
        self.content
    }
}

/// What work may return: a value that is kept as a [`Value`], and read back from it by repeats.
///
/// Every type that serde writes and reads is one. Bindings have their own.
#[doc(hidden)]
pub trait Kept: Sized {
    /// The value as it is kept.
    ///
    /// # Errors
    /// `InvalidInput` when it cannot be encoded.
    fn keep(&self) -> Result<Value>;

    /// The value of what was kept.
    ///
    /// # Errors
    /// `InvalidInput` when it is of another type.
    fn read(kept: Value) -> Result<Self>;
}

impl<T: Serialize + DeserializeOwned> Kept for T {
    fn keep(&self) -> Result<Value> {
        Value::of(self)
    }

    fn read(kept: Value) -> Result<Self> {
        kept.decode()
    }
}

/// How deep a value may be for its maps to be put in order.
const MAX_ORDERED_DEPTH: usize = 128;

fn order(value: &mut ciborium::Value, depth: usize) -> Option<()> {
    if depth > MAX_ORDERED_DEPTH {
        return None;
    }
    match value {
        ciborium::Value::Array(items) => {
            items.iter_mut().try_for_each(|item| order(item, depth + 1))
        }
        ciborium::Value::Tag(_, inner) => order(inner, depth + 1),
        ciborium::Value::Map(members) => {
            for (name, member) in members.iter_mut() {
                order(name, depth + 1)?;
                order(member, depth + 1)?;
            }
            members.sort_by(|(one, _), (two, _)| {
                one.partial_cmp(two).unwrap_or(std::cmp::Ordering::Equal)
            });
            Some(())
        }
        _ => Some(()),
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({:?}, {} bytes)", self.content, self.bytes.len())
    }
}

/// A failure as it is kept and told to every repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable word for programs, such as `card_declined`.
    pub code: String,
    /// The type of the error as the language of the first caller names it.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
}

/// The code of the failure that a key answers when its attempts are used up.
pub const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";

impl Failure {
    /// A failure of this code and message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            kind: String::new(),
            message: message.into(),
        }
    }

    /// The same failure with the type's name.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_the_same_in_whatever_order_they_were_written() {
        let map = |names: &[&str]| {
            let members = names.iter().map(|name| ((*name).into(), 1.into()));
            Value::of(&ciborium::Value::Array(vec![ciborium::Value::Map(
                members.collect(),
            )]))
            .expect("encodes")
        };
        assert!(map(&["a", "b"]).is_same(&map(&["b", "a"])));
        assert!(!map(&["a", "b"]).is_same(&map(&["a", "c"])));
        assert!(
            !Value::of(&1)
                .expect("encodes")
                .is_same(&Value::of(&"1").expect("encodes"))
        );
        assert!(!Value::bytes(*b"\x01").is_same(&Value::of(&1).expect("encodes")));
    }

    #[test]
    fn a_long_value_within_another_reads_back() {
        let inner = Value::bytes(vec![7; 100_000]);
        let outer = Value::of(&inner).expect("encodes");
        assert_eq!(outer.decode::<Value>().expect("decodes"), inner);
    }
}
