//! The live index: every key that is not absent, in memory, with its value or the place of its value in the log.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::Mutex;

use super::cell::{Cell, Held};
use super::loc::Loc;
use super::slot::Slot;
use crate::backend::Scanned;
use crate::codec::KeyHash;

/// Shards of the map: few enough to be small, many enough that a shard that grows stalls nobody for long.
const SHARDS: usize = 64;
/// Rings of the second-chance clock that chooses what leaves memory.
const RINGS: usize = 16;
/// How many keys the rings may hold beyond twice the cells in memory.
const RINGS_SLACK: i64 = 4096;
/// How many cells one call may put out of memory, so that no caller pays for others.
const EVICTED_PER_CALL: usize = 2;

/// The keys are hashes already.
#[derive(Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    /// An array of words comes here as its bytes.
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            self.0 ^= u64::from_le_bytes(whole);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }

    fn write_usize(&mut self, _: usize) {}
}

/// The map, and what it needs to stay within its memory.
pub(super) struct Index {
    map: DashMap<KeyHash, Slot, BuildHasherDefault<Hashed>>,
    rings: Box<[Mutex<VecDeque<Listed>>]>,
    len: AtomicU64,
    hot_bytes: AtomicI64,
    hot_limit_bytes: i64,
    next_ring: AtomicU64,
    /// Numbers the cells, so that a ring knows which of a key's cells it holds, and spreads them over the rings.
    next_cell: AtomicU32,
    /// Cells in memory, and keys in the rings: a key that was taken out of the index stays in its ring for a while.
    hot: AtomicI64,
    ringed: AtomicI64,
}

/// A key in a ring, and the number of the cell that it had when it came there. A key that comes and goes has a new cell
/// each time: what a ring holds of the others is let go as soon as the clock's hand comes by.
#[derive(Clone, Copy)]
struct Listed {
    hash: KeyHash,
    cell: u32,
}

/// What an entry in the index may be taken out for.
pub(super) enum Expiry {
    /// It is gone from the index now.
    Removed(Loc),
    /// It is another one by now, or none.
    Superseded,
    /// Somebody is using it; ask again later.
    InUse,
}

impl Index {
    pub(super) fn new(hot_limit_bytes: usize) -> Self {
        Self {
            map: DashMap::with_hasher_and_shard_amount(BuildHasherDefault::default(), SHARDS),
            rings: (0..RINGS).map(|_| Mutex::default()).collect(),
            len: AtomicU64::new(0),
            hot_bytes: AtomicI64::new(0),
            hot_limit_bytes: hot_limit_bytes as i64,
            next_ring: AtomicU64::new(0),
            next_cell: AtomicU32::new(0),
            hot: AtomicI64::new(0),
            ringed: AtomicI64::new(0),
        }
    }

    /// How many keys are stored.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// The cell of a key, or `None` when the key is absent. A cold key gets a cell whose value is still to be read.
    pub(super) fn find(&self, hash: &KeyHash) -> Option<Arc<Cell>> {
        if let Some(cell) = self.map.get(hash)?.share() {
            cell.touch();
            return Some(cell);
        }
        Some(self.shared_or_warm(hash, self.map.get_mut(hash)?.value_mut()))
    }

    /// Looks at a cell that is in memory, without taking part in it. `look` must not wait for anything.
    pub(super) fn glance<T>(
        &self,
        hash: &KeyHash,
        look: impl FnOnce(&Cell) -> Option<T>,
    ) -> Option<T> {
        let slot = self.map.get(hash)?;
        let cell = slot.cell()?;
        cell.touch();
        look(cell)
    }

    /// The cell of a key that is in memory.
    pub(super) fn find_hot(&self, hash: &KeyHash) -> Option<Arc<Cell>> {
        self.map.get(hash)?.share()
    }

    /// The cell of a key, made when there is none and fewer than `limit` keys are stored.
    pub(super) fn find_or_make(&self, hash: &KeyHash, limit: u64) -> Option<Arc<Cell>> {
        if let Some(cell) = self.map.get(hash).and_then(|slot| slot.share()) {
            cell.touch();
            return Some(cell);
        }
        match self.map.entry(*hash) {
            Entry::Occupied(mut occupied) => Some(self.shared_or_warm(hash, occupied.get_mut())),
            Entry::Vacant(vacant) => {
                if self.len.load(Ordering::Relaxed) >= limit {
                    return None;
                }
                let cell = self.enlisted(hash, Cell::vacant());
                vacant.insert(Slot::hot(Arc::clone(&cell)));
                self.len.fetch_add(1, Ordering::Relaxed);
                Some(cell)
            }
        }
    }

    /// The cell of a slot; a cold one gets a cell.
    fn shared_or_warm(&self, hash: &KeyHash, slot: &mut Slot) -> Arc<Cell> {
        match (slot.share(), slot.loc()) {
            (Some(cell), _) => cell,
            (None, loc) => {
                let cell = self.enlisted(hash, Cell::unread(loc.unwrap_or(Loc::NONE)));
                *slot = Slot::hot(Arc::clone(&cell));
                cell
            }
        }
    }

    /// A cell that comes into memory, in one of the rings. The caller holds the key's shard.
    fn enlisted(&self, hash: &KeyHash, mut cell: Cell) -> Arc<Cell> {
        self.hot.fetch_add(1, Ordering::Relaxed);
        if self.hot_limit_bytes != i64::MAX {
            let number = self.next_cell.fetch_add(1, Ordering::Relaxed);
            cell.set_number(number);
            self.ringed.fetch_add(1, Ordering::Relaxed);
            // In turn, not by the key: one key that comes and goes would fill its ring faster than the hand goes round.
            let mut ring = self.rings[number as usize % RINGS].lock();
            ring.push_back(Listed {
                hash: *hash,
                cell: number,
            });
        }
        Arc::new(cell)
    }

    /// Counts a cell that leaves memory.
    fn left(&self, weight: u32) {
        self.hot.fetch_sub(1, Ordering::Relaxed);
        self.weigh(-i64::from(weight));
    }

    /// Puts what an opening scan found; gives the place it had before.
    pub(super) fn place(&self, hash: KeyHash, loc: Loc) -> Option<Loc> {
        let old = self.map.insert(hash, Slot::cold(loc));
        if old.is_none() {
            self.len.fetch_add(1, Ordering::Relaxed);
        }
        old?.loc()
    }

    /// Takes out what an opening scan found absent; gives the place it had before.
    pub(super) fn displace(&self, hash: &KeyHash) -> Option<Loc> {
        let (_, slot) = self.map.remove(hash)?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        slot.loc()
    }

    /// The place of a key's newest durable entry.
    pub(super) fn home(&self, hash: &KeyHash) -> Option<Loc> {
        let slot = self.map.get(hash)?;
        slot.loc().or_else(|| Some(slot.cell()?.home()))
    }

    /// Tells the index that cleaning has moved an entry. Nothing happens when the key has a newer entry by now.
    pub(super) fn moved(&self, hash: &KeyHash, from: Loc, to: Loc) -> bool {
        let Some(mut slot) = self.map.get_mut(hash) else {
            return false;
        };
        if let Some(cell) = slot.cell() {
            return cell.move_home(from, to);
        }
        let moves = slot.loc() == Some(from);
        if moves {
            *slot = Slot::cold(to);
        }
        moves
    }

    /// Takes a forgotten entry out, if it is still the newest of its key and nobody uses it.
    pub(super) fn expire(&self, hash: &KeyHash, loc: Loc, durable_pos: u64) -> Expiry {
        let Entry::Occupied(mut occupied) = self.map.entry(*hash) else {
            return Expiry::Superseded;
        };
        let slot = occupied.get_mut();
        if slot.loc().or_else(|| Some(slot.cell()?.home())) != Some(loc) {
            return Expiry::Superseded;
        }
        if slot.loc().is_none() {
            let Some(cell) = slot.cell_mut() else {
                return Expiry::InUse;
            };
            if cell.state_mut().pos > durable_pos {
                return Expiry::InUse;
            }
            let weight = cell.state_mut().weight;
            self.left(weight);
        }
        occupied.remove();
        self.len.fetch_sub(1, Ordering::Relaxed);
        Expiry::Removed(loc)
    }

    /// Puts an entry back that was taken out for nothing, unless its key has another one by now.
    pub(super) fn put_back(&self, hash: &KeyHash, loc: Loc) -> bool {
        match self.map.entry(*hash) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(Slot::cold(loc));
                self.len.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }

    /// Takes a forgotten entry that is in memory alone out, if nobody uses it; gives its key and value.
    pub(super) fn expire_unlogged(&self, hash: &KeyHash, now_us: u64) -> (Expiry, Option<Scanned>) {
        let Entry::Occupied(mut occupied) = self.map.entry(*hash) else {
            return (Expiry::Superseded, None);
        };
        if occupied.get().cell().is_none() {
            return (Expiry::Superseded, None);
        }
        let Some(cell) = occupied.get_mut().cell_mut() else {
            return (Expiry::InUse, None);
        };
        let state = cell.state_mut();
        if state
            .held()
            .content()
            .is_none_or(|content| content.forgotten_at_us() > now_us)
        {
            return (Expiry::Superseded, None);
        }
        self.left(state.weight);
        let taken = match state.hold(Held::Absent) {
            Held::Present(content) => Some((state.key.as_bytes().into(), content)),
            _ => None,
        };
        occupied.remove();
        self.len.fetch_sub(1, Ordering::Relaxed);
        (Expiry::Removed(Loc::NONE), taken)
    }

    /// Takes the slot of an absent key out, if nobody uses it and the log has nothing of it.
    pub(super) fn discard_if_vacant(&self, hash: &KeyHash) {
        let Entry::Occupied(mut occupied) = self.map.entry(*hash) else {
            return;
        };
        let Some(cell) = occupied.get_mut().cell_mut() else {
            return;
        };
        if cell.home() == Loc::NONE
            && matches!(cell.state_mut().held(), Held::Absent)
            && cell.state_mut().line.is_none()
        {
            self.left(cell.state_mut().weight);
            occupied.remove();
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts memory that cells take or give back.
    pub(super) fn weigh(&self, bytes: i64) {
        self.hot_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What cells in memory take.
    #[cfg(all(test, feature = "sled"))]
    pub(super) fn hot_bytes(&self) -> i64 {
        self.hot_bytes.load(Ordering::Relaxed)
    }

    /// How many keys the rings hold.
    #[cfg(all(test, feature = "sled"))]
    pub(super) fn listed(&self) -> usize {
        self.rings.iter().map(|ring| ring.lock().len()).sum()
    }

    fn crowded(&self) -> bool {
        self.hot_bytes.load(Ordering::Relaxed) > self.hot_limit_bytes
            || self.ringed.load(Ordering::Relaxed)
                > 2 * self.hot.load(Ordering::Relaxed) + RINGS_SLACK
    }

    /// Puts a few cells out of memory when there is too much: those that nobody uses, has used lately, or waits for, and
    /// whose value is on disk.
    pub(super) fn evict(&self, durable_pos: u64) {
        if !self.crowded() {
            return;
        }
        let ring = self.next_ring.fetch_add(1, Ordering::Relaxed) as usize % RINGS;
        for _ in 0..EVICTED_PER_CALL {
            let Some(listed) = self.rings[ring].lock().pop_front() else {
                return;
            };
            match self.evict_one(listed, durable_pos) {
                true => drop(self.ringed.fetch_sub(1, Ordering::Relaxed)),
                false => self.rings[ring].lock().push_back(listed),
            }
        }
    }

    /// Whether the ring needs the key no more.
    fn evict_one(&self, listed: Listed, durable_pos: u64) -> bool {
        let Entry::Occupied(mut occupied) = self.map.entry(listed.hash) else {
            return true;
        };
        if occupied
            .get()
            .cell()
            .is_none_or(|cell| cell.number() != listed.cell)
        {
            return true;
        }
        let Some(cell) = occupied.get_mut().cell_mut() else {
            return false;
        };
        if cell.take_touch() {
            return false;
        }
        let home = cell.home();
        let state = cell.state_mut();
        if state.pos > durable_pos || state.line.is_some() {
            return false;
        }
        let weight = state.weight;
        match (state.held(), home) {
            (Held::Absent, Loc::NONE) => {
                occupied.remove();
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
            (Held::Absent, _) | (_, Loc::NONE) => return false,
            (Held::Present(_) | Held::Unread, home) => *occupied.get_mut() = Slot::cold(home),
        }
        self.left(weight);
        true
    }

    /// The hashes of one shard of the map, for a scan.
    pub(super) fn shard_hashes(&self, shard: usize) -> Option<Vec<KeyHash>> {
        let shards = self.map.shards();
        let guard = shards.get(shard)?.read();
        // SAFETY: the bucket pointers are read while the shard's read guard is held.
        Some(unsafe { guard.iter().map(|bucket| bucket.as_ref().0).collect() })
    }
}
