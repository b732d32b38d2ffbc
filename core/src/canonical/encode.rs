//! Writes the canonical form of any value that serde can serialise, as `serde_json` would spell it.

use serde::ser::{Serialize, Serializer};

use super::compound::{Closes, Compound, Structure};
use super::number::{Decimal, NUMBER_TOKEN};
use super::refusal::Refusal;
use super::write::{Writer, misused, too_long};
use super::{MAX_BYTES, MAX_DEPTH, read};

/// A struct of this name with one field of this name carries JSON text: how `serde_json` hands on its `RawValue`.
const RAW_TOKEN: &str = "$serde_json::private::RawValue";

/// What is reserved before the length is known.
const TYPICAL_BYTES: usize = 256;

/// How many wrappers that leave no trace (`Some`, newtypes) may be inside each other; recursion ends here.
const MAX_WRAPPERS: usize = 4 * MAX_DEPTH;

/// The serializer: canonical bytes in the making.
pub(super) struct Encode {
    pub(super) writer: Writer,
    wrappers: usize,
    /// A value inside has failed. If the Serialize implementation around it goes on, its result is not used.
    failed: bool,
}

/// Nothing is handed back: the bytes are in the writer.
pub(super) type Written = Result<(), Refusal>;

impl Encode {
    pub(super) fn new() -> Self {
        Self {
            writer: Writer::with_capacity(TYPICAL_BYTES),
            wrappers: 0,
            failed: false,
        }
    }

    /// Serialises what is inside of an array or object.
    pub(super) fn inner<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        let written = value.serialize(&mut *self);
        self.failed |= written.is_err();
        written
    }

    /// Refuses to go on when a value inside has failed.
    pub(super) fn intact(&self) -> Written {
        if self.failed { Err(misused()) } else { Ok(()) }
    }

    pub(super) fn fail(&mut self, refusal: Refusal) -> Written {
        self.failed = true;
        Err(refusal)
    }

    /// The value inside of a wrapper that leaves no trace.
    fn unwrapped<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        if self.wrappers == MAX_WRAPPERS {
            return Err(Refusal::new(
                format!("more than {MAX_WRAPPERS} Some and newtypes are inside each other"),
                "send a flatter payload",
            ));
        }
        self.wrappers += 1;
        let written = value.serialize(&mut *self);
        self.wrappers -= 1;
        written
    }

    /// A number by its text.
    pub(super) fn decimal(&mut self, text: &str) -> Written {
        self.writer.number(&Decimal::exactly(text.as_bytes())?)
    }

    /// A value by its JSON text.
    pub(super) fn raw(&mut self, text: &str) -> Written {
        read::text(text.as_bytes(), &mut self.writer)
    }

    fn array(&mut self, closes: Closes) -> Result<Compound<'_>, Refusal> {
        self.writer.open_array()?;
        Ok(Compound::new(self, closes))
    }

    fn object(&mut self, closes: Closes) -> Result<Compound<'_>, Refusal> {
        self.writer.open_object()?;
        Ok(Compound::new(self, closes))
    }

    /// Opens the object around the content of an enum variant.
    fn variant(&mut self, variant: &str) -> Written {
        self.writer.open_object()?;
        self.writer.member(variant, 0)
    }
}

fn not_finite() -> Refusal {
    Refusal::new(
        "NaN and the infinities have no decimal value",
        "send a finite number, null or text",
    )
}

impl<'e> Serializer for &'e mut Encode {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = Compound<'e>;
    type SerializeTuple = Compound<'e>;
    type SerializeTupleStruct = Compound<'e>;
    type SerializeTupleVariant = Compound<'e>;
    type SerializeMap = Compound<'e>;
    type SerializeStruct = Structure<'e>;
    type SerializeStructVariant = Compound<'e>;

    fn serialize_bool(self, value: bool) -> Written {
        self.writer.literal(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.serialize_i128(value.into())
    }

    fn serialize_i16(self, value: i16) -> Written {
        self.serialize_i128(value.into())
    }

    fn serialize_i32(self, value: i32) -> Written {
        self.serialize_i128(value.into())
    }

    fn serialize_i64(self, value: i64) -> Written {
        self.serialize_i128(value.into())
    }

    fn serialize_i128(self, value: i128) -> Written {
        self.writer.integer(value < 0, value.unsigned_abs())
    }

    fn serialize_u8(self, value: u8) -> Written {
        self.serialize_u128(value.into())
    }

    fn serialize_u16(self, value: u16) -> Written {
        self.serialize_u128(value.into())
    }

    fn serialize_u32(self, value: u32) -> Written {
        self.serialize_u128(value.into())
    }

    fn serialize_u64(self, value: u64) -> Written {
        self.serialize_u128(value.into())
    }

    fn serialize_u128(self, value: u128) -> Written {
        self.writer.integer(false, value)
    }

    fn serialize_f32(self, value: f32) -> Written {
        if !value.is_finite() {
            return Err(not_finite());
        }
        self.decimal(ryu::Buffer::new().format_finite(value))
    }

    fn serialize_f64(self, value: f64) -> Written {
        if !value.is_finite() {
            return Err(not_finite());
        }
        self.decimal(ryu::Buffer::new().format_finite(value))
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        self.writer.string(value)
    }

    /// An array of numbers, as `serde_json` has it.
    fn serialize_bytes(self, value: &[u8]) -> Written {
        if value.len() > MAX_BYTES {
            return Err(too_long());
        }
        self.writer.open_array()?;
        for byte in value {
            self.writer.element()?;
            self.writer.integer(false, u128::from(*byte))?;
        }
        self.writer.close_array()
    }

    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        self.unwrapped(value)
    }

    fn serialize_unit(self) -> Written {
        self.writer.literal("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        self.unwrapped(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.variant(variant)?;
        self.inner(value)?;
        self.writer.close_object()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'e>, Refusal> {
        self.array(Closes::Array)
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'e>, Refusal> {
        self.array(Closes::Array)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'e>, Refusal> {
        self.array(Closes::Array)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'e>, Refusal> {
        self.variant(variant)?;
        self.array(Closes::ArrayVariant)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'e>, Refusal> {
        self.object(Closes::Object)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Structure<'e>, Refusal> {
        match name {
            NUMBER_TOKEN => Ok(Structure::number(self)),
            RAW_TOKEN => Ok(Structure::raw(self)),
            _ => self.object(Closes::Object).map(Structure::Members),
        }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'e>, Refusal> {
        self.variant(variant)?;
        self.object(Closes::ObjectVariant)
    }
}
