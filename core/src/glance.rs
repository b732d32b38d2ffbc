//! The repeat that is answered at a glance: its result is in memory and on disk, and there is nothing to decide.

use std::sync::Arc;

use crate::answer::{Claim, Replay};
use crate::backend::wait;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::Result;
use crate::key::Key;
use crate::request::Request;
use crate::stats;
use crate::time::Stopwatch;

impl Engine {
    /// Claims the operation of a request on this thread.
    pub(crate) fn claim_here(self: &Arc<Self>, request: &Request<'_>) -> Result<Claim> {
        self.check_here()?;
        let key = request.key()?;
        match self.glance(request, &key)? {
            Some(replay) => Ok(Claim::Replay(replay)),
            None => wait(self.claim_at(key, request, Caller::Thread)),
        }
    }

    /// The result of a request that compares no payload and looks for no twins.
    fn glance(&self, request: &Request<'_>, key: &Key) -> Result<Option<Replay>> {
        if request.payload.is_some() || request.twin_window.is_some() {
            return Ok(None);
        }
        let timing = stats::is_timed().then(Stopwatch::start);
        // What cannot be kept is refused, also where nothing would come of it.
        request.terms(self.in_doubt())?;
        let Some(told) = self.backend().glance(key) else {
            return Ok(None);
        };
        let counters = self.counters(&request.operation);
        counters.replayed_at_a_glance();
        if let Some(timing) = timing {
            counters.claim_took(timing.elapsed());
        }
        Ok(Some(Replay {
            value: told.value,
            attempt: told.attempt,
            fence: told.fence,
            first_executed_us: told.first_us,
            twin: None,
        }))
    }
}
