//! A claim from end to end: the decision, waiting, asking the caller, and the look for twins.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::answer::{Claim, Twin};
use crate::backend::{Admission, Commit, Committed, Decided, Durability, Touched, Turn, Write};
use crate::caller::{Caller, Question};
use crate::codec::{Content, Row};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::fingerprint::{CURRENT_VERSION, Fingerprint};
use crate::info::Info;
use crate::key::Key;
use crate::lifecycle::{Answer, Change, Claiming, Event, Found, Moment, Verb, decide};
use crate::nonce;
use crate::record::Holder;
use crate::request::{Confirmation, OnTwin, Request};
use crate::stats;
use crate::time::{Stopwatch, after, micros};

/// How often a claim that looks for twins may meet a conflict.
const MAX_TWIN_CONFLICTS: usize = 16;
/// How often a claim may be decided anew after it was asked to confirm.
const MAX_CONFIRMATIONS: usize = 4;

/// What a decision of a claim came to: the answer, or an earlier id of the same request that stands in the way.
enum Verdict {
    Decided(Decided, Option<String>),
    Twin(Twin),
}

impl Engine {
    /// Claims the operation of a request.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        request: &Request<'_>,
        caller: Caller,
    ) -> Result<Claim> {
        self.claim_at(request.key()?, request, caller).await
    }

    /// Claims a key on the terms of a request.
    pub(crate) async fn claim_at(
        self: &Arc<Self>,
        key: Key,
        request: &Request<'_>,
        caller: Caller,
    ) -> Result<Claim> {
        // Before anything that has a lock: in a forked child it may never be free.
        self.check_here()?;
        let timing = stats::is_timed().then(Stopwatch::start);
        let mut event = self.claim_event(request, caller)?;
        let counters = self.counters(&request.operation);
        let wait_until_us = if request.wait.is_zero() {
            0
        } else {
            after(self.now_us(), micros(request.wait))
        };
        let mut turn: Option<Turn> = None;
        let mut confirmations = 0;
        let verdict = loop {
            let verdict = self
                .decide_claim(request, &key, &mut event, turn.take())
                .await?;
            let Verdict::Decided(decided, twin) = verdict else {
                break verdict;
            };
            match &decided.answer {
                Answer::Busy { .. } if self.may_wait(&key, &decided, caller, wait_until_us) => {
                    let version = decided.record.as_ref().map_or(0, |record| record.version);
                    turn = Some(self.backend().changed(&key, version, wait_until_us).await?);
                }
                Answer::Ask { .. } => {
                    confirmations += 1;
                    match self.confirm(request, &key, &event, decided, caller).await? {
                        Some(decided) => break Verdict::Decided(decided, twin),
                        None => event.nonce = nonce::fresh(),
                    }
                    if let Verb::Claim(claiming) = &mut event.verb {
                        claiming.can_confirm = confirmations < MAX_CONFIRMATIONS;
                    }
                }
                _ => break Verdict::Decided(decided, twin),
            }
        };
        let claim = match verdict {
            Verdict::Decided(decided, twin) => {
                let attempt = decided.record.as_ref().map_or(0, |record| record.attempt);
                counters.answered(&decided.answer, attempt);
                if twin.is_some() {
                    counters.twin();
                }
                self.answer(request, &key, decided, twin, &counters)?
            }
            Verdict::Twin(twin) => {
                counters.twin();
                counters.refused_twin();
                Claim::Twin(twin)
            }
        };
        if let Some(timing) = timing {
            counters.claim_took(timing.elapsed());
        }
        Ok(claim)
    }

    fn claim_event(&self, request: &Request<'_>, caller: Caller) -> Result<Event> {
        let terms = request.terms(self.in_doubt())?;
        let fingerprint = match &request.payload {
            Some(payload) => Some(Arc::new(Fingerprint::keyed(
                self.fingerprint_secret(),
                CURRENT_VERSION,
                payload,
            )?)),
            None => None,
        };
        let claiming = Claiming {
            terms,
            fingerprint,
            holder: self.holder(request, caller),
            can_confirm: request.confirm.is_some(),
        };
        Ok(Event {
            nonce: nonce::fresh(),
            verb: Verb::Claim(claiming),
        })
    }

    fn holder(&self, request: &Request<'_>, caller: Caller) -> Holder {
        Holder {
            session: self.session(),
            caller: caller.number(),
            label: request.holder.as_deref().map(Arc::from),
        }
    }

    /// Whether the caller has time left, and would not be waiting for himself.
    fn may_wait(&self, key: &Key, decided: &Decided, caller: Caller, wait_until_us: u64) -> bool {
        if wait_until_us == 0 || self.now_us() >= wait_until_us {
            return false;
        }
        let own = decided.record.as_ref().is_some_and(|record| {
            record.holder.session == self.session() && caller.is(record.holder.caller)
        });
        !own && !Question::is_open(self.number(), key)
    }

    /// Tells this store from others of the process.
    fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// One decision, with the fingerprint in the version that the record was written with.
    async fn decide_claim(
        &self,
        request: &Request<'_>,
        key: &Key,
        event: &mut Event,
        turn: Option<Turn>,
    ) -> Result<Verdict> {
        let verdict = self.decide_once(request, key, event, turn).await?;
        let Verdict::Decided(decided, _) = &verdict else {
            return Ok(verdict);
        };
        let (Answer::Mismatch { .. }, Some(record), Some(payload)) =
            (&decided.answer, &decided.record, &request.payload)
        else {
            return Ok(verdict);
        };
        let kept = record
            .fingerprint
            .as_ref()
            .map_or(CURRENT_VERSION, |kept| kept.version);
        let Verb::Claim(claiming) = &mut event.verb else {
            return Ok(verdict);
        };
        if claiming
            .fingerprint
            .as_ref()
            .is_none_or(|given| given.version == kept)
        {
            return Ok(verdict);
        }
        claiming.fingerprint = Some(Arc::new(Fingerprint::keyed(
            self.fingerprint_secret(),
            kept,
            payload,
        )?));
        self.decide_once(request, key, event, None).await
    }

    async fn decide_once(
        &self,
        request: &Request<'_>,
        key: &Key,
        event: &Event,
        turn: Option<Turn>,
    ) -> Result<Verdict> {
        let mut withdrawal = Withdrawal::of(self, key, event.nonce);
        withdrawal.twin_key = twin_key(request, key, event);
        let verdict = match request.twin_window {
            None => self
                .backend()
                .update(key, event, turn, self.durability_of(request))
                .await
                .map(|decided| Verdict::Decided(decided, None)),
            Some(_) => self.decide_with_twins(request, key, event).await,
        };
        withdrawal.off();
        verdict
    }

    fn durability_of(&self, request: &Request<'_>) -> Durability {
        request.durability.unwrap_or(self.durability())
    }

    /// The record of the key and the small record of the fingerprint, in one commit.
    async fn decide_with_twins(
        &self,
        request: &Request<'_>,
        key: &Key,
        event: &Event,
    ) -> Result<Verdict> {
        let Some(twin_key) = twin_key(request, key, event) else {
            return Err(Error::invalid(
                "twin_window needs a payload: twins are told by it",
            ));
        };
        let window_us = request.twin_window.map_or(0, micros);
        for _ in 0..MAX_TWIN_CONFLICTS {
            let seen = self.backend().load(&[key, &twin_key]).await?;
            let [at_key, at_twin] = &seen[..] else {
                return Err(Error::corrupt(
                    "the store read another number of keys than it was asked; report this",
                ));
            };
            let now_us = at_key.now_us;
            let first = at_twin
                .row()
                .filter(|row| now_us < row.forgotten_at_us)
                .and_then(|row| String::from_utf8(row.bytes.clone()).ok());
            let twin = first.clone().filter(|first| *first != *request.id);
            let moment = Moment {
                now_us,
                holder_gone: at_key.holder_gone,
                turn_until_us: 0,
            };
            let step = decide(at_key.record().map(|record| &**record), event, moment);
            let Change::Put(record) = step.change else {
                let decided = Decided {
                    answer: step.answer,
                    record: at_key.record().cloned(),
                };
                return Ok(Verdict::Decided(decided, twin));
            };
            if let (Some(first_id), Some(row), OnTwin::Refuse) =
                (&twin, at_twin.row(), request.on_twin)
            {
                let twin = self.twin(request, first_id, row.version).await?;
                return Ok(Verdict::Twin(twin));
            }
            let row = Row {
                version: 0,
                nonce: event.nonce,
                forgotten_at_us: after(now_us, window_us),
                order: 0,
                bytes: request.id.as_bytes().to_vec(),
            };
            let commit = Commit {
                keys: vec![
                    Touched {
                        key,
                        version: at_key.version(),
                        write: Some(Write::Record(record)),
                    },
                    Touched {
                        key: &twin_key,
                        version: at_twin.version(),
                        write: first.is_none().then_some(Write::Row(row)),
                    },
                ],
                nonce: event.nonce,
                durability: self.durability_of(request),
                admission: Admission::Claim,
            };
            if let Committed::Written(contents) = self.backend().commit(&commit).await? {
                let record = contents.into_iter().find_map(|content| match content {
                    Content::Record(record) => Some(record),
                    Content::Row(_) => None,
                });
                return Ok(Verdict::Decided(
                    Decided {
                        answer: step.answer,
                        record,
                    },
                    twin,
                ));
            }
        }
        Err(Error::new(
            ErrorKind::TransactionConflict,
            format!(
                "the claim met {MAX_TWIN_CONFLICTS} conflicts in a row on the key or its twin record; try again"
            ),
        ))
    }

    /// The operation that a twin is one of; `noted_us` is when its id was noted.
    async fn twin(&self, request: &Request<'_>, first_id: &str, noted_us: u64) -> Result<Twin> {
        let key = Key::claim(&request.scope, &request.operation, first_id)?;
        let seen = self.backend().load(&[&key]).await?;
        let first = seen
            .first()
            .and_then(|seen| Some((seen.record()?, seen.now_us)))
            .filter(|(record, now_us)| !record.forgotten(*now_us));
        Ok(Twin {
            first_id: first_id.to_owned(),
            attempt: first.map_or(1, |(record, _)| record.attempt),
            first_executed_us: first.map_or(noted_us, |(record, _)| record.first_us),
        })
    }

    /// Asks the caller about an attempt in doubt, with no lock held. `None`: decide again.
    async fn confirm(
        self: &Arc<Self>,
        request: &Request<'_>,
        key: &Key,
        event: &Event,
        decided: Decided,
        caller: Caller,
    ) -> Result<Option<Decided>> {
        let (Some(confirm), Some(record)) = (&request.confirm, &decided.record) else {
            return Ok(Some(decided));
        };
        let info = Info::of_record(key.as_bytes(), record, self.now_us(), false);
        let ask = |info: &Info| {
            let _question = Question::about(self.number(), key);
            confirm(info)
        };
        // A panic knows nothing: still in doubt.
        let found = match info.map(|info| catch_unwind(AssertUnwindSafe(|| ask(&info)))) {
            Some(Ok(Confirmation::Done(value))) => {
                Found::Done(self.fitting(value, &self.counters(&request.operation)))
            }
            Some(Ok(Confirmation::NotDone)) => Found::NotDone {
                holder: self.holder(request, caller),
                terms: request.terms(self.in_doubt())?,
            },
            _ => Found::Still,
        };
        let verb = Verb::Confirm {
            asked: event.nonce,
            found,
        };
        let outcome = Event {
            nonce: nonce::fresh(),
            verb,
        };
        let withdrawal = Withdrawal::of(self, key, outcome.nonce);
        let decided = self
            .backend()
            .update(key, &outcome, None, self.durability_of(request))
            .await;
        withdrawal.off();
        let decided = decided?;
        Ok(match decided.answer {
            Answer::Execute { .. } | Answer::InDoubt { .. } | Answer::Failed(_) => Some(decided),
            _ => None,
        })
    }
}

/// The key of the small record of the request's fingerprint, when twins are looked for and it has one.
fn twin_key(request: &Request<'_>, key: &Key, event: &Event) -> Option<Key> {
    match (request.twin_window, &event.verb) {
        (Some(_), Verb::Claim(claiming)) => claiming
            .fingerprint
            .as_ref()
            .map(|fingerprint| Key::twin(key, &fingerprint.hash)),
        _ => None,
    }
}

/// Takes a claim back whose caller goes away before the answer can show: nobody will run it. After an error it stands,
/// since it may be on disk.
struct Withdrawal<'a> {
    engine: &'a Engine,
    key: &'a Key,
    claimed: u64,
    /// Where the claim has left its id for twins to be told by: of an operation that never began nobody is the twin.
    twin_key: Option<Key>,
}

impl<'a> Withdrawal<'a> {
    fn of(engine: &'a Engine, key: &'a Key, claimed: u64) -> Self {
        Self {
            engine,
            key,
            claimed,
            twin_key: None,
        }
    }

    fn off(mut self) {
        self.twin_key = None;
        std::mem::forget(self);
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let withdrawal = Event {
            nonce: nonce::fresh(),
            verb: Verb::Withdraw {
                claimed: self.claimed,
            },
        };
        let backend = self.engine.backend();
        backend.withdraw(self.key, &withdrawal, self.twin_key.as_ref());
    }
}
