//! A process that uses a store which another owns: it asks the owner, finds the next one when it ends, or becomes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use super::finding::Found;
use super::frame::{Head, Kind, Question, Reply};
use super::helpers::Helpers;
use super::late::Late;
use super::link::Link;
use super::owner::Owner;
use super::remote::Slot;
use super::session::{SessionFile, Sessions};
use super::wire::Broken;
use crate::backend::Scanned;
use crate::backend::local::Terms;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::Origin;
use crate::nonce;
use crate::time::{Stopwatch, StoreClock, after, micros};
use crate::timer::Timers;

/// How many connections are kept for later.
const MAX_IDLE_LINKS: usize = 64;
/// How many helpers ask for those who await.
const MAX_HELPERS: usize = 16;
/// How many callers wait at the owner at a time, each with a connection: the others look again and again, so that
/// connections are left for those whom all of them wait for.
const MAX_WAITERS: usize = 128;
/// How long one of them pauses before it looks again.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// How long a store that is closed waits for events that nobody waits for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How many owners may end over one call.
const MAX_OWNERS: usize = 1_000;

/// What was told of a question.
pub(super) enum Told {
    /// The answer, and the reign of the owner that gave it.
    Reply(Vec<Scanned>, Reply, u64),
    /// This process is the owner; `again`: the question may have been asked before that.
    Own { again: bool },
    /// There was nobody to wait; the waiter may look again.
    NoTurn,
}

/// A process that is attached.
pub(crate) struct Client {
    pub(super) terms: Terms,
    pub(super) origin: Origin,
    pub(super) fingerprint_secret: [u8; 32],
    pub(super) session: u64,
    pub(super) sessions: Sessions,
    file: Mutex<Option<SessionFile>>,
    clock: StoreClock,
    timers: Timers,
    /// Set once this process has become the owner.
    pub(super) own: OnceLock<Owner>,
    /// Whoever tries to become it.
    pub(super) taking: Mutex<()>,
    links: Mutex<Vec<Link>>,
    closed: AtomicBool,
    helpers: Helpers,
    waiters: Helpers,
    /// Events that nobody waits for.
    late: Late,
    /// Claims that a helper asks for, by nonce.
    claims: Mutex<HashMap<u64, Arc<Slot>>>,
    /// Callers that wait for a key, by number.
    waiting: Mutex<HashMap<u64, Arc<Slot>>>,
    /// The reign in which something relaxed was written that no barrier has seen to; 0 is none.
    relaxed_in: AtomicU64,
    /// Whether an owner has ended with something relaxed of this process.
    relaxed_lost: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Client {
    pub(super) fn new(terms: Terms, fingerprint_secret: [u8; 32], session: u64) -> Self {
        let clock = StoreClock::anchored(terms.clock.clone(), 0);
        Self {
            sessions: Sessions::of(&terms.place),
            origin: Origin::here(),
            fingerprint_secret,
            session,
            file: Mutex::default(),
            timers: Timers::new(clock.clone()),
            clock,
            own: OnceLock::new(),
            taking: Mutex::default(),
            links: Mutex::default(),
            closed: AtomicBool::new(false),
            helpers: Helpers::new(MAX_HELPERS),
            waiters: Helpers::new(MAX_WAITERS),
            late: Late::new(),
            claims: Mutex::default(),
            waiting: Mutex::default(),
            relaxed_in: AtomicU64::new(0),
            relaxed_lost: AtomicBool::new(false),
            terms,
        }
    }

    pub(super) fn clock(&self) -> &StoreClock {
        &self.clock
    }

    pub(super) fn timers(&self) -> &Timers {
        &self.timers
    }

    pub(super) fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    pub(super) fn late(&self) -> &Late {
        &self.late
    }

    pub(super) fn waiters(&self) -> &Helpers {
        &self.waiters
    }

    pub(super) fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::new(
                ErrorKind::Closed,
                "the store was closed; open it again",
            )),
            false => Ok(()),
        }
    }

    /// Sees to it that others know this process to be alive.
    pub(super) fn be_known(&self) -> Result<()> {
        let mut file = locked(&self.file);
        if file.is_none() {
            *file = Some(SessionFile::hold(&self.terms.place, self.session)?);
        }
        Ok(())
    }

    pub(super) fn keep(&self, link: Link) {
        let mut links = locked(&self.links);
        if links.len() < MAX_IDLE_LINKS && !self.closed.load(Ordering::Acquire) {
            links.push(link);
        }
    }

    /// Asks, of whomever it is that owns the store.
    pub(super) fn ask(&self, frame: &mut [u8], slot: Option<&Slot>) -> Result<Told> {
        let mut again = false;
        for _ in 0..MAX_OWNERS {
            self.check_open()?;
            if self.own.get().is_some() {
                return Ok(Told::Own { again });
            }
            let kept = locked(&self.links).pop();
            let mut link = match kept {
                Some(link) => link,
                None => match self.find()? {
                    Found::Link(link) => link,
                    Found::Own => continue,
                },
            };
            if slot.is_some_and(|slot| !slot.asked_at(Some(link.stream()))) {
                return Ok(Told::NoTurn);
            }
            let until_us = after(self.clock.now_us(), micros(self.terms.silence));
            Head::stamp(frame, until_us, again);
            let asked = link.ask(frame);
            if slot.is_some_and(|slot| !slot.asked_at(None)) {
                self.check_open()?;
                return Ok(Told::NoTurn);
            }
            match asked {
                Ok((found, reply)) => {
                    let reign = link.reign;
                    self.keep(link);
                    return Ok(Told::Reply(found, reply.checked()?, reign));
                }
                Err(Broken::Gone) => {
                    again = true;
                    let reign = link.reign;
                    locked(&self.links).retain(|other| other.reign != reign);
                }
                Err(Broken::Silent | Broken::Full) => return Err(self.silent(link.pid)),
                Err(Broken::Garbled(error)) => return Err(error),
            }
        }
        Err(Error::unavailable(
            "one process after the other that held the store has ended over this call; see why they do",
        ))
    }

    /// [`ask`](Self::ask) for something that may take long, and ends when this store is closed.
    pub(super) fn ask_and_wait(&self, frame: &mut [u8], slot: &Arc<Slot>) -> Result<Told> {
        let number = nonce::fresh();
        let mut waiting = locked(&self.waiting);
        if waiting.len() >= MAX_WAITERS {
            drop(waiting);
            std::thread::sleep(PAUSE);
            return Ok(Told::NoTurn);
        }
        waiting.insert(number, Arc::clone(slot));
        drop(waiting);
        let told = self.ask(frame, Some(slot));
        locked(&self.waiting).remove(&number);
        told
    }

    /// Asks for something that has an answer at once.
    pub(super) fn ask_now(&self, question: &Question<'_>) -> Result<Told> {
        self.late.wait(self.terms.silence);
        self.ask(&mut Head::frame(Kind::Question, question)?, None)
    }

    /// Sends a question whose answer nobody needs.
    pub(super) fn send(self: &Arc<Self>, question: &Question<'_>) {
        if let Ok(mut frame) = Head::frame(Kind::Question, question)
            && self.check_open().is_ok()
        {
            let client = Arc::clone(self);
            self.helpers.start(move || {
                let _ = client.ask(&mut frame, None);
            });
        }
    }

    pub(super) fn silent(&self, pid: u32) -> Error {
        let who = match pid {
            0 => "the process that holds the store".to_owned(),
            pid => format!("process {pid}, which holds the store,"),
        };
        Error::unavailable(format!(
            "{who} has not answered for {:?}: it is stopped, or its machine is overloaded; whether the call took effect is unknown, and asking again is safe",
            self.terms.silence
        ))
    }

    /// Notes that a claim is being asked for, or is no more.
    pub(super) fn note_claim(&self, claim: u64, slot: Option<&Arc<Slot>>) {
        let mut claims = locked(&self.claims);
        match slot {
            Some(slot) => drop(claims.insert(claim, Arc::clone(slot))),
            None => drop(claims.remove(&claim)),
        }
    }

    /// Asks something that takes a claim back: after the claim, if that is still on its way.
    pub(super) fn after_claim(&self, claim: u64, frame: Vec<u8>) -> Option<Vec<u8>> {
        let slot = locked(&self.claims).get(&claim).map(Arc::clone);
        match slot {
            Some(slot) => slot.then(frame).err(),
            None => Some(frame),
        }
    }

    /// There is another owner, and the one before it wrote everything before it let go.
    pub(super) fn follow(&self, before: u64) {
        if before != 0 {
            // If it was there that something relaxed was written, it is on disk.
            let _ =
                self.relaxed_in
                    .compare_exchange(before, 0, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Something relaxed was written.
    pub(super) fn wrote_relaxed(&self, reign: u64) {
        let before = self.relaxed_in.swap(reign, Ordering::AcqRel);
        if before != 0 && before != reign {
            self.relaxed_lost.store(true, Ordering::Release);
        }
    }

    /// Whether a barrier of this owner has seen to everything relaxed.
    pub(super) fn settle_relaxed(&self, reign: u64) -> Result<()> {
        let before = self.relaxed_in.swap(0, Ordering::AcqRel);
        let lost = self.relaxed_lost.swap(false, Ordering::AcqRel);
        match lost || (before != 0 && before != reign) {
            false => Ok(()),
            true => Err(Error::unavailable(
                "the process that held the store has ended since the last sync: what was relaxed and not yet on disk may be lost",
            )),
        }
    }

    /// Leaves the store.
    pub(super) fn close(&self) -> Result<()> {
        self.late.wait(self.terms.silence.min(LAST_WORDS));
        self.closed.store(true, Ordering::Release);
        locked(&self.links).clear();
        for slot in locked(&self.waiting).values() {
            slot.give_up();
        }
        // Whoever is becoming the owner just now has become it after this.
        let _taking = locked(&self.taking);
        let closed = self.own.get().map_or(Ok(()), Owner::close);
        self.timers.close();
        locked(&self.file).take();
        closed
    }

    /// How long it took until something.
    pub(super) fn is_over(&self, since: &Stopwatch, patience: Duration) -> bool {
        since.elapsed() >= patience
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.origin.is_foreign() {
            let _ = self.close();
        }
    }
}
