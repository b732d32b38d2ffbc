//! Durations and moments: seconds, `timedelta` or text as on the command line; moments are aware datetimes in UTC.

use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use semel::{Lease, Retain, duration};

use crate::errors::invalid;
use crate::values::module;

/// The longest duration in seconds that is told from one without end: about 31,700 years.
const MAX_SECONDS: f64 = 1e12;

/// A duration that was given for `name`.
pub(crate) fn span(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let py = given.py();
    let advice = "give seconds, a timedelta, or text like 500ms, 30s, 24h, 1d12h";
    if let Ok(text) = given.cast::<PyString>() {
        return duration::parse(text.to_str()?)
            .map_err(|fault| invalid(py, format!("{name}: {fault}")));
    }
    let seconds = if given.is_instance_of::<PyBool>() {
        None
    } else if given.is_instance_of::<PyInt>() || given.is_instance_of::<PyFloat>() {
        // An integer beyond a float is beyond the limit, too.
        Some(given.extract::<f64>().unwrap_or(f64::INFINITY))
    } else {
        let total = given.getattr(intern!(py, "total_seconds")).ok();
        total
            .map(|total| total.call0()?.extract::<f64>())
            .transpose()?
    };
    let Some(seconds) = seconds else {
        let kind = given.get_type();
        return Err(invalid(py, format!("{name} is a {kind}; {advice}")));
    };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(invalid(
            py,
            format!("{name} is {seconds}, and time does not run backwards; {advice}"),
        ));
    }
    if seconds > MAX_SECONDS {
        return Err(invalid(
            py,
            format!("{name} is {seconds} seconds, which is too long; {advice}"),
        ));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A lease: a duration, or `"never"`.
pub(crate) fn lease(given: &Bound<'_, PyAny>) -> PyResult<Lease> {
    match given.cast::<PyString>() {
        Ok(text) => duration::lease(text.to_str()?)
            .map_err(|fault| invalid(given.py(), format!("lease: {fault}"))),
        Err(_) => span("lease", given).map(Lease::For),
    }
}

/// How long to keep: a duration, or `"forever"`.
pub(crate) fn retain(given: &Bound<'_, PyAny>) -> PyResult<Retain> {
    match given.cast::<PyString>() {
        Ok(text) => duration::retain(text.to_str()?)
            .map_err(|fault| invalid(given.py(), format!("retain: {fault}"))),
        Err(_) => span("retain", given).map(Retain::For),
    }
}

/// A moment, given in microseconds since the Unix epoch, as an aware datetime in UTC.
pub(crate) fn moment(py: Python<'_>, us: u64) -> PyResult<Bound<'_, PyAny>> {
    module(py)?.getattr(intern!(py, "moment"))?.call1((us,))
}

/// [`moment`] of what may not be.
pub(crate) fn maybe_moment(py: Python<'_>, us: Option<u64>) -> PyResult<Bound<'_, PyAny>> {
    match us {
        Some(us) => moment(py, us),
        None => Ok(py.None().into_bound(py)),
    }
}
