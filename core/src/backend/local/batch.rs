//! One batch in the making: changes of the same key become one, and what is left is packed into blocks.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasherDefault;

use super::index::Hashed;
use super::loc::Loc;
use super::queue::Change;
use crate::codec::{
    BLOCK_ROOM_BYTES, BlockHead, BlockWriter, EntryHead, Group, KeyHash, Kind, MAX_BLOCK_BYTES,
    piece_range, pieces,
};

/// What of the queue goes into one batch, last change per key.
#[derive(Default)]
pub(super) struct Plan {
    /// In the order of their positions.
    pub(super) changes: Vec<Change>,
    /// Position of the last change that was taken, whether or not a later one of its key stands for it.
    pub(super) last_pos: u64,
    /// What the changes that were taken took of the queue, in bytes.
    pub(super) weight: usize,
    /// How much of the batch's blocks they take.
    pub(super) fill: Fill,
    keys: HashMap<KeyHash, usize, BuildHasherDefault<Hashed>>,
    /// Whether the rest of a group is still to come, so that nothing of it counts yet.
    unfinished: bool,
}

impl Plan {
    /// Takes changes off the front until they fill `blocks` blocks. A change that needs more than one block to itself is
    /// taken only as the first and only one. A group is begun behind other changes only if all of it fits: so nothing
    /// that stands by itself ever gives way to a part of a group that may never be whole.
    pub(super) fn cut(waiting: &mut VecDeque<Change>, blocks: usize) -> Self {
        let mut taken: Vec<Option<Change>> = Vec::with_capacity(waiting.len().min(blocks * 24));
        let mut plan = Self {
            keys: HashMap::with_capacity_and_hasher(
                taken.capacity(),
                BuildHasherDefault::default(),
            ),
            ..Self::default()
        };
        while let Some(next) = waiting.front() {
            let long = is_long(next);
            if !taken.is_empty() && (long || !next_fits(waiting, plan.fill, blocks)) {
                break;
            }
            let Some(change) = waiting.pop_front() else {
                break;
            };
            plan.take(change, &mut taken);
            if long {
                break;
            }
        }
        plan.unfinished = taken
            .last()
            .and_then(|last| last.as_ref()?.group)
            .is_some_and(|group| !group.last);
        plan.changes = taken.into_iter().flatten().collect();
        plan
    }

    fn take(&mut self, change: Change, taken: &mut Vec<Option<Change>>) {
        self.fill = self.fill.with(entry_bytes(&change));
        self.last_pos = change.pos;
        self.weight += change.weight();
        // Only a change on its own may give way to a later one: a group has to arrive whole.
        if let Some(before) = self.keys.insert(change.hash, taken.len())
            && taken[before]
                .as_ref()
                .is_some_and(|earlier| earlier.group.is_none())
            && let Some(earlier) = taken[before].take()
        {
            self.fill = self.fill.without(entry_bytes(&earlier));
        }
        taken.push(Some(change));
    }

    /// The change that needs more than one block to itself, if it is one.
    pub(super) fn is_long(&self) -> bool {
        self.changes.first().is_some_and(is_long)
    }

    /// Whether the batch has an entry of this key that counts as soon as the batch is on disk.
    pub(super) fn has(&self, hash: &KeyHash) -> bool {
        !self.unfinished && self.keys.contains_key(hash)
    }
}

fn is_long(change: &Change) -> bool {
    pieces(change.payload.bytes) > 1
}

fn entry_bytes(change: &Change) -> usize {
    change.head().encoded_bytes() + change.payload.bytes
}

/// Whether the next change, or all of the group that it begins, fits.
fn next_fits(waiting: &VecDeque<Change>, fill: Fill, blocks: usize) -> bool {
    let begins_group = waiting
        .front()
        .is_some_and(|first| first.group.is_some_and(|group| group.id == first.pos));
    let mut fill = fill;
    for change in waiting {
        fill = fill.with(entry_bytes(change));
        if is_long(change) || fill.blocks() > blocks {
            return false;
        }
        if !begins_group || change.group.is_none_or(|group| group.last) {
            break;
        }
    }
    true
}

/// Entries packed one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    bytes: usize,
    largest: usize,
}

impl Fill {
    pub(super) fn with(self, entry_bytes: usize) -> Self {
        Self {
            bytes: self.bytes + entry_bytes,
            largest: self.largest.max(entry_bytes),
        }
    }

    fn without(self, entry_bytes: usize) -> Self {
        Self {
            bytes: self.bytes - entry_bytes,
            ..self
        }
    }

    /// How many blocks they would take if none were left half empty.
    pub(super) fn filled_blocks(self) -> usize {
        self.bytes.div_ceil(BLOCK_ROOM_BYTES)
    }

    /// How many blocks they take at most. A block is left when the next entry does not fit: so every block but the last
    /// lacks less than the largest entry, and two neighbours hold more than one block has.
    pub(super) fn blocks(self) -> usize {
        let by_largest = self.bytes / (BLOCK_ROOM_BYTES + 1 - self.largest.min(BLOCK_ROOM_BYTES));
        let by_pairs = 2 * self.bytes / (BLOCK_ROOM_BYTES + 1);
        by_largest.min(by_pairs) + 1
    }
}

/// Packs entries into numbered, chained blocks.
pub(super) struct Packer {
    head: BlockHead,
    open: BlockWriter,
    pub(super) blocks: Vec<(u64, Vec<u8>)>,
}

impl Packer {
    /// `head` has the number of the first block, the checksum before it, and what all blocks of the batch say.
    pub(super) fn new(head: BlockHead) -> Self {
        Self {
            head,
            open: BlockWriter::new(),
            blocks: Vec::new(),
        }
    }

    /// Puts an entry of at most one block; where it is.
    pub(super) fn push(&mut self, head: &EntryHead, payload: &[u8]) -> Loc {
        if !self.open.fits(head, payload.len()) {
            self.turn_over();
        }
        self.open.push(head, payload);
        Loc::new(self.head.number, head.encoded_bytes() + payload.len())
    }

    /// Puts one piece of a long entry into a block of its own. The pieces of an entry are a group, so that it counts only
    /// when the last has arrived.
    pub(super) fn push_piece(&mut self, head: &EntryHead, payload: &[u8], index: usize) {
        if !self.open.is_empty() {
            self.turn_over();
        }
        let last_piece = index + 1 == pieces(payload.len());
        let ends = head.group.is_none_or(|group| group.last);
        let group = Group {
            id: head.group.map_or(head.pos, |group| group.id),
            last: last_piece && ends,
        };
        let kind = if index == 0 { head.kind } else { Kind::Piece };
        let head = EntryHead {
            kind,
            group: Some(group),
            ..*head
        };
        self.open
            .push(&head, &payload[piece_range(payload.len(), index)]);
        self.turn_over();
    }

    /// Closes the block being filled; what comes goes into the next.
    pub(super) fn turn_over(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let full = std::mem::replace(&mut self.open, BlockWriter::new());
        let (bytes, check) = full.seal(&self.head);
        debug_assert!(bytes.len() <= MAX_BLOCK_BYTES);
        self.blocks.push((self.head.number, bytes));
        self.head.number += 1;
        self.head.previous = check;
    }

    /// The blocks, and the header that the next block would have.
    pub(super) fn finish(mut self) -> (Vec<(u64, Vec<u8>)>, BlockHead) {
        self.turn_over();
        (self.blocks, self.head)
    }
}
