//! What a store has for a backend: the one that this process holds, or another process that holds it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::client::{Client, Told};
use super::finding::pause;
use super::frame::{Question, Reply};
use super::link::{Link, Refused};
use super::owner::Owner;
use super::{FINDING_PATIENCE, OPENING_PATIENCE};
use crate::backend::local::{
    ANY_HOLDER, Accounts, BackupFacts, CLOSING_HOLDER, Doing, Local, Options, Tenancy, Terms,
    Verification, doing,
};
use crate::backend::{Backend, Cursor, Scanned};
use crate::error::{Error, ErrorKind, Result};
use crate::fork;
use crate::key::Parts;
use crate::nonce;
use crate::time::{Clock, Stopwatch, StoreClock};
use crate::timer::Timers;

/// The backend of a store.
pub(crate) enum Hub {
    /// This process holds it, and has from the beginning.
    Owner(Owner),
    /// Another process held it when this one came.
    Attached(Arc<Client>),
}

impl Drop for Hub {
    fn drop(&mut self) {
        // An owner closes by itself.
        if let Self::Attached(client) = self
            && !client.origin.is_foreign()
        {
            let _ = client.close();
        }
    }
}

/// Who holds a store.
pub(super) enum Seat<'h> {
    /// This process.
    Own(&'h Arc<Local>),
    /// Another one, which this one asks.
    At(&'h Arc<Client>),
}

impl Hub {
    /// A store that keeps nothing beyond this process.
    pub(crate) fn in_memory(options: Options, clock: Clock) -> Result<Self> {
        Local::in_memory(options, clock).map(|local| Self::Owner(Owner::alone(local)))
    }

    /// A store that no other process may use.
    pub(crate) fn alone(terms: &Terms) -> Result<Self> {
        let (options, clock) = (terms.options.clone(), terms.clock.clone());
        let local = Local::open(&terms.place, options, clock, Tenancy::alone())?;
        Ok(Self::Owner(Owner::alone(local)))
    }

    /// Holds the store, or attaches to who does.
    pub(crate) fn shared(terms: Terms) -> Result<Self> {
        let session = nonce::random();
        let waiting = Stopwatch::start();
        let mut terms_now = terms.clone();
        terms_now.options.lock_timeout = Some(Duration::ZERO);
        loop {
            let mut locked = None;
            let mut full = false;
            if terms.can_own() {
                match Owner::open(&terms_now, session, 0) {
                    Ok(owner) => return Ok(Self::Owner(owner)),
                    Err(error) if error.kind() == ErrorKind::StoreLocked => locked = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let busy = doing(&terms.place) != Doing::Serving;
            match Link::open(&terms.place, session, terms.silence) {
                Ok((link, welcome)) => {
                    let client = Client::new(terms, welcome.fingerprint_secret, session);
                    client.be_known()?;
                    client.clock().set(welcome.now_us);
                    client.keep(link);
                    return Ok(Self::Attached(Arc::new(client)));
                }
                Err(Refused::Nobody) => {}
                Err(Refused::Full) => full = true,
                Err(Refused::Silent) if busy => {}
                Err(Refused::Silent) => {
                    return Err(Error::unavailable(format!(
                        "the process that holds the store in {} has not answered for {:?}: it is stopped, or its machine is overloaded",
                        terms.place.display(),
                        terms.silence
                    )));
                }
                Err(Refused::Error(error)) => return Err(error),
            }
            let patience = match doing(&terms.place) {
                Doing::Serving if full => FINDING_PATIENCE,
                Doing::Serving => ANY_HOLDER,
                Doing::Opening => OPENING_PATIENCE,
                Doing::Closing => CLOSING_HOLDER,
            };
            let patience = terms.options.lock_timeout.unwrap_or(patience);
            if waiting.elapsed() >= patience {
                if full {
                    return Err(too_many(&terms));
                }
                return Err(locked.unwrap_or_else(|| nobody(&terms)));
            }
            pause();
        }
    }

    /// What a forked child has instead of this: a place of its own at whoever owns the store.
    pub(crate) fn heir(&self, terms: &Terms) -> Self {
        let client = Client::new(terms.clone(), *self.fingerprint_secret(), nonce::random());
        // Until the owner says what time it is, the parent's clock is the best there is.
        client.clock().set(self.clock().now_us());
        Self::Attached(Arc::new(client))
    }

    /// Who holds the store now.
    pub(super) fn seat(&self) -> Seat<'_> {
        match self {
            Self::Owner(owner) => Seat::Own(owner.local()),
            Self::Attached(client) => match client.own.get() {
                Some(owner) => Seat::Own(owner.local()),
                None => Seat::At(client),
            },
        }
    }

    /// The store, when this process holds it.
    pub(super) fn own(&self) -> Option<&Arc<Local>> {
        match self {
            Self::Owner(owner) => Some(owner.local()),
            Self::Attached(client) => client.own.get().map(Owner::local),
        }
    }

    /// The backend as it is now.
    #[inline]
    pub(crate) fn backend(&self) -> &dyn Backend {
        match self {
            Self::Owner(owner) => &**owner.local(),
            Self::Attached(_) => self,
        }
    }

    pub(crate) fn clock(&self) -> &StoreClock {
        match self {
            Self::Owner(owner) => owner.local().clock(),
            Self::Attached(client) => client.clock(),
        }
    }

    /// Whether the store takes no calls any more.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Owner(owner) => owner.local().is_closed(),
            Self::Attached(client) => client.check_open().is_err(),
        }
    }

    pub(crate) fn timers(&self) -> &Timers {
        match self {
            Self::Owner(owner) => owner.local().timers(),
            Self::Attached(client) => client.timers(),
        }
    }

    pub(crate) fn session(&self) -> u64 {
        match self {
            Self::Owner(owner) => owner.local().session(),
            Self::Attached(client) => client.session,
        }
    }

    /// Keys the fingerprints of payloads.
    pub(crate) fn fingerprint_secret(&self) -> &[u8; 32] {
        match self {
            Self::Owner(owner) => owner.local().fingerprint_secret(),
            Self::Attached(client) => &client.fingerprint_secret,
        }
    }

    /// Whether a call may have to wait for another process.
    pub(crate) fn is_remote(&self) -> bool {
        self.own().is_none()
    }

    /// How many other processes use the store.
    pub(crate) fn others(&self) -> usize {
        match self {
            Self::Owner(owner) => owner.others(),
            Self::Attached(client) => client.sessions.others(client.session),
        }
    }

    /// Whether the process of a session is known to be dead.
    pub(crate) fn is_gone(&self, session: u64) -> bool {
        session != self.session()
            && match self {
                Self::Owner(owner) => !owner.knows(session),
                Self::Attached(client) => !client.sessions.lives(session),
            }
    }

    /// What the owner counts; nothing, when it cannot be asked.
    pub(crate) fn accounts(&self) -> Accounts {
        if let Some(local) = self.own() {
            return local.accounts();
        }
        match self.ask(&Question::Accounts) {
            Ok(Told::Reply(_, Reply::Accounts(accounts), _)) => *accounts,
            _ => Accounts::default(),
        }
    }

    /// The first row of each space that is kept in order, and the name of the space.
    pub(crate) fn first_rows(&self, limit: usize) -> Result<Vec<(String, Scanned)>> {
        let question = Question::FirstRows {
            limit: limit as u64,
        };
        let Some((found, _)) = self.records(&question)? else {
            return self.own_now()?.first_rows(limit);
        };
        let space = |row: &Scanned| Parts::decode(&row.0).map(|key| key.operation.to_owned());
        let named = found.into_iter();
        Ok(named.filter_map(|row| Some((space(&row)?, row))).collect())
    }

    /// Closes the store for this process.
    pub(crate) fn leave(&self) -> Result<()> {
        match self {
            Self::Owner(owner) => owner.close(),
            Self::Attached(client) => client.close(),
        }
    }

    pub(crate) fn verify(&self) -> Result<Verification> {
        match self.ask(&Question::Verify)? {
            Told::Reply(_, Reply::Verified(found), _) => Ok(found),
            Told::Reply(_, reply, _) => Err(reply.unexpected()),
            _ => self.own_now()?.verify(),
        }
    }

    /// Copies all that is on disk into a new file; the owner writes it.
    pub(crate) fn backup(&self, file: &Path) -> Result<BackupFacts> {
        let named = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        let question = Question::Backup {
            file: named.as_os_str().as_bytes().to_vec(),
        };
        match self.ask(&question)? {
            Told::Reply(_, Reply::Copied(copied), _) => Ok(copied),
            Told::Reply(_, reply, _) => Err(reply.unexpected()),
            _ => self.own_now()?.backup(file),
        }
    }

    /// Asks the owner, unless it is this process.
    pub(super) fn ask(&self, question: &Question<'_>) -> Result<Told> {
        match self {
            Self::Owner(_) => Ok(Told::Own { again: false }),
            Self::Attached(client) => client.ask_now(question),
        }
    }

    pub(super) fn own_now(&self) -> Result<&Arc<Local>> {
        self.own().ok_or_else(|| {
            Error::unavailable("the process that holds the store has just changed; call again")
        })
    }

    /// Records that were asked for.
    pub(super) fn records(
        &self,
        question: &Question<'_>,
    ) -> Result<Option<(Vec<Scanned>, Option<Cursor>)>> {
        match self.ask(question)? {
            Told::Reply(found, Reply::Scanned(next), _) => Ok(Some((found, next))),
            Told::Reply(_, reply, _) => Err(reply.unexpected()),
            _ => Ok(None),
        }
    }
}

fn too_many(terms: &Terms) -> Error {
    Error::unavailable(format!(
        "the process that holds the store in {} serves as many connections as it can; use fewer processes or threads, or try again",
        terms.place.display()
    ))
}

fn nobody(terms: &Terms) -> Error {
    let place = terms.place.display();
    match terms.may_own && fork::is_away() {
        true => fork::check_home().err().unwrap_or_else(|| {
            Error::unavailable(format!("no process serves the store in {place}"))
        }),
        false => Error::unavailable(format!(
            "no process holds the store in {place}, and this one may not (shared = only); start the process that is to hold it, or open it with shared = auto"
        )),
    }
}
