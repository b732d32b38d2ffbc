//! What a caller asks for: the operation, its payload, and the rules it is to live by.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::backend::Durability;
use crate::canonical::Canonical;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::key::{Key, Scope};
use crate::record::{Policy, Terms};
use crate::time::{NEVER_US, micros};
use crate::value::Value;

/// The lease that a claim has when none is given.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// The longest lease that ends; beyond it the word is [`Lease::Never`].
pub const MAX_LEASE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// How long a finished record keeps its result when nothing is said.
pub const DEFAULT_RETAIN: Duration = Duration::from_secs(24 * 3600);
/// How long a ticket is renewed when nothing is said.
pub const DEFAULT_RENEW_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// The longest holder label, in bytes of UTF-8.
pub const MAX_HOLDER_BYTES: usize = 255;

/// How long a claim holds its key without a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// This long; renewed at a third of it while the ticket lives.
    For(Duration),
    /// Without end; under [`Policy::Hold`] only. In doubt once the holder's process is gone.
    Never,
}

impl From<Duration> for Lease {
    fn from(duration: Duration) -> Self {
        Self::For(duration)
    }
}

/// How long a finished record keeps its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// This long from its end.
    For(Duration),
    /// For ever.
    Forever,
}

impl From<Duration> for Retain {
    fn from(duration: Duration) -> Self {
        Self::For(duration)
    }
}

/// Whether a ticket's lease is renewed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Renew {
    /// At a third of the lease, while the ticket lives, up to the renew limit.
    #[default]
    On,
    /// By [`Ticket::renew`](crate::Ticket::renew) alone.
    Off,
}

/// What a claim answers when the same payload came under another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnTwin {
    /// The claim goes on; the answer names the first id.
    #[default]
    Report,
    /// The claim answers [`Claim::Twin`](crate::Claim::Twin).
    Refuse,
}

/// What a caller that was asked about an attempt in doubt has found out.
#[derive(Clone, Debug)]
pub enum Confirmation {
    /// It took effect, with this result.
    Done(Value),
    /// It took no effect: run it.
    NotDone,
    /// Still unknown.
    Still,
}

pub(crate) type Confirm<'a> = Arc<dyn Fn(&Info) -> Confirmation + Send + Sync + 'a>;
pub(crate) type OnLost = Arc<dyn Fn(&str) + Send + Sync>;

/// One operation to be claimed: what it is called, and the rules for it. Nothing is checked before it is used.
///
/// ```
/// use std::time::Duration;
/// use semel::{Policy, Request};
///
/// let request = Request::new("order.create", "ORDER_1")
///     .scope("tenant-7")
///     .payload(&serde_json::json!({"amount": 100}))?
///     .lease(Duration::from_secs(30))
///     .retain(Duration::from_secs(24 * 3600))
///     .in_doubt(Policy::Hold);
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone)]
pub struct Request<'a> {
    pub(crate) operation: Cow<'a, str>,
    pub(crate) id: Cow<'a, str>,
    pub(crate) scope: Scope<'a>,
    pub(crate) payload: Option<Arc<Canonical>>,
    pub(crate) lease: Option<Lease>,
    pub(crate) retain: Option<Retain>,
    pub(crate) remember: Duration,
    pub(crate) wait: Duration,
    pub(crate) in_doubt: Option<Policy>,
    pub(crate) confirm: Option<Confirm<'a>>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) retry_window: Option<Duration>,
    pub(crate) twin_window: Option<Duration>,
    pub(crate) on_twin: OnTwin,
    pub(crate) durability: Option<Durability>,
    pub(crate) holder: Option<Cow<'a, str>>,
    pub(crate) on_lost: Option<OnLost>,
    pub(crate) renew: Renew,
    pub(crate) renew_limit: Option<Duration>,
}

impl<'a> Request<'a> {
    /// The operation `operation` (what) with the id `id` (which one), in the global scope.
    pub fn new(operation: impl Into<Cow<'a, str>>, id: impl Into<Cow<'a, str>>) -> Self {
        Self {
            operation: operation.into(),
            id: id.into(),
            scope: Scope::Global,
            payload: None,
            lease: None,
            retain: None,
            remember: Duration::ZERO,
            wait: Duration::ZERO,
            in_doubt: None,
            confirm: None,
            max_attempts: None,
            retry_window: None,
            twin_window: None,
            on_twin: OnTwin::Report,
            durability: None,
            holder: None,
            on_lost: None,
            renew: Renew::On,
            renew_limit: None,
        }
    }

    /// Whose operation it is. The same id in another scope is another operation.
    pub fn scope(mut self, scope: impl Into<Scope<'a>>) -> Self {
        self.scope = scope.into();
        self
    }

    /// What the operation is asked to do: the same id with another payload is answered [`Claim::Mismatch`](crate::Claim::Mismatch).
    ///
    /// # Errors
    /// `InvalidInput` when the payload has no canonical form: not a number, an infinity, a map whose keys are no text.
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Result<Self> {
        self.payload = Some(Arc::new(Canonical::from_serialize(payload)?));
        Ok(self)
    }

    /// The payload as JSON text, read exactly.
    ///
    /// # Errors
    /// `InvalidInput` when the text is no JSON, or JSON without one meaning (duplicate names, lone surrogates).
    pub fn payload_json(mut self, json: &[u8]) -> Result<Self> {
        self.payload = Some(Arc::new(Canonical::from_json(json)?));
        Ok(self)
    }

    /// The payload as bytes that are compared as they are.
    pub fn payload_bytes(mut self, bytes: &[u8]) -> Self {
        self.payload = Some(Arc::new(Canonical::from_bytes(bytes)));
        self
    }

    /// A payload in its canonical form.
    pub fn payload_canonical(mut self, payload: Canonical) -> Self {
        self.payload = Some(Arc::new(payload));
        self
    }

    /// How long the claim holds without a sign of life: 30 s by default, at most [`MAX_LEASE`].
    pub fn lease(mut self, lease: impl Into<Lease>) -> Self {
        self.lease = Some(lease.into());
        self
    }

    /// How long the result is kept from the end of the work: 24 h by default.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = Some(retain.into());
        self
    }

    /// How long after that the bare fact is kept, answered [`Claim::Gone`](crate::Claim::Gone): not at all by default.
    pub fn remember(mut self, remember: Duration) -> Self {
        self.remember = remember;
        self
    }

    /// How long to wait for an attempt that runs: not at all by default.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What happens when an attempt ends with unknown effect; frozen by the first claim of the key.
    pub fn in_doubt(mut self, policy: Policy) -> Self {
        self.in_doubt = Some(policy);
        self
    }

    /// Finds out whether an attempt in doubt took effect, under [`Policy::Ask`]. It runs with no lock held, for up to
    /// 30 s; a panic counts as [`Confirmation::Still`].
    pub fn confirm(mut self, confirm: impl Fn(&Info) -> Confirmation + Send + Sync + 'a) -> Self {
        self.confirm = Some(Arc::new(confirm));
        self
    }

    /// How many attempts may start: without end by default; frozen by the first claim of the key.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// How long the client may go on retrying: a retain and remember that end sooner are refused.
    pub fn retry_window(mut self, window: Duration) -> Self {
        self.retry_window = Some(window);
        self
    }

    /// For how long the same payload under another id counts as a twin: not at all by default. Needs a payload.
    pub fn twin_window(mut self, window: Duration) -> Self {
        self.twin_window = Some(window);
        self
    }

    /// What to do about a twin.
    pub fn on_twin(mut self, on_twin: OnTwin) -> Self {
        self.on_twin = on_twin;
        self
    }

    /// When the calls of this operation return; the store's by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Who claims, in the caller's words; shown to those who find it busy.
    pub fn holder(mut self, holder: impl Into<Cow<'a, str>>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Called, from a thread of the store, as soon as the ticket is known to have lost its key; gets the reason.
    pub fn on_lost(mut self, on_lost: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_lost = Some(Arc::new(on_lost));
        self
    }

    /// Whether the lease is renewed by itself.
    pub fn renew(mut self, renew: Renew) -> Self {
        self.renew = renew;
        self
    }

    /// How long it is renewed at most, against leaked tickets: 24 h by default.
    pub fn renew_limit(mut self, limit: Duration) -> Self {
        self.renew_limit = Some(limit);
        self
    }

    pub(crate) fn key(&self) -> Result<Key> {
        Key::claim(&self.scope, &self.operation, &self.id)
    }

    /// The terms of the request, refused before anything is touched when they cannot be kept.
    pub(crate) fn terms(&self, default_policy: Policy) -> Result<Terms> {
        let in_doubt = self.in_doubt.unwrap_or(default_policy);
        let lease_us = match self.lease.unwrap_or(Lease::For(DEFAULT_LEASE)) {
            Lease::For(Duration::ZERO) => {
                return Err(Error::invalid(
                    "lease is zero; give the time that the work may take without a sign of life, or `never`",
                ));
            }
            Lease::For(lease) if lease > MAX_LEASE => {
                return Err(Error::invalid(format!(
                    "lease is {lease:?}, and the longest is {MAX_LEASE:?}: give the time that the work may take without a sign of life, or `never`"
                )));
            }
            Lease::For(lease) => micros(lease),
            Lease::Never if in_doubt != Policy::Hold => {
                return Err(Error::invalid(
                    "a lease without end goes with in_doubt = hold alone: with another policy nobody would ever run the operation again",
                ));
            }
            Lease::Never => NEVER_US,
        };
        let retain_us = match self.retain.unwrap_or(Retain::For(DEFAULT_RETAIN)) {
            Retain::For(Duration::ZERO) => {
                return Err(Error::invalid(
                    "retain is zero; a repeat would run the operation again: give the time in which repeats can come",
                ));
            }
            Retain::For(retain) => micros(retain),
            Retain::Forever => NEVER_US,
        };
        let remember_us = micros(self.remember);
        if let Some(window) = self.retry_window
            && retain_us.saturating_add(remember_us) < micros(window)
        {
            return Err(Error::invalid(format!(
                "retry_window is {window:?}, but the key is forgotten {:?} after its end: a late retry would run the operation again; let retain + remember cover the window",
                Duration::from_micros(retain_us.saturating_add(remember_us))
            )));
        }
        if self.max_attempts == Some(0) {
            return Err(Error::invalid(
                "max_attempts is zero; the operation could never run: give at least 1, or leave it out",
            ));
        }
        if self.renew_limit == Some(Duration::ZERO) {
            return Err(Error::invalid(
                "renew_limit is zero; turn renewal off with Renew::Off instead",
            ));
        }
        if self.twin_window.is_some_and(|window| window.is_zero()) {
            return Err(Error::invalid(
                "twin_window is zero; leave it out to look for no twins",
            ));
        }
        if self.twin_window.is_some() && self.payload.is_none() {
            return Err(Error::invalid(
                "twin_window needs a payload: twins are told by it",
            ));
        }
        if let Some(holder) = &self.holder {
            crate::key::check_name("holder", holder, MAX_HOLDER_BYTES)?;
        }
        Ok(Terms {
            in_doubt,
            max_attempts: self.max_attempts.unwrap_or(0),
            lease_us,
            retain_us,
            remember_us,
        })
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("operation", &self.operation)
            .field("payload", &self.payload.is_some())
            .finish_non_exhaustive()
    }
}

/// Which operation is meant: its name, id and scope, without rules.
///
/// ```
/// # let store = semel::Store::open("memory:")?;
/// use semel::Identity;
/// assert!(store.lookup(&Identity::new("order.create", "ORDER_1").scope("tenant-7"))?.is_none());
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    operation: Cow<'a, str>,
    id: Cow<'a, str>,
    scope: Scope<'a>,
}

impl<'a> Identity<'a> {
    /// The operation `operation` with the id `id`, in the global scope.
    pub fn new(operation: impl Into<Cow<'a, str>>, id: impl Into<Cow<'a, str>>) -> Self {
        Self {
            operation: operation.into(),
            id: id.into(),
            scope: Scope::Global,
        }
    }

    /// Whose operation it is.
    pub fn scope(mut self, scope: impl Into<Scope<'a>>) -> Self {
        self.scope = scope.into();
        self
    }

    /// 64 hexadecimal digits that no other identity has; a name for it where keys must not show.
    ///
    /// # Errors
    /// `InvalidInput` when a part cannot be a name.
    pub fn digest(&self) -> Result<String> {
        Ok(blake3::hash(self.key()?.as_bytes()).to_hex().to_string())
    }

    pub(crate) fn key(&self) -> Result<Key> {
        Key::claim(&self.scope, &self.operation, &self.id)
    }
}

impl<'a> From<&Request<'a>> for Identity<'a> {
    fn from(request: &Request<'a>) -> Self {
        Self {
            operation: request.operation.clone(),
            id: request.id.clone(),
            scope: request.scope.clone(),
        }
    }
}
