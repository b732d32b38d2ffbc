//! Token: issued before, spent once.
//!
//! Stops: the same form sent twice, the same link opened twice. Does not stop: a client that asks for a new token per try.
//! Choose it for forms and links, where the client has no number of its own for what it is about to do. `redeem`
//! deduplicates: the second is refused. With [`Tokens::claim`] it is idempotence: a retry after a lost answer gets the
//! first result.
//!
//! ```
//! use std::time::Duration;
//! use semel::{Redeem, Refusal, Store};
//!
//! let store = Store::open("memory:")?;
//! let token = store.tokens().issue("checkout", Duration::from_secs(300))?;
//! assert_eq!(store.tokens().redeem(&token, "checkout")?, Redeem::Redeemed);
//! assert_eq!(store.tokens().redeem(&token, "checkout")?, Redeem::Refused(Refusal::Used));
//! # Ok::<(), semel::Error>(())
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::Claim;
use crate::error::{Error, Result};
use crate::key::{Key, MAX_NAME_BYTES, Namespace, Scope, check_name};
use crate::nonce;
use crate::request::{DEFAULT_RENEW_LIMIT, Request};
use crate::store::Store;
use crate::time::micros;
use crate::tx::Tx;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;
/// The longest text that is looked up as a token, in bytes.
const MAX_TOKEN_BYTES: usize = 64;
/// A token that was spent on a claim is kept anew when this part of its time has gone.
const KEPT_ANEW_PART: u64 = 8;

/// What redeeming a token came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redeem {
    /// It was good, and is spent now.
    Redeemed,
    /// It was not; nothing was changed.
    Refused(Refusal),
}

/// Why a token was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such token was issued, or it expired long ago.
    Unknown,
    /// It was spent before.
    Used,
    /// Its time is over.
    Expired,
    /// It was issued for another purpose.
    OtherPurpose,
    /// It was issued in another scope.
    OtherScope,
}

impl Refusal {
    /// The reason's word, the same in every language.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::OtherPurpose => "other_purpose",
            Self::OtherScope => "other_scope",
        }
    }
}

/// What a claim on a token came to.
#[derive(Debug)]
pub enum TokenClaim {
    /// The token is spent on this operation: the answer to the claim, the same for every repeat.
    Claim(Claim),
    /// The token was not good; nothing was changed.
    Refused(Refusal),
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    purpose: String,
    scope: Option<String>,
    expires_us: u64,
    kept_until_us: u64,
    /// The hash of what it was spent on; empty when it was spent on nothing in particular.
    spent_on: Option<Vec<u8>>,
}

/// The tokens of a store.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    store: &'a Store,
    scope: Scope<'a>,
}

impl Store {
    /// Tokens, in the global scope unless [`Tokens::scope`] says otherwise.
    pub fn tokens(&self) -> Tokens<'_> {
        Tokens {
            store: self,
            scope: Scope::Global,
        }
    }
}

impl<'a> Tokens<'a> {
    /// Whose tokens: one of another scope is refused.
    pub fn scope(mut self, scope: impl Into<Scope<'a>>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Issues a token: 128 random bits as 22 characters that a URL takes as they are. The store keeps its hash alone.
    ///
    /// # Errors
    /// `InvalidInput` for a blank purpose or a ttl of zero; store errors.
    pub fn issue(&self, purpose: &str, ttl: Duration) -> Result<String> {
        self.store
            .transaction(|tx| tx.tokens(&self.scope).issue(purpose, ttl))
    }

    /// Checks and spends a token in one step.
    ///
    /// # Errors
    /// `InvalidInput` for a blank purpose; store errors. A token that is not good is an answer.
    pub fn redeem(&self, token: &str, purpose: &str) -> Result<Redeem> {
        self.store
            .transaction(|tx| tx.tokens(&self.scope).redeem(token, purpose))
    }

    /// Spends a token on an operation and claims it: a repeat with the same token and request is answered by the claim, for
    /// as long as the claim is kept, also after the token's ttl.
    ///
    /// ```
    /// use std::time::Duration;
    /// use semel::{Claim, Request, Store, TokenClaim};
    ///
    /// let store = Store::open("memory:")?;
    /// let token = store.tokens().issue("checkout", Duration::from_secs(300))?;
    /// let order = Request::new("order.create", &*token);
    /// let TokenClaim::Claim(Claim::Execute(ticket)) = store.tokens().claim(&token, "checkout", &order)? else { panic!() };
    /// ticket.complete("order 7")?;
    /// let again = store.tokens().claim(&token, "checkout", &order)?; // the answer was lost: sent again
    /// assert!(matches!(again, TokenClaim::Claim(Claim::Replay(first)) if first.decode::<String>()? == "order 7"));
    /// # Ok::<(), semel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Store::claim`].
    pub fn claim(&self, token: &str, purpose: &str, request: &Request<'_>) -> Result<TokenClaim> {
        match self.bind(token, purpose, request)? {
            Redeem::Refused(refusal) => Ok(TokenClaim::Refused(refusal)),
            Redeem::Redeemed => self.store.claim(request).map(TokenClaim::Claim),
        }
    }

    /// Binds a token to an operation, which is then to be claimed: from then on it is good for this operation, and for no
    /// other.
    pub(crate) fn bind(&self, token: &str, purpose: &str, request: &Request<'_>) -> Result<Redeem> {
        let key = request.key()?;
        let terms = request.terms(self.store.0.in_doubt())?;
        let spent_on = blake3::hash(key.as_bytes()).as_bytes().to_vec();
        // The work may take as long as its ticket is renewed; from its end on the claim is kept.
        let work_us = micros(request.renew_limit.unwrap_or(DEFAULT_RENEW_LIMIT));
        let keep_us = work_us
            .saturating_add(terms.retain_us)
            .saturating_add(terms.remember_us);
        self.store.transaction(|tx| {
            tx.tokens(&self.scope)
                .spend(token, purpose, &spent_on, keep_us)
        })
    }
}

/// Tokens within a transaction.
#[derive(Debug)]
pub struct TxTokens<'t, 's> {
    tx: &'t mut Tx<'s>,
    scope: &'t Scope<'t>,
}

impl<'s> Tx<'s> {
    /// Tokens of a scope.
    pub fn tokens<'t>(&'t mut self, scope: &'t Scope<'t>) -> TxTokens<'t, 's> {
        TxTokens { tx: self, scope }
    }
}

impl TxTokens<'_, '_> {
    /// As [`Tokens::issue`].
    ///
    /// # Errors
    /// As [`Tokens::issue`].
    pub fn issue(self, purpose: &str, ttl: Duration) -> Result<String> {
        self.check(purpose)?;
        if ttl.is_zero() {
            return Err(Error::invalid(
                "ttl is zero; the token could never be redeemed: give the time that the user may take",
            ));
        }
        let token = base64url(&nonce::random_bytes::<TOKEN_BYTES>()?);
        let expires_us = self.tx.now_us().saturating_add(micros(ttl));
        let kept = Kept {
            purpose: purpose.to_owned(),
            scope: self.scope.text().map(str::to_owned),
            expires_us,
            // For another ttl, so that who comes late hears "expired" and not "unknown".
            kept_until_us: expires_us.saturating_add(micros(ttl)),
            spent_on: None,
        };
        self.tx.set(&key(&token)?, &kept, kept.kept_until_us)?;
        Ok(token)
    }

    /// As [`Tokens::redeem`].
    ///
    /// # Errors
    /// As [`Tokens::redeem`].
    pub fn redeem(self, token: &str, purpose: &str) -> Result<Redeem> {
        self.spend(token, purpose, &[], 0)
    }

    /// Spends a token on something: spending it on the same thing again is as good as the first time.
    fn spend(self, token: &str, purpose: &str, on: &[u8], keep_us: u64) -> Result<Redeem> {
        self.check(purpose)?;
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Ok(Redeem::Refused(Refusal::Unknown));
        }
        let key = key(token)?;
        let Some(mut kept) = self.tx.get::<Kept>(&key)? else {
            return Ok(Redeem::Refused(Refusal::Unknown));
        };
        let now_us = self.tx.now_us();
        if kept.scope.as_deref() != self.scope.text() {
            return Ok(Redeem::Refused(Refusal::OtherScope));
        }
        if kept.purpose != purpose {
            return Ok(Redeem::Refused(Refusal::OtherPurpose));
        }
        match &kept.spent_on {
            Some(spent) if !on.is_empty() && spent == on => {
                // Its claim may run again and end later than was thought; written when a part of the time has gone.
                let left_us = kept.kept_until_us.saturating_sub(now_us);
                if left_us > keep_us - keep_us / KEPT_ANEW_PART {
                    return Ok(Redeem::Redeemed);
                }
            }
            Some(_) => return Ok(Redeem::Refused(Refusal::Used)),
            None if now_us >= kept.expires_us => return Ok(Redeem::Refused(Refusal::Expired)),
            None => kept.spent_on = Some(on.to_vec()),
        }
        kept.kept_until_us = kept.kept_until_us.max(now_us.saturating_add(keep_us));
        self.tx.set(&key, &kept, kept.kept_until_us)?;
        Ok(Redeem::Redeemed)
    }

    fn check(&self, purpose: &str) -> Result<()> {
        if let Some(scope) = self.scope.text() {
            check_name("scope", scope, MAX_NAME_BYTES)?;
        }
        check_name("purpose", purpose, MAX_NAME_BYTES)
    }
}

fn key(token: &str) -> Result<Key> {
    Key::row(
        Namespace::Token,
        ("tokens", "tokens"),
        ("token", &blake3::hash(token.as_bytes()).to_hex()),
    )
}

/// Base64 with the alphabet of URLs and no padding (RFC 4648, section 5).
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            text.push(char::from(ALPHABET[(word >> (18 - 6 * at)) as usize & 63]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64url_is_that_of_the_standard() {
        let cases: [(&[u8], &str); 5] = [
            (b"", ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (&[0xff, 0xef, 0xbe], "_---"),
        ];
        for (bytes, text) in cases {
            assert_eq!(super::base64url(bytes), text);
        }
    }
}
