//! What all objects of a store share.

use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::module;
use crate::kept;

/// What all objects of a store share.
pub(crate) struct Shared {
    pub(crate) store: semel::Store,
    /// The longest result that the store keeps, in bytes.
    pub(crate) max_result_bytes: usize,
}

impl Shared {
    /// Warns of a result that was not kept.
    pub(crate) fn warn_if_not_kept(&self, py: Python<'_>, kept: &kept::Result) -> PyResult<()> {
        let Some(why) = kept.not_kept(self.max_result_bytes) else {
            return Ok(());
        };
        let class = module(py)?.getattr("ResultNotKept")?;
        let warned = py.import("warnings")?.call_method1(
            intern!(py, "warn"),
            (
                format!("executed, but the result is not kept: {why}; repeats are answered gone"),
                class,
                2,
            ),
        );
        // Where warnings are errors, this one must not hide that the work was done.
        match warned {
            Ok(_) => Ok(()),
            Err(error) => {
                error.write_unraisable(py, None);
                Ok(())
            }
        }
    }
}
