//! Reading what a key holds: from memory, or from the log, which is an error and never an absence when it lacks it.

use super::Shared;
use super::cell::{Cell, CellState, Held};
use crate::backend::Seen;
use crate::codec::{Content, KeyHash, decode_body, split_payload};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::lifecycle::Told;

impl Shared {
    /// Reads the value of a cold cell. A block that is missing has been cleaned away, if the index points elsewhere by
    /// now; if not, it is lost, which is an error and never an absence.
    pub(super) fn read_in(
        &self,
        cell: &Cell,
        state: &mut CellState,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<()> {
        if matches!(state.held(), Held::Unread) {
            let (found, content) = self.read_at_home(&hash, || cell.home())?;
            state.key = Key::encoded(&found);
            state.hold(content.map_or(Held::Absent, Held::Present));
            self.reweigh(state);
        }
        if state.key.as_bytes().is_empty() {
            state.key = Key::encoded(key);
            self.reweigh(state);
        }
        match state.key.as_bytes() == key {
            true => Ok(()),
            false => Err(Error::corrupt(
                "two different keys of the store have one hash; report this, with the store if you can",
            )),
        }
    }

    /// Reads what the log has at a key's place: its key and content.
    pub(super) fn read_at_home(
        &self,
        hash: &KeyHash,
        home: impl Fn() -> super::loc::Loc,
    ) -> Result<(Box<[u8]>, Option<Content>)> {
        let lost = || {
            Error::corrupt(
                "the log lacks a block that the index points to; restore a backup with `semel restore`",
            )
        };
        let log = self.log.as_ref().ok_or_else(lost)?;
        loop {
            let loc = home();
            if let Some((kind, payload)) = log.payload(hash, loc)? {
                let (key, body) = split_payload(&payload).ok_or_else(lost)?;
                return Ok((key.into(), decode_body(kind, body)?));
            }
            if home() == loc {
                return Err(lost());
            }
        }
    }

    /// What a repeat is told, if its record is in memory and shows, and nobody is at it.
    pub(super) fn glance(&self, key: &Key) -> Option<Told> {
        self.index.glance(&self.hash(key.as_bytes()), |cell| {
            let state = cell.try_lock()?;
            let told = state.told()?;
            // Where a fault has ended the writing, what is not on disk shows no more.
            let shows = self.log.is_none() || self.durable.reached(state.pos);
            let tells =
                shows && state.key.as_bytes() == key.as_bytes() && self.now_us() < told.until_us;
            tells.then(|| told.clone())
        })
    }

    /// What a key holds, and what has to be on disk before it shows.
    pub(super) fn look(&self, key: &Key) -> Result<(Seen, u64)> {
        let looked = self.look_at(key);
        if let Ok((Seen { content: None, .. }, _)) = &looked {
            // Whoever forgot the key could not let go of its cell while this call had it.
            self.index.discard_if_vacant(&self.hash(key.as_bytes()));
        }
        self.make_room();
        looked
    }

    fn look_at(&self, key: &Key) -> Result<(Seen, u64)> {
        let now_us = self.now_us();
        let hash = self.hash(key.as_bytes());
        let absent = Seen {
            content: None,
            now_us,
            holder_gone: false,
        };
        let Some(cell) = self.index.find(&hash) else {
            return Ok((absent, 0));
        };
        let mut state = cell.lock();
        self.read_in(&cell, &mut state, hash, key.as_bytes())?;
        if self.log.is_some() && !self.durable.reached(state.pos) {
            self.durable.check()?;
        }
        let content = state.held().content().cloned();
        let holder_gone = state
            .held()
            .record()
            .filter(|record| record.open_since_us().is_some())
            .is_some_and(|record| self.is_gone(record.holder.session));
        let shows_at = if state.promised { state.pos } else { 0 };
        Ok((
            Seen {
                content,
                now_us,
                holder_gone,
            },
            shows_at,
        ))
    }
}
