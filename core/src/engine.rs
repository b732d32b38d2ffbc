//! What all clones of a store and all tickets share: the backend, and what this process keeps beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(not(unix))]
use crate::backend::alone::Hub;
#[cfg(unix)]
use crate::backend::attached::Hub;
use crate::backend::local::Terms;
use crate::backend::{Backend, Decided, Durability, wait};
use crate::error::{Error, Result};
#[cfg(unix)]
use crate::fork::Heir;
use crate::fork::Origin;
use crate::info::Info;
use crate::key::Key;
use crate::lanes::Lanes;
use crate::lifecycle::{Answer, Event, Verb};
use crate::nonce;
use crate::record::{Policy, State};
use crate::reserve::Reserve;
use crate::stats::{Book, Counters, Stats};
use crate::store::{Resolution, Resolved};
use crate::time::NEVER_US;
use crate::timer::Timers;
use crate::value::Value;
use crate::watchdog::Watchdog;

/// How many open records are looked at for the count of the unresolved.
const MAX_OPEN_LOOKED_AT: usize = 100_000;

/// What all clones of a store and all tickets share.
pub(crate) struct Engine {
    life: Life,
    /// The same in a process that was forked from the one that opened the store, and has a place of its own in it.
    #[cfg(unix)]
    heir: Heir<Life>,
    /// On which terms that process takes part; `None`: it may not.
    terms: Option<Terms>,
    durability: Durability,
    in_doubt: Policy,
    place: String,
    max_result_bytes: usize,
}

/// What an engine has in one process.
struct Life {
    hub: Hub,
    origin: Origin,
    book: Book,
    watchdog: Watchdog,
    lanes: Lanes,
    reserve: Reserve,
}

impl Life {
    fn with(hub: Hub) -> Self {
        Self {
            hub,
            origin: Origin::here(),
            book: Book::new(),
            watchdog: Watchdog::new(),
            lanes: Lanes::default(),
            reserve: Reserve::default(),
        }
    }
}

impl Engine {
    /// Ends the doubt about a key.
    pub(crate) fn resolve_at(&self, key: &Key, resolution: Resolution) -> Result<Resolved> {
        let seen = wait(self.backend().load(&[key]))?;
        let Some(record) = seen.first().and_then(|seen| seen.record()) else {
            return Ok(Resolved::Absent);
        };
        self.resolve(key, record.fence, resolution)
    }

    /// `terms`: on which a process that is forked later takes part; `None` when it may not.
    pub(crate) fn new(
        hub: Hub,
        terms: Option<Terms>,
        durability: Durability,
        in_doubt: Policy,
        place: String,
        max_result_bytes: usize,
    ) -> Self {
        Self {
            life: Life::with(hub),
            #[cfg(unix)]
            heir: Heir::none(),
            terms,
            durability,
            in_doubt,
            place,
            max_result_bytes,
        }
    }

    /// What this process has. A forked child touches nothing that its parent had: a lock may have been held at the fork.
    #[inline]
    fn here(&self) -> &Life {
        #[cfg(unix)]
        if self.life.origin.is_foreign()
            && let Some(terms) = &self.terms
        {
            return self.heir.or_make(|| Life::with(self.life.hub.heir(terms)));
        }
        &self.life
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.here().hub
    }

    pub(crate) fn resolve(
        &self,
        key: &Key,
        fence: u64,
        resolution: Resolution,
    ) -> Result<Resolved> {
        let resolution = match resolution {
            Resolution::Value(value) => {
                self.check_length(value.as_bytes().len())?;
                crate::lifecycle::Resolution::Value(Some(value))
            }
            Resolution::Executed => crate::lifecycle::Resolution::Value(None),
            Resolution::Failure(failure) => crate::lifecycle::Resolution::Failure(failure),
            Resolution::Rerun => crate::lifecycle::Resolution::Rerun,
        };
        let verb = Verb::Resolve { fence, resolution };
        match wait(self.tell(key, nonce::fresh(), verb, Durability::Sync))? {
            Answer::Done { .. } => Ok(Resolved::Resolved),
            Answer::Absent => Ok(Resolved::Absent),
            _ => Ok(Resolved::NotInDoubt),
        }
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.here().hub.backend()
    }

    pub(crate) fn fingerprint_secret(&self) -> &[u8; 32] {
        self.life.hub.fingerprint_secret()
    }

    pub(crate) fn timers(&self) -> &Timers {
        self.hub().timers()
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.here().reserve
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.here().lanes
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.here().watchdog
    }

    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    pub(crate) fn in_doubt(&self) -> Policy {
        self.in_doubt
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.hub().clock().now_us()
    }

    /// Whether a call may have to wait for another process.
    pub(crate) fn is_remote(&self) -> bool {
        self.hub().is_remote()
    }

    /// An error in a process that was forked from the one that opened a store that is not shared.
    pub(crate) fn check_here(&self) -> Result<()> {
        match self.terms {
            Some(_) => Ok(()),
            None => self.life.origin.check(),
        }
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.terms.is_none() && self.life.origin.is_foreign()
    }

    pub(crate) fn session(&self) -> u64 {
        self.hub().session()
    }

    pub(crate) fn counters(&self, operation: &str) -> Arc<Counters> {
        self.here().book.of(operation)
    }

    pub(crate) fn max_result_bytes(&self) -> usize {
        self.max_result_bytes
    }

    pub(crate) fn check_length(&self, bytes: usize) -> Result<()> {
        match bytes <= self.max_result_bytes() {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the result is {bytes} bytes long, and the store keeps {}: keep a reference instead",
                self.max_result_bytes()
            ))),
        }
    }

    /// The value, if the store keeps one so long.
    pub(crate) fn fitting(&self, value: Value, counters: &Counters) -> Option<Value> {
        match self.check_length(value.as_bytes().len()) {
            Ok(()) => Some(value),
            Err(error) => {
                counters.result_not_kept(error.message());
                None
            }
        }
    }

    /// Sends an event for a key, and gives the answer.
    pub(crate) async fn tell(
        &self,
        key: &Key,
        nonce: u64,
        verb: Verb,
        durability: Durability,
    ) -> Result<Answer> {
        self.told(key, nonce, verb, durability)
            .await
            .map(|decided| decided.answer)
    }

    /// [`tell`](Engine::tell), with the record as it stands after it.
    pub(crate) async fn told(
        &self,
        key: &Key,
        nonce: u64,
        verb: Verb,
        durability: Durability,
    ) -> Result<Decided> {
        let event = Event { nonce, verb };
        self.backend().update(key, &event, None, durability).await
    }

    /// Sends an event for a key without waiting for anything; `None` when that would need waiting.
    pub(crate) fn tell_at_once(
        &self,
        key: &Key,
        nonce: u64,
        verb: Verb,
        durability: Durability,
    ) -> Option<Result<Decided>> {
        let event = Event { nonce, verb };
        self.backend().update(key, &event, None, durability).now()
    }

    pub(crate) fn info(
        &self,
        key: &[u8],
        content: &crate::codec::Content,
        now_us: u64,
    ) -> Option<Info> {
        let gone = matches!(content, crate::codec::Content::Record(record) if self.hub().is_gone(record.holder.session));
        Info::of(key, content, now_us, gone)
    }

    pub(crate) fn unresolved(&self) -> Result<Vec<Info>> {
        let now_us = self.now_us();
        let mut found: Vec<Info> = Vec::new();
        // A lease without end stands at the end of time, and may be that of a dead process.
        for until_us in [now_us, NEVER_US] {
            for (key, content) in self.backend().open_records(until_us, MAX_OPEN_LOOKED_AT)? {
                let crate::codec::Content::Record(record) = &content else {
                    continue;
                };
                let endless = matches!(
                    record.state,
                    State::Running {
                        lease_until_us: NEVER_US
                    }
                );
                let gone = endless && self.hub().is_gone(record.holder.session);
                if record.unresolved(now_us, gone) && (until_us == now_us || endless) {
                    found.extend(Info::of(&key, &content, now_us, gone));
                }
            }
        }
        found.sort_by_key(|info| info.doubt.as_ref().map(|(since_us, _)| *since_us));
        Ok(found)
    }

    pub(crate) fn stats(&self) -> Stats {
        if self.is_foreign() {
            return Stats::default();
        }
        let accounts = self.hub().accounts();
        let facts = accounts.facts;
        let unresolved = self.unresolved().unwrap_or_default();
        let mut by_operation: BTreeMap<&str, u64> = BTreeMap::new();
        for info in &unresolved {
            *by_operation.entry(&info.operation).or_default() += 1;
        }
        Stats {
            records: facts.entries,
            unresolved: unresolved.len() as u64,
            oldest_unresolved_us: unresolved
                .first()
                .and_then(|info| info.doubt.as_ref().map(|(since_us, _)| *since_us)),
            swept: facts.swept,
            queued_bytes: facts.queued_bytes,
            log_bytes: facts.log_bytes,
            live_bytes: facts.live_bytes,
            cold_reads: facts.cold_reads,
            commits: facts.commits,
            commit: accounts.commit_times,
            blocked_topics: self.blocked_topics().unwrap_or_default(),
            operations: self
                .here()
                .book
                .snapshot(&accounts.swept_by_operation, &by_operation),
        }
    }
}
