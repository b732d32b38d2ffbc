//! Ledger: postings in integer minor units, each under a business number, each once.

use pyo3::prelude::*;
use semel::{Post as Answer, Retain};

use crate::ground::Ground;
use crate::names;
use crate::times;

/// What a posting came to. Amounts are integers in the smallest unit.
#[pyclass(frozen, get_all, module = "semel", name = "Post")]
pub(crate) struct Post {
    /// "posted", "already_posted", "mismatch" (the number was used for another amount), or "insufficient".
    answer: &'static str,
    /// The balance after the posting; for "insufficient", the balance as it is; None for "mismatch".
    balance: Option<i64>,
    /// The amount for which the number was used, for "mismatch".
    delta: Option<i64>,
}

#[pymethods]
impl Post {
    fn __repr__(&self) -> String {
        match self.balance {
            Some(balance) => format!("<semel.Post {}, balance {balance}>", self.answer),
            None => format!("<semel.Post {}>", self.answer),
        }
    }
}

/// A ledger of a store.
///
/// >>> import semel
/// >>> accounts = semel.open("memory:").ledger("account")
/// >>> accounts.post("acc-1", "topup-1", 100).balance
/// 100
/// >>> [accounts.post("acc-1", "biz-9", -30, floor=0).answer for _ in range(2)]
/// ['posted', 'already_posted']
/// >>> accounts.post("acc-1", "biz-10", -71, floor=0).answer
/// 'insufficient'
#[pyclass(frozen, module = "semel", name = "Ledger")]
pub(crate) struct Ledger {
    ground: Ground,
    name: String,
    retain: Retain,
}

impl Ledger {
    pub(crate) fn new(
        ground: Ground,
        name: &str,
        retain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            ground,
            name: name.to_owned(),
            retain: retain.map_or(Ok(Retain::Forever), times::retain)?,
        })
    }
}

#[pymethods]
impl Ledger {
    /// Posts `delta` to an account under a business number, once. With a floor, the balance never falls below it by a
    /// posting that takes away.
    ///
    /// Raises InvalidInput for names that cannot be used and for a balance beyond 64 bits, and StoreError.
    #[pyo3(signature = (account, biz_no, delta, floor=None))]
    fn post(
        &self,
        py: Python<'_>,
        account: &Bound<'_, PyAny>,
        biz_no: &Bound<'_, PyAny>,
        delta: &Bound<'_, PyAny>,
        floor: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Post> {
        let (account, biz_no) = (names::id("account", account)?, names::id("biz_no", biz_no)?);
        let delta = amount("delta", delta)?;
        let floor = floor.map(|floor| amount("floor", floor)).transpose()?;
        let told = self.ground.call(py, |tx| {
            tx.ledger(&self.name)
                .retain(self.retain)
                .post(&account, &biz_no, delta, floor)
        })?;
        let (balance, delta) = match told {
            Answer::Posted(balance)
            | Answer::AlreadyPosted(balance)
            | Answer::Insufficient(balance) => (Some(balance), None),
            Answer::Mismatch(delta) => (None, Some(delta)),
        };
        Ok(Post {
            answer: told.name(),
            balance,
            delta,
        })
    }

    /// The balance of an account; 0 when nothing was ever posted.
    fn balance(&self, py: Python<'_>, account: &Bound<'_, PyAny>) -> PyResult<i64> {
        let account = names::id("account", account)?;
        self.ground
            .call(py, |tx| tx.ledger(&self.name).balance(&account))
    }
}

/// A whole number of 64 bits, in the smallest unit.
fn amount(name: &str, given: &Bound<'_, PyAny>) -> PyResult<i64> {
    let whole = given.is_instance_of::<pyo3::types::PyInt>()
        && !given.is_instance_of::<pyo3::types::PyBool>();
    let number = whole.then(|| given.extract::<i64>().ok()).flatten();
    number.ok_or_else(|| {
        crate::errors::invalid(
            given.py(),
            format!("{name} is {given:?}; give a whole number of 64 bits in the smallest unit, such as cents"),
        )
    })
}
