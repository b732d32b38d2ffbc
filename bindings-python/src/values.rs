//! Results between Python and CBOR, in which the store keeps them. Types beyond those of CBOR go through `semel._values`.

use ciborium::Value as Cbor;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyModule, PySet, PyString,
    PyTuple,
};
use semel::{Content, TYPED_TAG, Value};

use crate::errors::{OrRaise, invalid};

/// How many levels of CBOR a value may have; a tuple or a class takes three.
const MAX_LEVELS: u32 = 120;
/// The tags of big integers (RFC 8949, section 3.4.3): positive, and negative as -1 - n.
const POSITIVE_BIG: u64 = 2;
const NEGATIVE_BIG: u64 = 3;

static VALUES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The module that knows the other types.
pub(crate) fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    VALUES
        .get_or_try_init(py, || Ok(PyModule::import(py, "semel._values")?.unbind()))
        .map(|module| module.bind(py))
}

/// A value as it is kept.
pub(crate) struct Encoded {
    pub(crate) cbor: Cbor,
    /// Whether what is read back is of the very same types.
    pub(crate) exact: bool,
}

impl Encoded {
    pub(crate) fn value(&self, py: Python<'_>) -> PyResult<Value> {
        Value::of(&self.cbor).or_raise(py)
    }
}

/// Encodes a value of Python.
///
/// # Errors
/// `InvalidInput` for a type that cannot be written, and for what nests too deep.
pub(crate) fn encode(value: &Bound<'_, PyAny>) -> PyResult<Encoded> {
    let mut encoder = Encoder { exact: true };
    let cbor = encoder.write(value, 0)?;
    Ok(Encoded {
        cbor,
        exact: encoder.exact,
    })
}

struct Encoder {
    exact: bool,
}

impl Encoder {
    fn write(&mut self, value: &Bound<'_, PyAny>, level: u32) -> PyResult<Cbor> {
        if level > MAX_LEVELS {
            return Err(invalid(
                value.py(),
                "the value nests too deep, or contains itself; return something flatter",
            ));
        }
        if value.is_none() {
            Ok(Cbor::Null)
        } else if let Ok(text) = value.cast_exact::<PyString>() {
            self.text(text)
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            Ok(Cbor::Bool(truth.is_true()))
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            integer(number)
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            Ok(Cbor::Float(number.value()))
        } else if let Ok(members) = value.cast_exact::<PyDict>() {
            self.map(members, level)
        } else if let Ok(items) = value.cast_exact::<PyList>() {
            Ok(Cbor::Array(self.items(items.iter(), level)?))
        } else if let Ok(items) = value.cast_exact::<PyTuple>() {
            let items = self.items(items.iter(), level + 2)?;
            Ok(typed("tuple", Cbor::Array(items)))
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            Ok(Cbor::Bytes(bytes.as_bytes().to_vec()))
        } else if let Ok(items) = value.cast_exact::<PySet>() {
            let items = self.items(items.iter(), level + 2)?;
            Ok(typed("set", unordered(items)))
        } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
            let items = self.items(items.iter(), level + 2)?;
            Ok(typed("frozenset", unordered(items)))
        } else {
            self.other(value, level)
        }
    }

    fn text(&self, text: &Bound<'_, PyString>) -> PyResult<Cbor> {
        match text.to_str() {
            Ok(text) => Ok(Cbor::Text(text.to_owned())),
            Err(_) => Err(invalid(
                text.py(),
                "a text has half of a surrogate pair, which is no character; return bytes instead",
            )),
        }
    }

    fn items<'py>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        level: u32,
    ) -> PyResult<Vec<Cbor>> {
        items.map(|item| self.write(&item, level + 1)).collect()
    }

    fn map(&mut self, members: &Bound<'_, PyDict>, level: u32) -> PyResult<Cbor> {
        let mut pairs = Vec::with_capacity(members.len());
        for (name, member) in members.iter() {
            pairs.push((
                self.write(&name, level + 1)?,
                self.write(&member, level + 1)?,
            ));
        }
        Ok(Cbor::Map(pairs))
    }

    /// Subclasses of known types, and types that `semel._values` knows.
    fn other(&mut self, value: &Bound<'_, PyAny>, level: u32) -> PyResult<Cbor> {
        let py = value.py();
        let is_class = |name| -> PyResult<bool> { value.hasattr(name) };
        let named_tuple = value.is_instance_of::<PyTuple>() && is_class(intern!(py, "_fields"))?;
        let plain =
            !named_tuple && !is_enum(value)? && !is_class(intern!(py, "__dataclass_fields__"))?;
        if plain {
            let inexact = if let Ok(text) = value.cast::<PyString>() {
                Some(self.text(text)?)
            } else if let Ok(number) = value.cast::<PyInt>() {
                Some(integer(number)?)
            } else if let Ok(number) = value.cast::<PyFloat>() {
                Some(Cbor::Float(number.value()))
            } else if let Ok(members) = value.cast::<PyDict>() {
                Some(self.map(members, level)?)
            } else if let Ok(items) = value.cast::<PyList>() {
                Some(Cbor::Array(self.items(items.iter(), level)?))
            } else if let Ok(items) = value.cast::<PyTuple>() {
                let items = self.items(items.iter(), level + 2)?;
                Some(typed("tuple", Cbor::Array(items)))
            } else if let Ok(bytes) = value.cast::<PyBytes>() {
                Some(Cbor::Bytes(bytes.as_bytes().to_vec()))
            } else {
                None
            };
            if let Some(cbor) = inexact {
                self.exact = false;
                return Ok(cbor);
            }
        }
        let lower = module(py)?.getattr(intern!(py, "lower"))?;
        let (word, content, exact): (String, Bound<'_, PyAny>, bool) =
            lower.call1((value,))?.extract()?;
        self.exact &= exact;
        Ok(typed(&word, self.write(&content, level + 3)?))
    }
}

/// Whether a value is a member of an `enum.Enum`, which may be a text or a number as well.
pub(crate) fn is_enum(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static ENUM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let class = ENUM.get_or_try_init(py, || {
        PyModule::import(py, "enum")?
            .getattr("Enum")
            .map(Bound::unbind)
    })?;
    value.is_instance(class.bind(py))
}

fn typed(word: &str, content: Cbor) -> Cbor {
    Cbor::Tag(
        TYPED_TAG,
        Box::new(Cbor::Array(vec![Cbor::Text(word.to_owned()), content])),
    )
}

/// Items that have no order, in one order, so that equal sets are equal bytes.
fn unordered(items: Vec<Cbor>) -> Cbor {
    let mut keyed: Vec<(Vec<u8>, Cbor)> = items
        .into_iter()
        .map(|item| {
            let mut bytes = Vec::new();
            // Writing to memory does not fail.
            let _ = ciborium::into_writer(&item, &mut bytes);
            (bytes, item)
        })
        .collect();
    keyed.sort_by(|(one, _), (two, _)| one.cmp(two));
    Cbor::Array(keyed.into_iter().map(|(_, item)| item).collect())
}

fn integer(number: &Bound<'_, PyInt>) -> PyResult<Cbor> {
    if let Ok(small) = number.extract::<i64>() {
        return Ok(Cbor::Integer(small.into()));
    }
    if let Ok(small) = number.extract::<u64>() {
        return Ok(Cbor::Integer(small.into()));
    }
    let py = number.py();
    let negative = number.lt(0)?;
    let magnitude = match negative {
        true => number.call_method0(intern!(py, "__invert__"))?,
        false => number.clone().into_any(),
    };
    let bits: usize = magnitude
        .call_method0(intern!(py, "bit_length"))?
        .extract()?;
    let bytes = magnitude.call_method1(intern!(py, "to_bytes"), (bits.div_ceil(8), "big"))?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes().to_vec();
    let tag = if negative { NEGATIVE_BIG } else { POSITIVE_BIG };
    Ok(Cbor::Tag(tag, Box::new(Cbor::Bytes(bytes))))
}

/// A kept value as one of Python; with `returns`, as that type has it.
///
/// # Errors
/// `InvalidInput` when it cannot be read: never a leave to run again.
pub(crate) fn decode<'py>(
    py: Python<'py>,
    value: &Value,
    returns: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if value.content() == Content::Bytes {
        return Ok(PyBytes::new(py, value.as_bytes()).into_any());
    }
    read(py, value.decode::<Cbor>().or_raise(py)?, returns)
}

/// [`decode`] of what was read from CBOR.
pub(crate) fn read<'py>(
    py: Python<'py>,
    cbor: Cbor,
    returns: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let decoder = Decoder {
        py,
        raw: returns.is_some(),
    };
    let value = decoder.read(cbor)?;
    match returns {
        Some(kind) => module(py)?
            .getattr(intern!(py, "conform"))?
            .call1((value, kind)),
        None => Ok(value),
    }
}

struct Decoder<'py> {
    py: Python<'py>,
    /// Whether values of classes are left as they are kept.
    raw: bool,
}

impl<'py> Decoder<'py> {
    fn read(&self, cbor: Cbor) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match cbor {
            Cbor::Null => py.None().into_bound(py),
            Cbor::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
            Cbor::Integer(number) => {
                let number = i128::from(number);
                match i64::try_from(number) {
                    Ok(small) => small.into_pyobject(py)?.into_any(),
                    Err(_) => number.into_pyobject(py)?.into_any(),
                }
            }
            Cbor::Float(number) => PyFloat::new(py, number).into_any(),
            Cbor::Text(text) => PyString::new(py, &text).into_any(),
            Cbor::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
            Cbor::Array(items) => PyList::new(py, self.items(items)?)?.into_any(),
            Cbor::Map(pairs) => {
                let members = PyDict::new(py);
                for (name, member) in pairs {
                    members.set_item(self.read(name)?, self.read(member)?)?;
                }
                members.into_any()
            }
            Cbor::Tag(tag, inner) => self.tagged(tag, *inner)?,
            _ => {
                return Err(invalid(
                    py,
                    "the kept result has CBOR that this semel does not know",
                ));
            }
        })
    }

    fn items(&self, items: Vec<Cbor>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        items.into_iter().map(|item| self.read(item)).collect()
    }

    fn tagged(&self, tag: u64, inner: Cbor) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match (tag, inner) {
            (POSITIVE_BIG | NEGATIVE_BIG, Cbor::Bytes(bytes)) => {
                let magnitude = py
                    .get_type::<PyInt>()
                    .call_method1(intern!(py, "from_bytes"), (PyBytes::new(py, &bytes), "big"))?;
                match tag {
                    POSITIVE_BIG => Ok(magnitude),
                    _ => magnitude.call_method0(intern!(py, "__invert__")),
                }
            }
            (TYPED_TAG, Cbor::Array(mut parts)) if parts.len() == 2 => {
                let content = parts.pop().unwrap_or(Cbor::Null);
                match parts.pop() {
                    Some(Cbor::Text(word)) => self.typed(&word, content),
                    _ => Err(invalid(
                        py,
                        "the kept result has a typed value without a word",
                    )),
                }
            }
            (tag, _) => Err(invalid(
                py,
                format!("the kept result has the CBOR tag {tag}, which this semel does not know"),
            )),
        }
    }

    fn typed(&self, word: &str, content: Cbor) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        match (word, content) {
            ("tuple", Cbor::Array(items)) => Ok(PyTuple::new(py, self.items(items)?)?.into_any()),
            ("set", Cbor::Array(items)) => Ok(PySet::new(py, self.items(items)?)?.into_any()),
            ("frozenset", Cbor::Array(items)) => {
                Ok(PyFrozenSet::new(py, self.items(items)?)?.into_any())
            }
            (word, content) => {
                let content = self.read(content)?;
                let reader = match (self.raw, word) {
                    (true, "object" | "enum") => intern!(py, "Raw"),
                    _ => intern!(py, "lift"),
                };
                module(py)?.getattr(reader)?.call1((word, content))
            }
        }
    }
}
