//! A place in the log.

/// Where an entry begins in the log and how long it is: 43 bits of block number, 20 bits of length in units of 16 bytes, and
/// the highest bit left free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loc(u64);

impl Loc {
    /// No place: the log has no entry.
    pub(super) const NONE: Self = Self(0);
    /// The longest entry that a place can tell, in bytes.
    pub(super) const MAX_ENTRY_BYTES: usize = (LENGTH_MASK as usize) * LENGTH_UNIT;

    pub(super) fn new(block: u64, entry_bytes: usize) -> Self {
        Self(block << LENGTH_BITS | (entry_bytes.div_ceil(LENGTH_UNIT) as u64).min(LENGTH_MASK))
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn block(self) -> u64 {
        self.0 >> LENGTH_BITS
    }

    /// Length of the entry in bytes, rounded up to a unit.
    pub(super) fn entry_bytes(self) -> u64 {
        (self.0 & LENGTH_MASK) * LENGTH_UNIT as u64
    }
}

const LENGTH_BITS: u32 = 20;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;
const LENGTH_UNIT: usize = 16;
