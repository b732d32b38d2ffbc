//! Arrays and objects of a value that serde serialises.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};

use super::encode::{Encode, Written};
use super::name::Name;
use super::refusal::Refusal;
use super::write::misused;

/// An open array or object.
pub(super) struct Compound<'e> {
    encode: &'e mut Encode,
    closes: Closes,
    /// A map has given a key whose value comes next.
    named: bool,
}

/// What is closed at the end: a variant is one more object around its content.
#[derive(Clone, Copy)]
pub(super) enum Closes {
    Array,
    Object,
    ArrayVariant,
    ObjectVariant,
}

impl<'e> Compound<'e> {
    pub(super) fn new(encode: &'e mut Encode, closes: Closes) -> Self {
        Self {
            encode,
            closes,
            named: false,
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.encode.intact()?;
        self.encode.writer.element()?;
        self.encode.inner(value)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Written {
        self.encode.intact()?;
        self.encode.writer.member(name, 0)?;
        self.encode.inner(value)
    }

    fn close(self) -> Written {
        self.encode.intact()?;
        let writer = &mut self.encode.writer;
        match self.closes {
            Closes::Array => writer.close_array(),
            Closes::Object => writer.close_object(),
            Closes::ArrayVariant => writer.close_array().and_then(|()| writer.close_object()),
            Closes::ObjectVariant => writer.close_object().and_then(|()| writer.close_object()),
        }
    }
}

impl SerializeSeq for Compound<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.element(value)
    }

    fn end(self) -> Written {
        self.close()
    }
}

impl SerializeTuple for Compound<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.element(value)
    }

    fn end(self) -> Written {
        self.close()
    }
}

impl SerializeTupleStruct for Compound<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.element(value)
    }

    fn end(self) -> Written {
        self.close()
    }
}

impl SerializeTupleVariant for Compound<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.element(value)
    }

    fn end(self) -> Written {
        self.close()
    }
}

impl SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        self.encode.intact()?;
        if std::mem::replace(&mut self.named, true) {
            return self.encode.fail(misused());
        }
        let writer = &mut self.encode.writer;
        match key.serialize(Name::new(|name| writer.member(name, 0))) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                self.encode.writer.leave_members();
                self.encode.fail(refusal)
            }
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.encode.intact()?;
        if !std::mem::replace(&mut self.named, false) {
            return self.encode.fail(misused());
        }
        self.encode.inner(value)
    }

    fn end(self) -> Written {
        if self.named {
            return self.encode.fail(misused());
        }
        self.close()
    }
}

impl SerializeStructVariant for Compound<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
        self.field(name, value)
    }

    fn end(self) -> Written {
        self.close()
    }
}

/// An open struct, or one that stands for a value which serde has no name for.
pub(super) enum Structure<'e> {
    Members(Compound<'e>),
    Spelled(Spelled<'e>),
}

/// A value by its text: the text is the one field of a struct whose name says what it is.
pub(super) struct Spelled<'e> {
    encode: &'e mut Encode,
    write: fn(&mut Encode, &str) -> Written,
    written: bool,
}

impl<'e> Structure<'e> {
    pub(super) fn number(encode: &'e mut Encode) -> Self {
        Self::spelled(encode, Encode::decimal)
    }

    pub(super) fn raw(encode: &'e mut Encode) -> Self {
        Self::spelled(encode, Encode::raw)
    }

    fn spelled(encode: &'e mut Encode, write: fn(&mut Encode, &str) -> Written) -> Self {
        Self::Spelled(Spelled {
            encode,
            write,
            written: false,
        })
    }
}

impl SerializeStruct for Structure<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Written {
        match self {
            Self::Members(members) => members.field(name, value),
            Self::Spelled(spelled) => spelled.field(value),
        }
    }

    fn end(self) -> Written {
        match self {
            Self::Members(members) => members.close(),
            Self::Spelled(spelled) if spelled.written => spelled.encode.intact(),
            Self::Spelled(spelled) => spelled.encode.fail(misused()),
        }
    }
}

impl Spelled<'_> {
    fn field<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.encode.intact()?;
        if std::mem::replace(&mut self.written, true) {
            return self.encode.fail(misused());
        }
        let (encode, write) = (&mut *self.encode, self.write);
        match value.serialize(Name::new(|text| write(encode, text))) {
            Ok(()) => Ok(()),
            Err(refusal) => self.encode.fail(refusal),
        }
    }
}
