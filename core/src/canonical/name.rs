//! Map keys: what JSON can have as a member name, as `serde_json` spells it.

use std::fmt;

use serde::ser::{Impossible, Serialize, Serializer};

use super::encode::Written;
use super::refusal::Refusal;

/// A serializer that takes what has a text, and gives the text on.
pub(super) struct Name<F>(F);

impl<F: FnOnce(&str) -> Written> Name<F> {
    pub(super) fn new(take: F) -> Self {
        Self(take)
    }

    fn text(self, value: impl fmt::Display) -> Written {
        (self.0)(&value.to_string())
    }
}

fn refused<T>(what: &str) -> Result<T, Refusal> {
    Err(Refusal::new(
        format!("a map key is {what}"),
        "make the keys text, integers or bools, or send the pairs as an array",
    ))
}

impl<F: FnOnce(&str) -> Written> Serializer for Name<F> {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = Impossible<(), Refusal>;
    type SerializeTuple = Impossible<(), Refusal>;
    type SerializeTupleStruct = Impossible<(), Refusal>;
    type SerializeTupleVariant = Impossible<(), Refusal>;
    type SerializeMap = Impossible<(), Refusal>;
    type SerializeStruct = Impossible<(), Refusal>;
    type SerializeStructVariant = Impossible<(), Refusal>;

    fn serialize_bool(self, value: bool) -> Written {
        self.text(value)
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.text(value)
    }

    fn serialize_i16(self, value: i16) -> Written {
        self.text(value)
    }

    fn serialize_i32(self, value: i32) -> Written {
        self.text(value)
    }

    fn serialize_i64(self, value: i64) -> Written {
        self.text(value)
    }

    fn serialize_i128(self, value: i128) -> Written {
        self.text(value)
    }

    fn serialize_u8(self, value: u8) -> Written {
        self.text(value)
    }

    fn serialize_u16(self, value: u16) -> Written {
        self.text(value)
    }

    fn serialize_u32(self, value: u32) -> Written {
        self.text(value)
    }

    fn serialize_u64(self, value: u64) -> Written {
        self.text(value)
    }

    fn serialize_u128(self, value: u128) -> Written {
        self.text(value)
    }

    /// A float has several texts (1, 1.0, 1e0), and a name is exact.
    fn serialize_f32(self, _: f32) -> Written {
        refused("a float")
    }

    fn serialize_f64(self, _: f64) -> Written {
        refused("a float")
    }

    fn serialize_char(self, value: char) -> Written {
        (self.0)(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        (self.0)(value)
    }

    fn serialize_bytes(self, _: &[u8]) -> Written {
        refused("bytes")
    }

    fn serialize_none(self) -> Written {
        refused("None")
    }

    /// As `serde_json`: the wrapper leaves no trace.
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        refused("the unit")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        refused("a unit struct")
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        (self.0)(variant)
    }

    /// As `serde_json`: the wrapper leaves no trace.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Written {
        refused("an enum variant with content")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Refusal> {
        refused("a sequence")
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Refusal> {
        refused("a tuple")
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Refusal> {
        refused("a tuple struct")
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Refusal> {
        refused("an enum variant with content")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Refusal> {
        refused("a map")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Refusal> {
        refused("a struct")
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Refusal> {
        refused("an enum variant with content")
    }
}
