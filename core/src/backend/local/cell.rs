//! One key in memory: its value under a lock, where that value is in the log, and who waits for it to change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::sync::{Mutex, MutexGuard};

use super::line::Line;
use super::loc::Loc;
use crate::codec::Content;
use crate::key::Key;
use crate::lifecycle::{Told, told_unasked};
use crate::record::Record;

/// What a cell takes beside its value, in bytes: itself, its counts, its slot and its place among those that may leave memory.
pub(super) const CELL_BYTES: usize = size_of::<Cell>() + 80;

/// One key in memory.
pub(super) struct Cell {
    state: Mutex<CellState>,
    /// Where the newest durable entry of the key is; set by the committer, which never takes the cell's lock.
    home: AtomicU64,
    /// Used since the clock's hand last came by.
    touched: AtomicBool,
    /// Which of the index's cells it is.
    number: u32,
}

/// What is known of the value.
#[derive(Debug)]
pub(super) enum Held {
    /// It is in the log, at the cell's home.
    Unread,
    /// The key is absent.
    Absent,
    /// This is it.
    Present(Content),
}

impl Held {
    pub(super) fn content(&self) -> Option<&Content> {
        match self {
            Self::Present(content) => Some(content),
            _ => None,
        }
    }

    pub(super) fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Self::Present(Content::Record(record)) => Some(record),
            _ => None,
        }
    }
}

/// What the lock of a cell guards. What a repeat needs comes first, and beside the lock: most calls are repeats, and what
/// they read is all that has to come from memory.
#[repr(C)]
pub(super) struct CellState {
    told: Option<Told>,
    /// The position of the last change, which may still be on its way to the disk.
    pub(super) pos: u64,
    /// The full key; empty until it is known.
    pub(super) key: Key,
    held: Held,
    /// Whether that change was promised to be on disk before it shows.
    pub(super) promised: bool,
    /// Those who wait.
    pub(super) line: Option<Box<Line>>,
    /// What the cell counts for in the index's memory.
    pub(super) weight: u32,
}

impl CellState {
    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    /// What a repeat is told without asking.
    pub(super) fn told(&self) -> Option<&Told> {
        self.told.as_ref()
    }

    /// Makes this the value; gives the one before.
    pub(super) fn hold(&mut self, held: Held) -> Held {
        self.told = held.record().and_then(|record| told_unasked(record));
        std::mem::replace(&mut self.held, held)
    }
}

impl Cell {
    /// A cell of a key that is absent.
    pub(super) fn vacant() -> Self {
        Self::new(Held::Absent, Loc::NONE)
    }

    /// A cell of a key whose value is in the log.
    pub(super) fn unread(loc: Loc) -> Self {
        Self::new(Held::Unread, loc)
    }

    fn new(held: Held, home: Loc) -> Self {
        Self {
            state: Mutex::new(CellState {
                told: None,
                pos: 0,
                key: Key::encoded(&[]),
                held,
                promised: false,
                line: None,
                weight: 0,
            }),
            home: AtomicU64::new(home.bits()),
            touched: AtomicBool::new(false),
            number: 0,
        }
    }

    pub(super) fn set_number(&mut self, number: u32) {
        self.number = number;
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, CellState> {
        self.state.lock()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, CellState>> {
        self.state.try_lock()
    }

    pub(super) fn state_mut(&mut self) -> &mut CellState {
        self.state.get_mut()
    }

    pub(super) fn home(&self) -> Loc {
        Loc::from_bits(self.home.load(Ordering::Acquire))
    }

    /// The committer has put the newest durable entry here; gives where the one before was.
    pub(super) fn set_home(&self, loc: Loc) -> Loc {
        Loc::from_bits(self.home.swap(loc.bits(), Ordering::AcqRel))
    }

    /// Cleaning has moved the entry; nothing happens when there is a newer one.
    pub(super) fn move_home(&self, from: Loc, to: Loc) -> bool {
        self.home
            .compare_exchange(from.bits(), to.bits(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(super) fn touch(&self) {
        // Read first: a line of memory that nobody writes is shared by all processors.
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take_touch(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }
}
