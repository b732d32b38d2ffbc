//! Payloads of Python in the canonical form. Types beyond those of JSON go through `semel._values`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple,
};
use semel::Canonical;
use semel::canonical::Builder;

use crate::errors::{OrRaise, invalid};
use crate::values::{is_enum, module};

/// How deep a payload may nest here; the canonical form has its own limit, which is met first.
const MAX_LEVELS: u32 = 140;

/// JSON text that stands for its value.
///
/// >>> import semel
/// >>> semel.canonical(semel.Json('{"b": 1.0, "a": 1e2}'))
/// b'{"a":100,"b":1}'
#[pyclass(frozen, module = "semel", name = "Json")]
pub(crate) struct Json {
    text: Vec<u8>,
}

#[pymethods]
impl Json {
    #[new]
    fn new(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = text.cast::<PyString>() {
            return Ok(Self {
                text: text.to_str()?.as_bytes().to_vec(),
            });
        }
        let bytes = text.cast::<PyBytes>()?;
        Ok(Self {
            text: bytes.as_bytes().to_vec(),
        })
    }

    fn __repr__(&self) -> String {
        format!("<semel.Json, {} bytes>", self.text.len())
    }
}

/// The canonical form of a payload.
///
/// # Errors
/// `InvalidInput` for what has none; nothing was touched.
pub(crate) fn canonical(payload: &Bound<'_, PyAny>) -> PyResult<Canonical> {
    if let Ok(bytes) = payload.cast_exact::<PyBytes>() {
        return Ok(Canonical::from_bytes(bytes.as_bytes()));
    }
    let mut builder = Builder::default();
    write(&mut builder, payload, 0)?;
    builder.finish().or_raise(payload.py())
}

fn write(builder: &mut Builder, value: &Bound<'_, PyAny>, level: u32) -> PyResult<()> {
    let py = value.py();
    if level > MAX_LEVELS {
        return Err(refuse(
            py,
            builder,
            "it nests too deep, or contains itself",
            "send a flatter payload",
        ));
    }
    if value.is_none() {
        builder.null();
        Ok(())
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        builder.boolean(truth.is_true());
        Ok(())
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        string(builder, text)
    } else if let Ok(number) = value.cast_exact::<PyInt>() {
        integer(builder, number)
    } else if let Ok(members) = value.cast_exact::<PyDict>() {
        object(builder, members, level)
    } else if is_enum(value)? {
        other(builder, value, level)
    } else if let Ok(text) = value.cast::<PyString>() {
        string(builder, text)
    } else if let Ok(number) = value.cast::<PyInt>() {
        integer(builder, number)
    } else if let Ok(number) = value.cast::<PyFloat>() {
        builder.float(number.value()).or_raise(py)
    } else if let Ok(members) = value.cast::<PyDict>() {
        object(builder, members, level)
    } else if let Ok(items) = value.cast::<PyList>() {
        array(builder, items.iter(), level)
    } else if let Ok(items) = value.cast::<PyTuple>()
        && !items.hasattr(intern!(py, "_fields"))?
    {
        array(builder, items.iter(), level)
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        builder.typed("bytes").or_raise(py)?;
        builder
            .string(&semel::binding::hex(bytes.as_bytes()))
            .or_raise(py)
    } else if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
        set(builder, value, level)
    } else if let Ok(json) = value.cast::<Json>() {
        builder.json(&json.get().text).or_raise(py)
    } else {
        other(builder, value, level)
    }
}

fn string(builder: &mut Builder, text: &Bound<'_, PyString>) -> PyResult<()> {
    let py = text.py();
    match text.to_str() {
        Ok(text) => builder.string(text).or_raise(py),
        Err(_) => Err(refuse(
            py,
            builder,
            "a text has half of a surrogate pair, which is no character",
            "send both halves of the pair, or leave it out",
        )),
    }
}

fn integer(builder: &mut Builder, number: &Bound<'_, PyInt>) -> PyResult<()> {
    let py = number.py();
    if let Ok(small) = number.extract::<i64>() {
        return builder.integer(small.into()).or_raise(py);
    }
    match py.get_type::<PyInt>().call_method1("__repr__", (number,)) {
        Ok(text) => builder
            .number(text.cast::<PyString>()?.to_str()?)
            .or_raise(py),
        // Python writes no integer of more digits than sys.get_int_max_str_digits().
        Err(_) => Err(refuse(
            py,
            builder,
            "an integer has more digits than Python writes",
            "send it as text",
        )),
    }
}

fn array<'py>(
    builder: &mut Builder,
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    level: u32,
) -> PyResult<()> {
    let mut items = items.peekable();
    let Some(py) = items.peek().map(Bound::py) else {
        return empty(builder);
    };
    builder.open_array().or_raise(py)?;
    for item in items {
        builder.element().or_raise(py)?;
        write(builder, &item, level + 1)?;
    }
    builder.close_array().or_raise(py)
}

fn empty(builder: &mut Builder) -> PyResult<()> {
    let written = builder.open_array().and_then(|()| builder.close_array());
    Python::attach(|py| written.or_raise(py))
}

/// An object when all names are texts; else a map, whose pairs have no order.
fn object(builder: &mut Builder, members: &Bound<'_, PyDict>, level: u32) -> PyResult<()> {
    let py = members.py();
    let text = |name: &Bound<'_, PyAny>| -> PyResult<bool> {
        Ok(name.is_instance_of::<PyString>() && !is_enum(name)?)
    };
    for (name, _) in members.iter() {
        if !text(&name)? {
            return map(builder, members, level);
        }
    }
    builder.open_object().or_raise(py)?;
    for (name, member) in members.iter() {
        let name = name.cast::<PyString>()?;
        match name.to_str() {
            Ok(name) => builder.member(name).or_raise(py)?,
            Err(_) => return string(builder, name),
        }
        write(builder, &member, level + 1)?;
    }
    builder.close_object().or_raise(py)
}

fn map(builder: &mut Builder, members: &Bound<'_, PyDict>, level: u32) -> PyResult<()> {
    let py = members.py();
    let pairs = members.iter().map(|(name, member)| {
        let pair = PyTuple::new(py, [name, member])?;
        within(pair.as_any(), level + 1)
    });
    let pairs = pairs.collect::<PyResult<Vec<Canonical>>>()?;
    builder.typed("map").or_raise(py)?;
    builder.unordered(pairs).or_raise(py)
}

fn set(builder: &mut Builder, items: &Bound<'_, PyAny>, level: u32) -> PyResult<()> {
    let py = items.py();
    let items = items.try_iter()?.map(|item| within(&item?, level + 1));
    let items = items.collect::<PyResult<Vec<Canonical>>>()?;
    builder.typed("set").or_raise(py)?;
    builder.unordered(items).or_raise(py)
}

/// The form of a value inside of one that has no order.
fn within(value: &Bound<'_, PyAny>, level: u32) -> PyResult<Canonical> {
    let mut builder = Builder::default();
    write(&mut builder, value, level)?;
    builder.finish().or_raise(value.py())
}

fn other(builder: &mut Builder, value: &Bound<'_, PyAny>, level: u32) -> PyResult<()> {
    let py = value.py();
    let told = module(py)?.getattr(intern!(py, "payload"))?.call1((value,));
    let (word, content): (String, Bound<'_, PyAny>) = match told {
        Ok(told) => told.extract()?,
        Err(error) => return Err(placed(py, builder, error)),
    };
    if word == "number" {
        return builder
            .number(content.cast::<PyString>()?.to_str()?)
            .or_raise(py);
    }
    builder.typed(&word).or_raise(py)?;
    write(builder, &content, level + 1)
}

/// A refusal of `semel._values` with the place of the value.
fn placed(py: Python<'_>, builder: &Builder, error: PyErr) -> PyErr {
    let ours = module(py).and_then(|module| module.getattr("NotEncodable"));
    match ours {
        Ok(class) if error.matches(py, &class).unwrap_or(false) => {
            let text = error.value(py).to_string();
            let (what, advice) = text
                .split_once("; ")
                .unwrap_or((&text, "send another value"));
            let refused = builder.refuse(what, "");
            invalid(py, format!("{}{advice}", refused.message()))
        }
        _ => error,
    }
}

fn refuse(py: Python<'_>, builder: &Builder, what: &str, advice: &'static str) -> PyErr {
    crate::errors::raised(py, &builder.refuse(what, advice))
}

/// The canonical form of a value, in bytes: equal payloads, and only they, have equal ones.
///
/// Raises InvalidInput for what has none: NaN, infinities, lone surrogates, types that are not known.
///
/// >>> import semel
/// >>> semel.canonical({"b": 1.0, "a": [True, None]})
/// b'{"a":[true,null],"b":1}'
#[pyfunction]
#[pyo3(name = "canonical")]
pub(crate) fn canonical_bytes<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(value.py(), canonical(value)?.as_bytes()))
}

/// The public fingerprint of a value: 64 hexadecimal digits, the same in every language and on every machine.
///
/// It has no secret: whoever can guess the value can confirm the guess. Raises as canonical.
///
/// >>> import semel
/// >>> semel.fingerprint({"amount": 100})
/// 'c2a7d6ca1f7083a291cb9fe84da2d2f349623fdda0c6bf71a7b1efae88b207ac'
#[pyfunction]
pub(crate) fn fingerprint(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(semel::fingerprint::of_canonical(&canonical(value)?))
}
