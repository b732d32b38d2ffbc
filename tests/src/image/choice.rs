//! Which of the unsynced changes reach the disk.

/// What reaches the disk, as a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Only what is durable.
    Nothing,
    /// Everything.
    Everything,
    /// Each page with this chance, in any version since the sync; old or new sizes; any prefix of the names.
    Percent(u8),
    /// The pages of the very last write, and all names.
    LastOnly,
    /// Everything but one page, size or name.
    AllButOne,
    /// Half of the pages are mixed from versions, sector by sector.
    Torn,
}

impl Keep {
    const ALL: [Self; 8] = [
        Self::Percent(50),
        Self::Torn,
        Self::Nothing,
        Self::AllButOne,
        Self::Percent(10),
        Self::LastOnly,
        Self::Percent(90),
        Self::Everything,
    ];
}

/// A rule and the seed that decides what it leaves open: the same choice makes the same image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The seed.
    pub seed: u64,
    /// The rule.
    pub keep: Keep,
}

impl Choice {
    /// The `index`th choice of a series that goes through all rules in turn.
    pub fn nth(seed: u64, index: usize) -> Self {
        let number = u64::try_from(index).unwrap_or(u64::MAX);
        Self {
            seed: seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            keep: Keep::ALL[index % Keep::ALL.len()],
        }
    }
}

/// A small generator (splitmix64), so that a failing image can be built again.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The remainder is below the limit, so it fits.
        (mixed % limit as u64) as usize
    }

    pub(super) fn percent(&mut self, chance: u8) -> bool {
        self.below(100) < usize::from(chance)
    }
}
