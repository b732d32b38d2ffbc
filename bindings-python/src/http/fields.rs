//! Header fields as Python gives them: pairs of bytes, with names in lower case.

use pyo3::pybacked::PyBackedBytes;

/// A field: its name and its value.
pub(crate) type Field = (PyBackedBytes, PyBackedBytes);
/// The fields of a request or an answer.
pub(crate) type Fields = Vec<Field>;

/// The values of a field, by its name in lower case.
pub(crate) fn values<'f>(fields: &'f [Field], name: &'f str) -> impl Iterator<Item = &'f [u8]> {
    let named = fields
        .iter()
        .filter(move |(given, _)| given.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|(_, value)| &value[..])
}

/// The first value of a field that is text.
pub(crate) fn text<'f>(fields: &'f [Field], name: &'f str) -> Option<&'f str> {
    let value = values(fields, name).next()?;
    std::str::from_utf8(value).ok()
}
