//! What a handler may know of the request that it answers.

use crate::ticket::Ticket;

/// The attempt that answers a guarded request: among the extensions of the request, for the handler.
///
/// Hand [`derive_key`](Self::derive_key) to services that take idempotency keys themselves, and
/// [`fence`](Self::fence) to those that can refuse a lower one: then an attempt that is tried again under
/// [`Policy::Rerun`](crate::Policy::Rerun) has no second effect there.
///
/// ```
/// use semel::http::Running;
///
/// async fn pay(request: http::Request<Vec<u8>>) -> http::Response<Vec<u8>> {
///     // Not there when the request is not guarded. In axum: Option<Extension<Running>>.
///     let running = request.extensions().get::<Running>();
///     let key_for_the_bank = running.map(|running| running.derive_key("charge"));
///     # let _ = key_for_the_bank;
///     http::Response::new(Vec::new())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Running(Ticket);

impl Running {
    pub(super) fn new(ticket: &Ticket) -> Self {
        Self(ticket.clone())
    }

    /// As [`Ticket::derive_key`]: a key for another service that is the same in every attempt.
    pub fn derive_key(&self, name: &str) -> String {
        self.0.derive_key(name)
    }

    /// As [`Ticket::fence`]: a number that is higher for every attempt of the key.
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    /// When the first attempt began: microseconds since the Unix epoch.
    pub fn first_executed_us(&self) -> u64 {
        self.0.first_executed_us()
    }

    /// Whether an earlier attempt ended with unknown effect, so that this one may be the second to take it.
    pub fn is_takeover(&self) -> bool {
        self.0.is_takeover()
    }

    /// Whether the key is known to be lost to another attempt: what this one answers is not kept.
    pub fn lost(&self) -> bool {
        self.0.lost()
    }
}
