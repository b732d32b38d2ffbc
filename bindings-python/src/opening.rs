//! How a store is opened: its place and options, as keyword arguments.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use semel::{Store, StoreBuilder};

use crate::clock::Clock;
use crate::errors::{OrRaise, invalid};
use crate::options;
use crate::times;

/// The longest result that a store keeps when nothing is said, in bytes.
const DEFAULT_RESULT_BYTES: usize = 1 << 20;

/// The options of a store, by name.
const NAMES: [&str; 13] = [
    "durability",
    "in_doubt",
    "shared",
    "commit_interval",
    "cache_bytes",
    "max_records",
    "max_result_bytes",
    "sweep_interval",
    "archive",
    "accept_rollback",
    "accept_clock",
    "lock_timeout",
    "clock",
];

/// A store that is to be opened.
pub(crate) struct Opening {
    builder: StoreBuilder,
    /// The longest result that it keeps, in bytes.
    pub(crate) max_result_bytes: usize,
}

impl Opening {
    pub(crate) fn of(
        place: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut opening = Self {
            builder: Store::builder(text_of(place)?),
            max_result_bytes: DEFAULT_RESULT_BYTES,
        };
        for (name, value) in options.iter().flat_map(|options| options.iter()) {
            let name = name.cast::<PyString>()?.to_str()?;
            if !(value.is_none() && NAMES.contains(&name)) {
                opening = opening.with(name, &value)?;
            }
        }
        Ok(opening)
    }

    fn with(mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let builder = self.builder;
        self.builder = match name {
            "durability" => builder.durability(options::durability(value)?),
            "in_doubt" => builder.in_doubt(options::policy(value)?),
            "shared" => builder.shared(options::shared(value)?),
            "commit_interval" => builder.commit_interval(times::span(name, value)?),
            "cache_bytes" => builder.cache_bytes(number(name, value)?),
            "max_records" => builder.max_records(number(name, value)? as u64),
            "max_result_bytes" => {
                self.max_result_bytes = number(name, value)?;
                builder.max_result_bytes(self.max_result_bytes)
            }
            "sweep_interval" => match times::span(name, value)? {
                Duration::ZERO => builder.sweep_by_hand(),
                interval => builder.sweep_interval(interval),
            },
            "archive" => builder.archive(PathBuf::from(text_of(value)?)),
            "accept_rollback" => match value.extract::<bool>()? {
                true => builder.accept_rollback(),
                false => builder,
            },
            "accept_clock" => match value.extract::<bool>()? {
                true => builder.accept_clock(),
                false => builder,
            },
            "lock_timeout" => builder.lock_timeout(times::span(name, value)?),
            "clock" => builder.clock(value.cast::<Clock>()?.get().inner.clone()),
            _ => {
                return Err(invalid(
                    value.py(),
                    format!(
                        "a store has no option {name:?}; the options are {}",
                        NAMES.join(", ")
                    ),
                ));
            }
        };
        Ok(self)
    }

    pub(crate) fn open(self, py: Python<'_>) -> PyResult<Store> {
        let builder = self.builder;
        py.detach(|| builder.open()).or_raise(py)
    }
}

fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    value.extract().map_err(|_| {
        invalid(
            value.py(),
            format!("{name} is {value:?}; give a whole number of at least 0"),
        )
    })
}

/// A place as text: a text, or a path.
pub(crate) fn text_of(place: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = place.py();
    let path = py.import("os")?.getattr("fspath")?.call1((place,));
    let text = path
        .ok()
        .and_then(|path| Some(path.cast::<PyString>().ok()?.to_str().ok()?.to_owned()));
    text.ok_or_else(|| {
        invalid(
            py,
            format!("the place is {place:?}; give a text or a pathlib.Path, in UTF-8"),
        )
    })
}
