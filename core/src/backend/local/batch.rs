//! One batch in the making: changes of the same key become one, and what is left is packed into blocks.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::BuildHasherDefault;

use super::index::{Hashed, Loc};
use super::queue::Change;
use crate::codec::{
    BLOCK_ROOM_BYTES, BlockHead, BlockWriter, EntryHead, Group, KeyHash, Kind, MAX_BLOCK_BYTES,
    piece_range, pieces,
};

/// What of the queue goes into one batch, last change per key.
pub(super) struct Plan {
    /// In the order of their positions.
    pub(super) changes: Vec<Change>,
    /// Position of the last change that was taken, whether or not a later one of its key stands for it.
    pub(super) last_pos: u64,
    /// What the changes that were taken took of the queue, in bytes.
    pub(super) weight: usize,
}

impl Plan {
    /// Takes changes off the front until they fill about `blocks` blocks. A change that needs more than one block to
    /// itself is taken only as the first and only one.
    pub(super) fn cut(waiting: &mut VecDeque<Change>, blocks: usize) -> Self {
        let mut room = blocks * (BLOCK_ROOM_BYTES - SMALL_ENTRY_BYTES);
        let mut taken: Vec<Option<Change>> = Vec::with_capacity(waiting.len().min(blocks * 24));
        let mut newest: HashMap<KeyHash, usize, BuildHasherDefault<Hashed>> =
            HashMap::with_capacity_and_hasher(taken.capacity(), BuildHasherDefault::default());
        let (mut last_pos, mut weight) = (0, 0);
        while let Some(next) = waiting.front() {
            let long = pieces(next.payload.len()) > 1;
            let cost = cost(next);
            if !taken.is_empty() && (long || cost > room) {
                break;
            }
            let Some(change) = waiting.pop_front() else {
                break;
            };
            room = room.saturating_sub(cost);
            last_pos = change.pos;
            weight += change.weight();
            // Only a change on its own may give way to a later one: a group has to arrive whole.
            if let Some(before) = newest.insert(change.hash, taken.len())
                && taken[before]
                    .as_ref()
                    .is_some_and(|earlier| earlier.group.is_none())
            {
                room += taken[before]
                    .take()
                    .map_or(0, |earlier| self::cost(&earlier));
            }
            taken.push(Some(change));
            if long {
                break;
            }
        }
        Self {
            changes: taken.into_iter().flatten().collect(),
            last_pos,
            weight,
        }
    }

    /// The change that needs more than one block to itself, if it is one.
    pub(super) fn is_long(&self) -> bool {
        self.changes
            .first()
            .is_some_and(|change| pieces(change.payload.len()) > 1)
    }

    pub(super) fn has(&self, hash: &KeyHash) -> bool {
        // Asked for the few live entries of the blocks being cleaned.
        self.changes.iter().any(|change| change.hash == *hash)
    }
}

/// An entry of this size wastes less than a tenth of a block when it does not fit.
const SMALL_ENTRY_BYTES: usize = 320;

/// What an entry takes of the room of a batch: a larger one may leave as much of a block unused as it is long.
fn cost(change: &Change) -> usize {
    let bytes = change.head().encoded_bytes() + change.payload.len();
    if bytes <= SMALL_ENTRY_BYTES {
        bytes
    } else {
        (2 * bytes).min(BLOCK_ROOM_BYTES)
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
