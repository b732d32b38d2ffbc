//! Tokens: issued before, spent once.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use semel::{Redeem as Answer, Refusal, TokenClaim};

use crate::claim::Claim;
use crate::errors::OrRaise;
use crate::names;
use crate::options::{self, Options, Own, name_of};
use crate::shared::Shared;
use crate::times;

/// What redeeming a token came to; true when it was redeemed.
#[pyclass(frozen, get_all, module = "semel", name = "Redeem")]
pub(crate) struct Redeem {
    /// "redeemed" or "refused".
    answer: &'static str,
    /// Why it was refused: "unknown", "used", "expired", "other_purpose" or "other_scope"; None when it was not.
    reason: Option<&'static str>,
}

impl Redeem {
    fn refused(refusal: Refusal) -> Self {
        Self {
            answer: "refused",
            reason: Some(refusal.name()),
        }
    }
}

#[pymethods]
impl Redeem {
    fn __bool__(&self) -> bool {
        self.reason.is_none()
    }

    fn __repr__(&self) -> String {
        format!("<semel.Redeem {}>", self.reason.unwrap_or(self.answer))
    }
}

/// The tokens of a store.
///
/// >>> import semel
/// >>> tokens = semel.open("memory:").tokens
/// >>> token = tokens.issue("checkout", ttl=300, scope="u1")
/// >>> bool(tokens.redeem(token, "checkout", scope="u1"))
/// True
/// >>> tokens.redeem(token, "checkout", scope="u1").reason
/// 'used'
#[pyclass(frozen, module = "semel", name = "Tokens")]
pub(crate) struct Tokens {
    pub(crate) shared: Arc<Shared>,
}

#[pymethods]
impl Tokens {
    /// Issues a token: 128 random bits as 22 characters that a URL takes as they are. The store keeps its hash alone.
    ///
    /// Raises InvalidInput for a blank purpose or a ttl of zero, and StoreError.
    #[pyo3(signature = (purpose, ttl, *, scope=None))]
    fn issue(
        &self,
        py: Python<'_>,
        purpose: &str,
        ttl: &Bound<'_, PyAny>,
        scope: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let (ttl, scope) = (times::span("ttl", ttl)?, names::maybe_scope(scope)?);
        py.detach(|| self.shared.store.tokens().scope(scope).issue(purpose, ttl))
            .or_raise(py)
    }

    /// Checks and spends a token in one step. A token that is not good is an answer.
    #[pyo3(signature = (token, purpose, *, scope=None))]
    fn redeem(
        &self,
        py: Python<'_>,
        token: &str,
        purpose: &str,
        scope: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Redeem> {
        let scope = names::maybe_scope(scope)?;
        let told = py.detach(|| {
            self.shared
                .store
                .tokens()
                .scope(scope)
                .redeem(token, purpose)
        });
        Ok(match told.or_raise(py)? {
            Answer::Redeemed => Redeem {
                answer: "redeemed",
                reason: None,
            },
            Answer::Refused(refusal) => Redeem::refused(refusal),
        })
    }

    /// Spends a token on an operation and claims it: a repeat with the same token and request is answered by the claim, for
    /// as long as the claim is kept, also after the token's ttl. `id` is the token when it is left out. Options as of
    /// Store.claim; `scope` is that of the token and of the operation.
    ///
    /// Gives a Claim, or a Redeem, which is false, when the token was refused.
    #[pyo3(signature = (token, purpose, operation, id=None, **options))]
    fn claim<'py>(
        &self,
        py: Python<'py>,
        token: &Bound<'py, PyAny>,
        purpose: &str,
        operation: &str,
        id: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let own = Own::of(options)?;
        let options = Options::of(options)?;
        let call = options::call(operation, id.unwrap_or(token), &own)?;
        let (name, scope) = (name_of(&call), call.scope.clone());
        let request = options.request(py, call);
        let token = names::text("token", token)?;
        let told = py.detach(|| {
            self.shared
                .store
                .tokens()
                .scope(scope)
                .claim(token, purpose, &request)
        });
        match told.or_raise(py)? {
            TokenClaim::Claim(answer) => {
                Ok(Bound::new(py, Claim::new(answer, name, &self.shared))?.into_any())
            }
            TokenClaim::Refused(refusal) => {
                Ok(Bound::new(py, Redeem::refused(refusal))?.into_any())
            }
        }
    }
}
