//! What a store counts for all who use it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Local;
use crate::backend::{Backend, Facts};
use crate::histogram::Histogram;

/// What a store counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Accounts {
    pub(crate) facts: Facts,
    pub(crate) commit_times: Histogram,
    pub(crate) swept_by_operation: BTreeMap<String, u64>,
}

impl Local {
    pub(crate) fn accounts(&self) -> Accounts {
        Accounts {
            facts: self.facts(),
            commit_times: self.shared.commit_times.snapshot(),
            swept_by_operation: self.shared.swept_by_operation.lock().clone(),
        }
    }
}
