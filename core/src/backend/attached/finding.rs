//! Finding the owner of a store, and becoming it when there is none: whoever gets the lock of the directory owns.

use std::sync::TryLockError;
use std::time::Duration;

use super::client::Client;
use super::holder;
use super::link::{Link, Refused};
use super::owner::Owner;
use super::{FINDING_PATIENCE, OPENING_PATIENCE};
use crate::backend::local::{Doing, Options, Terms, doing, is_store};
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::nonce;
use crate::time::Stopwatch;

/// The longest pause between two looks, in microseconds; each look takes a random part of it.
const MOST_PAUSE_US: u64 = 20_000;

/// When a process that cannot own a store starts one that can, and when another one.
const SUMMON_AFTER: Duration = Duration::from_millis(150);
const SUMMON_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Who owns the store.
pub(super) enum Found {
    /// The process at the other end.
    Link(Link),
    /// This one.
    Own,
}

impl Terms {
    /// Whether this process may hold the store now.
    pub(super) fn can_own(&self) -> bool {
        self.may_own && !fork::is_away()
    }

    /// The same terms for whoever takes a store over that was open a moment ago: nobody has looked at its files meanwhile.
    pub(super) fn to_take_over(&self) -> Self {
        let mut terms = self.clone();
        terms.options = Options {
            accept_rollback: false,
            lock_timeout: Some(Duration::ZERO),
            ..terms.options
        };
        terms
    }
}

/// A pause before the next look, different for each that looks.
pub(super) fn pause() {
    let us = nonce::fresh() % MOST_PAUSE_US + 500;
    std::thread::sleep(Duration::from_micros(us));
}

impl Client {
    /// Finds the owner, or becomes it.
    pub(super) fn find(&self) -> Result<Found> {
        self.be_known()?;
        let looking = Stopwatch::start();
        let mut summoned: Option<Stopwatch> = None;
        loop {
            self.check_open()?;
            if self.own.get().is_some() {
                return Ok(Found::Own);
            }
            let place = &self.terms.place;
            match Link::open(place, self.session, self.terms.silence) {
                Ok((link, welcome)) => {
                    self.check_same(&welcome.fingerprint_secret)?;
                    self.clock().set(welcome.now_us);
                    self.follow(welcome.before);
                    return Ok(Found::Link(link));
                }
                Err(Refused::Nobody) => {
                    if self.terms.can_own() && self.take_over()? {
                        return Ok(Found::Own);
                    }
                    // Not at once: whoever can own it comes first.
                    let is_time = match &summoned {
                        None => looking.elapsed() > SUMMON_AFTER,
                        Some(last) => last.elapsed() > SUMMON_AGAIN_AFTER,
                    };
                    if self.terms.may_own && fork::is_away() && is_time && is_store(place) {
                        holder::summon(place);
                        summoned = Some(Stopwatch::start());
                    }
                }
                Err(Refused::Full) => {}
                // Whoever opens a large store answers when it is open.
                Err(Refused::Silent) if doing(place) == Doing::Opening => {}
                Err(Refused::Silent) => return Err(self.silent(0)),
                Err(Refused::Error(error)) => return Err(error),
            }
            let patience = match doing(place) {
                Doing::Serving => FINDING_PATIENCE,
                Doing::Opening | Doing::Closing => OPENING_PATIENCE,
            };
            if self.is_over(&looking, patience) {
                return Err(self.nobody());
            }
            pause();
        }
    }

    /// Tries to become the owner; whether this process is it now.
    fn take_over(&self) -> Result<bool> {
        let _taking = match self.taking.try_lock() {
            Ok(taking) => taking,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        self.check_open()?;
        if self.own.get().is_some() {
            return Ok(true);
        }
        if !is_store(&self.terms.place) {
            return Err(Error::unavailable(format!(
                "the store in {} is gone; put it back, and open it again",
                self.terms.place.display()
            )));
        }
        let now_us = self.clock().now_us();
        let owner = match Owner::open(&self.terms.to_take_over(), self.session, now_us) {
            Ok(owner) => owner,
            Err(error) if error.kind() == ErrorKind::StoreLocked => return Ok(false),
            Err(error) => return Err(error),
        };
        self.check_same(owner.local().fingerprint_secret())?;
        self.clock().set(owner.local().clock().now_us());
        self.follow(owner.local().predecessor());
        let _ = self.own.set(owner);
        Ok(true)
    }

    /// Refuses a store that is another than the one that was opened.
    fn check_same(&self, fingerprint_secret: &[u8; 32]) -> Result<()> {
        match *fingerprint_secret == self.fingerprint_secret {
            true => Ok(()),
            false => Err(Error::corrupt(format!(
                "in {} there is another store than the one that was opened; open it again, if that is meant",
                self.terms.place.display()
            ))),
        }
    }

    fn nobody(&self) -> Error {
        let place = self.terms.place.display();
        if self.terms.may_own && fork::is_away() {
            return Error::unavailable(format!(
                "no process holds the store in {place}, and this one cannot: it was forked from a process that had opened a store itself. Start a process that opens it (semel hold does nothing else, and is started by itself when it is found beside this program or in PATH), and call again"
            ));
        }
        Error::unavailable(format!(
            "no process that serves the store in {place} was found in {FINDING_PATIENCE:?}; start one, or see what holds it"
        ))
    }
}
