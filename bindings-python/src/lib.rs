//! `semel._native`: the engine for Python. Rules are in the core; here values are converted, the core is called, and what it
//! answers is converted back. Every call that can block does so with the interpreter let go.

#![expect(
    clippy::result_large_err,
    reason = "an exception, and what is kept of it, passes through each of these once"
)]

mod aio;
mod answers;
mod batch;
mod claim;
mod clock;
mod confirm;
mod errors;
mod failure;
mod ground;
mod http;
mod ids;
mod inbox;
mod kept;
mod ledger;
mod lent;
mod lock;
mod machine;
mod mailbox;
mod names;
mod opening;
mod options;
mod outbox;
mod payload;
mod prepared;
mod record;
mod resolving;
mod rows;
mod run;
mod shared;
mod stats;
mod store;
mod table;
mod times;
mod tokens;
mod transaction;
mod unique;
mod values;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;
    #[pymodule_export]
    use crate::aio::{
        Op, Rules, Running, abandon, begin_acquire, begin_claim, begin_complete,
        begin_complete_without_result, begin_conclude, begin_doubt, begin_fail, begin_release,
        begin_renew, begin_step, conclude_step, give_back, task_number,
    };
    #[pymodule_export]
    use crate::claim::Claim;
    #[pymodule_export]
    use crate::clock::Clock;
    #[pymodule_export]
    use crate::http::{HttpAnswer, HttpAsked, HttpRules, begin_admit, begin_keep};
    #[pymodule_export]
    use crate::ids::Ids;
    #[pymodule_export]
    use crate::ledger::{Ledger, Post};
    #[pymodule_export]
    use crate::lock::Lock;
    #[pymodule_export]
    use crate::machine::{Fire, Machine, Transition};
    #[pymodule_export]
    use crate::mailbox::Mailbox;
    #[pymodule_export]
    use crate::names::Global;
    #[pymodule_export]
    use crate::outbox::Outbox;
    #[pymodule_export]
    use crate::payload::{Json, canonical_bytes, fingerprint};
    #[pymodule_export]
    use crate::prepared::Prepared;
    #[pymodule_export]
    use crate::record::Record;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::table::{Row, Table, Update};
    #[pymodule_export]
    use crate::tokens::{Redeem, Tokens};
    #[pymodule_export]
    use crate::transaction::Transaction;
    #[pymodule_export]
    use crate::unique::{Insert, Unique};

    /// The version of the package.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("GLOBAL", Py::new(module.py(), crate::names::Global)?)
    }
}
