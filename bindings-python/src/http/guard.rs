//! The rules of a route, as keyword arguments say them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use semel::Policy;
use semel::http::{FieldRules, Guard, KeySource, QueryRule, StatusPolicy};

use crate::errors::{OrRaise, invalid};
use crate::names;
use crate::options;
use crate::times;

/// The rules of a route, by name.
const NAMES: [&str; 15] = [
    "operation",
    "methods",
    "key",
    "required",
    "query",
    "policy",
    "keep_fields",
    "max_body_bytes",
    "max_kept_bytes",
    "tokens",
    "lease",
    "retain",
    "remember",
    "wait",
    "in_doubt",
];

/// A guard with these rules over those of `guard`. `None` is "not given".
pub(crate) fn with(mut guard: Guard, rules: Option<&Bound<'_, PyDict>>) -> PyResult<Guard> {
    for (name, value) in rules.iter().flat_map(|rules| rules.iter()) {
        let name = name.cast::<PyString>()?.to_str()?;
        if !(value.is_none() && NAMES.contains(&name)) {
            guard = rule(guard, name, &value)?;
        }
    }
    Ok(guard)
}

fn rule(guard: Guard, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Guard> {
    let py = value.py();
    Ok(match name {
        "operation" => guard.operation(names::text(name, value)?).or_raise(py)?,
        "methods" => guard.methods(texts(name, value)?),
        "key" => guard.key(KeySource::parse(names::text(name, value)?).or_raise(py)?),
        "required" => match value.extract::<bool>()? {
            true => guard,
            false => guard.optional(),
        },
        "query" => guard.query(query(value)?),
        "policy" => guard.policy(policy(name, value)?),
        "keep_fields" => {
            let mut fields = FieldRules::default();
            for field in texts(name, value)? {
                fields = fields.also(&field).or_raise(py)?;
            }
            guard.fields(fields)
        }
        "max_body_bytes" => guard.max_body_bytes(bytes(name, value)?),
        "max_kept_bytes" => guard.max_kept_bytes(bytes(name, value)?),
        "tokens" => guard.tokens(names::text(name, value)?).or_raise(py)?,
        "lease" => guard.lease(times::lease(value)?),
        "retain" => guard.retain(times::retain(value)?),
        "remember" => guard.remember(times::span(name, value)?),
        "wait" => guard.wait(times::span(name, value)?),
        "in_doubt" => match options::policy(value)? {
            Policy::Ask => {
                return Err(invalid(
                    py,
                    "nobody can be asked for a request; say in_doubt=\"hold\", and let somebody resolve what is in doubt",
                ));
            }
            policy => guard.in_doubt(policy),
        },
        _ => {
            return Err(invalid(
                py,
                format!(
                    "there is no rule {name:?}; the rules are {}",
                    NAMES.join(", ")
                ),
            ));
        }
    })
}

fn policy(name: &str, value: &Bound<'_, PyAny>) -> PyResult<StatusPolicy> {
    let named = names::text(name, value)?.parse::<StatusPolicy>();
    named.or_raise(value.py())
}

fn query(value: &Bound<'_, PyAny>) -> PyResult<QueryRule> {
    match value.cast::<PyString>() {
        Ok(word) => match word.to_str()? {
            "all" => Ok(QueryRule::All),
            "ignore" => Ok(QueryRule::Ignore),
            other => Err(invalid(
                value.py(),
                format!("query is {other:?}; it is \"all\", \"ignore\", or a list of names"),
            )),
        },
        Err(_) => texts("query", value).map(QueryRule::Only),
    }
}

fn texts(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let refused = || {
        invalid(
            value.py(),
            format!("{name} is {value:?}; give a list of texts"),
        )
    };
    match value.is_instance_of::<PyString>() {
        // A text is a list of letters.
        true => Err(refused()),
        false => {
            let mut texts = Vec::new();
            for item in value.try_iter().map_err(|_| refused())? {
                texts.push(item?.extract::<String>().map_err(|_| refused())?);
            }
            Ok(texts)
        }
    }
}

fn bytes(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    value.extract().map_err(|_| {
        invalid(
            value.py(),
            format!("{name} is {value:?}; give a whole number of bytes, at least 0"),
        )
    })
}
