//! The store that this process holds, and the door through which others use it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::porter::Porter;
use super::session::SessionFile;
use crate::backend::Backend;
use crate::backend::local::{Company, Local, Tenancy, Terms};
use crate::error::Result;
use crate::fork::Origin;

/// The store that this process holds, and its door.
pub(crate) struct Owner {
    local: Arc<Local>,
    porter: Option<Arc<Porter>>,
    file: Mutex<Option<SessionFile>>,
    origin: Origin,
}

impl Owner {
    /// Opens the store and lets others in.
    pub(super) fn open(terms: &Terms, session: u64, not_before_us: u64) -> Result<Self> {
        let mut porter = None;
        let mut invite = |place: &Path| {
            porter = Porter::at(place);
            porter.clone().map(|porter| porter as Arc<dyn Company>)
        };
        let tenancy = Tenancy {
            session,
            not_before_us,
            invite: Some(&mut invite),
        };
        let local = Local::open(
            &terms.place,
            terms.options.clone(),
            terms.clock.clone(),
            tenancy,
        )?;
        let local = Arc::new(local);
        let file = match &porter {
            // One that has become the owner has its file already.
            Some(_) if not_before_us == 0 => Some(SessionFile::hold(&terms.place, session)?),
            _ => None,
        };
        if let Some(porter) = &porter {
            porter.serve(&local);
        }
        Ok(Self {
            local,
            porter,
            file: Mutex::new(file),
            origin: Origin::here(),
        })
    }

    /// A store that nobody else may use.
    pub(super) fn alone(local: Local) -> Self {
        Self {
            local: Arc::new(local),
            porter: None,
            file: Mutex::default(),
            origin: Origin::here(),
        }
    }

    pub(super) fn local(&self) -> &Arc<Local> {
        &self.local
    }

    /// Whether the process of a session may be alive.
    pub(super) fn knows(&self, session: u64) -> bool {
        self.porter
            .as_ref()
            .is_some_and(|porter| porter.lives(session))
    }

    /// How many other processes use the store.
    pub(super) fn others(&self) -> usize {
        let own = self.local.session();
        self.porter.as_ref().map_or(0, |porter| porter.others(own))
    }

    /// Lets go of the store: first of those that use it through this process, so that they look for the next owner.
    pub(super) fn close(&self) -> Result<()> {
        self.origin.check()?;
        if let Some(porter) = &self.porter {
            // Those that are being served take a while, and meanwhile nobody answers at the door.
            self.local.say_closing();
            porter.close();
        }
        let closed = self.local.close();
        self.file.lock().unwrap_or_else(|e| e.into_inner()).take();
        closed
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.origin.is_foreign() {
            // Threads that exist in the parent alone are still at it.
            std::mem::forget((self.porter.take(), Arc::clone(&self.local)));
            return;
        }
        // What cannot be written any more was never acknowledged as durable.
        let _ = self.close();
    }
}
