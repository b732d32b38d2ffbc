//! Reading the log at opening: upward, later entries in the place of earlier ones, unfinished groups dropped.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::disk::{Bytes, Disk};
use super::expiry::ExpiryIndex;
use super::index::{Hashed, Index};
use super::loc::Loc;
use super::watermark::Mark;
use crate::codec::{BlockReader, EntryHead, KeyHash, Kind};
use crate::error::{Error, Result};

/// What an opening scan has found.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) ends: Mark,
    pub(super) last_pos: u64,
    /// The highest stamp in the log; a time.
    pub(super) highest_stamp: u64,
    /// The latest time of the store that a block tells.
    pub(super) highest_time_us: u64,
    /// No stamp given before was above this.
    pub(super) stamp_floor: u64,
    pub(super) swept_until_us: u64,
    pub(super) live_bytes: u64,
    /// Records whose attempt has not ended, with the time from which they are to be watched.
    pub(super) open: HashMap<KeyHash, u64, BuildHasherDefault<Hashed>>,
    /// Places of the rows that are kept in order.
    pub(super) ordered: HashMap<KeyHash, Loc, BuildHasherDefault<Hashed>>,
}

/// Reads the whole log into the index. The mark may know better than the newest block what is swept.
pub(super) fn scan(
    disk: &Disk,
    index: &Index,
    expiry: &ExpiryIndex<u64>,
    marked_swept_us: u64,
) -> Result<Findings> {
    let mut scan = Scan {
        index,
        expiry,
        found: Findings::default(),
        started: Group::default(),
        moving: Group::default(),
    };
    scan.found.swept_until_us = swept_until_us(disk)?.max(marked_swept_us);
    disk.read_all(|number, bytes| scan.block(number, bytes))?;
    Ok(scan.found)
}

/// The newest block knows best what has been swept.
fn swept_until_us(disk: &Disk) -> Result<u64> {
    match disk.last()? {
        Some((number, block)) => Ok(BlockReader::open(number, &block)?.head.swept_until_us),
        None => Ok(0),
    }
}

struct Scan<'a> {
    index: &'a Index,
    expiry: &'a ExpiryIndex<u64>,
    found: Findings,
    /// Entries of a group whose last has not come yet.
    started: Group,
    /// The same of copies, which come between.
    moving: Group,
}

#[derive(Default)]
struct Group {
    id: Option<u64>,
    entries: Vec<(EntryHead, Loc)>,
}

impl Scan<'_> {
    fn block(&mut self, number: u64, bytes: &Bytes) -> Result<()> {
        let block = BlockReader::open(number, bytes)?;
        let ends = &mut self.found.ends;
        let broken = |what: &str| {
            Error::corrupt(format!(
                "the log is not whole: block {number} {what}; restore a backup with `semel restore`"
            ))
        };
        if ends.head == 0 {
            *ends = Mark {
                epoch: block.head.epoch,
                head: number,
                tail: number,
                check: block.check,
                time_us: 0,
                swept_until_us: 0,
            };
        } else {
            if number != ends.head + 1 {
                return Err(broken(&format!("comes after block {}", ends.head)));
            }
            if block.head.previous != ends.check || block.head.epoch != ends.epoch {
                return Err(broken("does not continue the block before it"));
            }
            (ends.head, ends.check) = (number, block.check);
        }
        self.found.stamp_floor = self.found.stamp_floor.max(block.head.stamp_floor);
        self.found.highest_time_us = self.found.highest_time_us.max(block.head.time_us);
        for entry in block.entries() {
            self.entry(entry?.head, number);
        }
        Ok(())
    }

    fn entry(&mut self, head: EntryHead, number: u64) {
        self.found.last_pos = self.found.last_pos.max(head.pos);
        self.found.highest_stamp = self.found.highest_stamp.max(head.stamp);
        let loc = Loc::new(number, super::cleaner::entry_bytes(&head));
        let pending = if head.copied {
            &mut self.moving
        } else {
            &mut self.started
        };
        let Some(group) = head.group else {
            // A group that is followed by something else never got its last entry.
            pending.drop_all();
            return self.apply(head, loc);
        };
        if pending.id != Some(group.id) {
            pending.drop_all();
            pending.id = Some(group.id);
        }
        if head.kind != Kind::Piece {
            pending.entries.push((head, loc));
        }
        if group.last {
            for (head, loc) in pending.take() {
                self.apply(head, loc);
            }
        }
    }

    fn apply(&mut self, head: EntryHead, loc: Loc) {
        let absent = head.kind == Kind::Marker || head.forgotten_at_us <= self.found.swept_until_us;
        let old = match absent {
            true => self.index.displace(&head.hash),
            false => self.index.place(head.hash, loc),
        };
        self.found.live_bytes = self
            .found
            .live_bytes
            .saturating_sub(old.map_or(0, Loc::entry_bytes));
        if absent || head.kind != Kind::OpenRecord {
            self.found.open.remove(&head.hash);
        }
        if absent || head.kind != Kind::OrderedRow {
            self.found.ordered.remove(&head.hash);
        }
        if !absent {
            self.found.live_bytes += loc.entry_bytes();
            self.expiry.note(head.forgotten_at_us, loc.block());
            match head.kind {
                Kind::OpenRecord => drop(self.found.open.insert(head.hash, head.due_us)),
                Kind::OrderedRow => drop(self.found.ordered.insert(head.hash, loc)),
                _ => {}
            }
        }
    }
}

impl Group {
    fn drop_all(&mut self) {
        self.id = None;
        self.entries.clear();
    }

    fn take(&mut self) -> Vec<(EntryHead, Loc)> {
        self.id = None;
        std::mem::take(&mut self.entries)
    }
}
