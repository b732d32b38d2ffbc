//! What the index has for a key, in one word: a place in the log, or a cell in memory. Most of a store's keys are cold, so
//! what a slot takes is what a record takes.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::cell::Cell;
use super::loc::Loc;

/// A place whose lowest bit is set, or the address of a cell, whose lowest bit is not.
pub(super) struct Slot {
    word: u64,
    owns: PhantomData<Arc<Cell>>,
}

const COLD: u64 = 1;

impl Slot {
    /// The key's value is in the log alone.
    pub(super) fn cold(loc: Loc) -> Self {
        Self {
            word: loc.bits() << 1 | COLD,
            owns: PhantomData,
        }
    }

    /// The key's value is, or is about to be, in memory.
    pub(super) fn hot(cell: Arc<Cell>) -> Self {
        // A cell holds words: its address is even.
        const { assert!(align_of::<Cell>() > 1) };
        Self {
            word: Arc::into_raw(cell).expose_provenance() as u64,
            owns: PhantomData,
        }
    }

    /// The place, if the key is cold.
    pub(super) fn loc(&self) -> Option<Loc> {
        (self.word & COLD != 0).then(|| Loc::from_bits(self.word >> 1))
    }

    /// The cell, if there is one.
    pub(super) fn cell(&self) -> Option<&Cell> {
        let cell = self.address()?;
        // SAFETY: the address is that of a cell of which this slot owns one count, so it lives as long as the slot.
        Some(unsafe { &*cell })
    }

    /// The cell with a count of its own.
    pub(super) fn share(&self) -> Option<Arc<Cell>> {
        let cell = self.address()?;
        // SAFETY: the address came from `Arc::into_raw`; the count that this takes for a moment is the slot's own, and is
        // not given back.
        let own = ManuallyDrop::new(unsafe { Arc::from_raw(cell) });
        Some(Arc::clone(&own))
    }

    /// The cell, if nobody else has it.
    pub(super) fn cell_mut(&mut self) -> Option<&mut Cell> {
        let cell = self.address()?;
        // SAFETY: as in `share`.
        let mut own = ManuallyDrop::new(unsafe { Arc::from_raw(cell) });
        let only: *mut Cell = Arc::get_mut(&mut own)?;
        // SAFETY: the only count is this slot's, which is borrowed for as long as the result.
        Some(unsafe { &mut *only })
    }

    fn address(&self) -> Option<*const Cell> {
        (self.word & COLD == 0).then(|| std::ptr::with_exposed_provenance(self.word as usize))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(cell) = self.address() {
            // SAFETY: the address came from `Arc::into_raw`, and the count is the slot's own, given back once.
            drop(unsafe { Arc::from_raw(cell) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_one_word() {
        assert_eq!(size_of::<Slot>(), 8);
    }

    #[test]
    fn a_place_comes_back_as_it_went_in() {
        for loc in [
            Loc::NONE,
            Loc::new(1, 16),
            Loc::new((1 << 43) - 1, Loc::MAX_ENTRY_BYTES),
        ] {
            let slot = Slot::cold(loc);
            assert_eq!(slot.loc(), Some(loc));
            assert!(slot.cell().is_none() && slot.share().is_none());
        }
    }

    #[test]
    fn a_cell_is_counted_once_by_its_slot_and_let_go_with_it() {
        let cell = Arc::new(Cell::vacant());
        let mut slot = Slot::hot(Arc::clone(&cell));
        assert_eq!(slot.loc(), None);
        assert!(std::ptr::eq(&*cell, slot.cell().unwrap()));
        assert_eq!(Arc::strong_count(&cell), 2);
        assert!(slot.cell_mut().is_none(), "it is shared");
        let shared = slot.share().unwrap();
        assert_eq!(Arc::strong_count(&cell), 3);
        drop((cell, shared));
        assert!(slot.cell_mut().is_some(), "it is the slot's alone");
        let cell = slot.share().unwrap();
        drop(slot);
        assert_eq!(Arc::strong_count(&cell), 1);
    }

    #[test]
    fn a_slot_that_is_replaced_lets_go_of_its_cell() {
        let cell = Arc::new(Cell::vacant());
        let mut slot = Slot::hot(Arc::clone(&cell));
        assert!(slot.cell().is_some());
        slot = Slot::cold(Loc::new(7, 32));
        assert_eq!(slot.loc(), Some(Loc::new(7, 32)));
        assert_eq!(Arc::strong_count(&cell), 1);
    }
}
