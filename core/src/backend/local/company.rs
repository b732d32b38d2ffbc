//! Other processes, as far as a store that one process holds has to know of them: whether a holder lives, and who knocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Options;
use crate::time::Clock;

/// The processes that use a store beside the one that holds it.
pub(crate) trait Company: Send + Sync {
    /// Whether the process of a session may still be alive.
    fn lives(&self, session: u64) -> bool;
    /// Waits for so long, or until somebody rings; whoever knocks meanwhile is let in.
    fn wait(&self, pause: Duration);
    /// Ends the present or the next wait.
    fn ring(&self);
}

/// Makes the company of a store once its directory is held, and before its log is read: who knocks meanwhile waits.
pub(crate) type Invite<'i> = dyn FnMut(&Path) -> Option<Arc<dyn Company>> + 'i;

/// On which terms a process takes part in a store.
#[derive(Clone)]
pub(crate) struct Terms {
    /// The absolute path of the directory.
    pub(crate) place: PathBuf,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    /// Whether this process may own the store.
    #[cfg_attr(not(unix), expect(dead_code))]
    pub(crate) may_own: bool,
    /// How long an owner may say nothing.
    #[cfg_attr(not(unix), expect(dead_code))]
    pub(crate) silence: Duration,
}

/// What an opening inherits from the time before it.
pub(crate) struct Tenancy<'i> {
    /// The session of this process, which may have used the store as a guest before.
    pub(crate) session: u64,
    /// The store's time as this process has known it: it does not fall.
    pub(crate) not_before_us: u64,
    pub(crate) invite: Option<&'i mut Invite<'i>>,
}

impl Tenancy<'_> {
    /// Of a store that this process holds for itself.
    pub(crate) fn alone() -> Self {
        Self {
            session: crate::nonce::random(),
            not_before_us: 0,
            invite: None,
        }
    }
}

impl super::Shared {
    /// Whether the process of a session is known to be dead. A store that is shared with nobody knows of no other process.
    pub(super) fn is_gone(&self, session: u64) -> bool {
        session != self.session
            && self
                .company
                .as_ref()
                .is_none_or(|company| !company.lives(session))
    }

    /// [`is_gone`](Self::is_gone) for a record, where it makes a difference to a decision: for a lease without end.
    pub(super) fn is_orphan(&self, record: &crate::record::Record) -> bool {
        let endless = matches!(
            record.state,
            crate::record::State::Running {
                lease_until_us: crate::time::NEVER_US
            }
        );
        endless && self.is_gone(record.holder.session)
    }
}
