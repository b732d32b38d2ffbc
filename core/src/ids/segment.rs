//! Segments: small numbers in rising order, taken from the store a thousand at a time.

use crate::backend::Durability;
use crate::error::{Error, Result};
use crate::ids::Ids;
use crate::key::{Key, Namespace};
use crate::reserve::Segment;
use crate::time::NEVER_US;

/// How many numbers are taken at a time; those that were not given out when a process ends are never given out.
pub const SEGMENT: u64 = 1000;

impl Ids<'_> {
    /// The next number of a sequence, from 1. A number is never given out twice, also across crashes; after a crash up to a
    /// thousand are left out.
    ///
    /// # Errors
    /// `InvalidInput` for a name that cannot be used; store errors.
    pub fn segment(&self, sequence: &str) -> Result<u64> {
        let key = Key::row(
            Namespace::Sequence,
            ("sequence", "sequence"),
            ("sequence", sequence),
        )?;
        // A forked child has a copy of what its parent gives out.
        self.engine().check_here()?;
        let mut segments = self.engine().reserve().segments.lock();
        let mut segment = segments.get(sequence).copied().unwrap_or_default();
        if segment.next == segment.end {
            segment = self.take(sequence, &key)?;
        }
        let number = segment.next;
        segment.next += 1;
        segments.insert(sequence.to_owned(), segment);
        Ok(number)
    }

    /// Takes the next numbers of a sequence; on disk before the first of them is given out, whatever the store's durability.
    fn take(&self, sequence: &str, key: &Key) -> Result<Segment> {
        let transaction = self.store.transact().durability(Durability::Sync);
        transaction.run(|tx| {
            let next = tx.get::<u64>(key)?.unwrap_or(1);
            let end = next
                .checked_add(SEGMENT)
                .ok_or_else(|| Error::invalid(format!("sequence {sequence:?} is at its end")))?;
            tx.set(key, &end, NEVER_US)?;
            Ok(Segment { next, end })
        })
    }
}
