//! Figures of a store as dicts.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use semel::{Copied, Histogram, OperationStats, Stats, Verified};

/// What is known of a store.
pub(crate) fn told<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("records", stats.records)?;
    told.set_item("unresolved", stats.unresolved)?;
    told.set_item("oldest_unresolved_us", stats.oldest_unresolved_us)?;
    told.set_item("swept", stats.swept)?;
    told.set_item("queued_bytes", stats.queued_bytes)?;
    told.set_item("log_bytes", stats.log_bytes)?;
    told.set_item("live_bytes", stats.live_bytes)?;
    told.set_item("cold_reads", stats.cold_reads)?;
    told.set_item("commits", stats.commits)?;
    told.set_item("commit", histogram(py, &stats.commit)?)?;
    told.set_item("blocked_topics", &stats.blocked_topics)?;
    told.set_item("totals", counts(py, &stats.totals())?)?;
    let operations = PyDict::new(py);
    for (name, operation) in &stats.operations {
        let counted = counts(py, operation)?;
        counted.set_item("claim", histogram(py, &operation.claim)?)?;
        counted.set_item("work", histogram(py, &operation.work)?)?;
        operations.set_item(name, counted)?;
    }
    told.set_item("operations", operations)?;
    Ok(told)
}

fn counts<'py>(py: Python<'py>, operation: &OperationStats) -> PyResult<Bound<'py, PyDict>> {
    let counted = PyDict::new(py);
    for (name, count) in operation.counts() {
        counted.set_item(name, count)?;
    }
    counted.set_item("interception_rate", operation.interception_rate())?;
    counted.set_item("hit_rate", operation.hit_rate())?;
    Ok(counted)
}

fn histogram<'py>(py: Python<'py>, times: &Histogram) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("count", times.count())?;
    told.set_item("total_us", times.total_us())?;
    told.set_item("p50_us", times.quantile_us(0.5))?;
    told.set_item("p99_us", times.quantile_us(0.99))?;
    Ok(told)
}

/// What was copied.
pub(crate) fn copied(py: Python<'_>, copied: Copied) -> PyResult<Bound<'_, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("blocks", copied.blocks)?;
    told.set_item("bytes", copied.bytes)?;
    Ok(told)
}

/// What a verification has read, and what is wrong.
pub(crate) fn verified(py: Python<'_>, found: Verified) -> PyResult<Bound<'_, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("blocks", found.blocks)?;
    told.set_item("entries", found.entries)?;
    told.set_item("live", found.live)?;
    told.set_item("bytes", found.bytes)?;
    told.set_item("problems", found.problems)?;
    Ok(told)
}
