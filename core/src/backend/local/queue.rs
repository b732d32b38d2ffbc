//! Changes on their way to the disk, in the order in which they were decided.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::cell::Cell;
use super::parcels::{Parcel, Parcels};
use crate::backend::Admission;
use crate::codec::{EntryHead, Group, KeyHash, Kind};
use crate::error::{Error, ErrorKind, Result};

/// The most bytes that wait for the disk.
pub(super) const QUEUE_BYTES: usize = 32 << 20;
/// From here on new claims wait; what ends an attempt has the rest.
const CLAIM_BYTES: usize = QUEUE_BYTES / 5 * 4;
/// The oldest change that is not in the batch being synced is at most this old before new claims wait.
const OLDEST_US: u64 = 50_000;
/// The longest that those are waited for who waited for the disk with the last batch, and are likely to come again.
const GATHERING: Duration = Duration::from_micros(100);
/// Of a batch with more changes than this nobody is waited for: it is worth its sync.
const MAX_TOGETHER: usize = 16;
/// For so many batches nobody is waited for after it was in vain.
const NOT_GATHERED: u32 = 64;
/// Below this the age of the queue is not looked at: it fits the next batch.
const YOUNG_BYTES: usize = 64 << 10;

/// One change of one key, as the bytes of the moment it was decided.
pub(super) struct Change {
    pub(super) hash: KeyHash,
    pub(super) pos: u64,
    pub(super) stamp: u64,
    /// When it was decided. The stamp is no time: it may run ahead of the clock.
    pub(super) decided_us: u64,
    pub(super) due_us: u64,
    pub(super) forgotten_at_us: u64,
    pub(super) kind: Kind,
    pub(super) group: Option<Group>,
    /// Where the payload is, once the change is queued; how long it is, before too.
    pub(super) payload: Parcel,
    pub(super) cell: Arc<Cell>,
}

impl Change {
    pub(super) fn head(&self) -> EntryHead {
        EntryHead {
            kind: self.kind,
            group: self.group,
            copied: false,
            hash: self.hash,
            pos: self.pos,
            stamp: self.stamp,
            due_us: self.due_us,
            forgotten_at_us: self.forgotten_at_us,
            payload_bytes: self.payload.bytes as u32,
        }
    }

    /// What it takes in memory while it waits.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.payload.bytes
    }
}

/// Changes with their payloads.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) changes: VecDeque<Change>,
    pub(super) parcels: Parcels,
}

impl Waiting {
    /// The changes that were taken off the front are on disk.
    pub(super) fn done(&mut self) {
        if let Some(next) = self.changes.front() {
            self.parcels.done_before(next.payload);
        }
    }
}

/// The changes that wait.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    work: Condvar,
    /// Bytes that wait or are being written.
    bytes: AtomicUsize,
    /// When the first change that waits in the queue was decided; 0 when none does.
    oldest_queued_us: AtomicU64,
    /// The same of those that the committer has taken and not begun to write.
    oldest_in_hand_us: AtomicU64,
    waiting_for_room: Mutex<Vec<Waker>>,
}

#[derive(Default)]
struct Inner {
    waiting: Waiting,
    last_pos: u64,
    /// Somebody waits for the disk: write without delay.
    urgent: bool,
    /// How many changes were taken last.
    taken: usize,
    /// How many changes the committer waits for; 0 when it does not.
    wanted: usize,
    /// How many batches go without waiting, since those who were waited for did not come.
    in_vain: u32,
    /// New claims are refused; what ends an attempt is taken until all is written.
    closing: bool,
    /// Nothing is taken any more.
    closed: bool,
}

/// What the committer is to do.
pub(super) enum Work {
    /// Write these.
    Write(Waiting),
    /// All is written and no more will come.
    Finish,
}

impl Queue {
    pub(super) fn new(last_pos: u64) -> Self {
        Self {
            inner: Mutex::new(Inner {
                last_pos,
                ..Inner::default()
            }),
            work: Condvar::new(),
            bytes: AtomicUsize::new(0),
            oldest_queued_us: AtomicU64::new(0),
            oldest_in_hand_us: AtomicU64::new(0),
            waiting_for_room: Mutex::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is room for a change of this sort.
    pub(super) fn has_room(&self, admission: Admission, now_us: impl FnOnce() -> u64) -> bool {
        let bytes = self.bytes();
        match admission {
            Admission::Finish => bytes < QUEUE_BYTES,
            Admission::Claim if bytes < YOUNG_BYTES => true,
            Admission::Claim if bytes >= CLAIM_BYTES => false,
            Admission::Claim => {
                let age = |oldest: &AtomicU64| match oldest.load(Ordering::Relaxed) {
                    0 => u64::MAX,
                    oldest => oldest,
                };
                let oldest_us = age(&self.oldest_queued_us).min(age(&self.oldest_in_hand_us));
                oldest_us == u64::MAX || now_us() < oldest_us.saturating_add(OLDEST_US)
            }
        }
    }

    /// Waits for room, or until `broken` says that there will be none.
    pub(super) async fn room(
        &self,
        admission: Admission,
        now_us: impl Fn() -> u64,
        broken: impl Fn() -> Result<()>,
    ) -> Result<()> {
        poll_fn(|context| {
            if self.has_room(admission, &now_us) {
                return Poll::Ready(Ok(()));
            }
            let mut waiting = self.waiting_for_room.lock();
            if let Err(fault) = broken() {
                return Poll::Ready(Err(fault));
            }
            if self.has_room(admission, &now_us) {
                return Poll::Ready(Ok(()));
            }
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Wakes those who wait for room.
    pub(super) fn call_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting_for_room.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Puts a group of changes in, each with its payload, all or none, and gives the position of its last. Positions are given here, inside the
    /// lock, so that the order of the queue is the order of the positions.
    pub(super) fn push<'p>(
        &self,
        changes: impl ExactSizeIterator<Item = (Change, &'p [u8])>,
        admission: Admission,
        urgent: bool,
    ) -> Result<u64> {
        let mut inner = self.inner.lock();
        if inner.closed || (inner.closing && admission == Admission::Claim) {
            return Err(closed());
        }
        let idle = inner.waiting.changes.is_empty();
        let first = inner.last_pos + 1;
        let last = inner.last_pos + changes.len() as u64;
        let grouped = changes.len() > 1;
        let mut weight = 0;
        for ((mut change, payload), pos) in changes.zip(first..) {
            change.payload = inner.waiting.parcels.put(payload);
            change.pos = pos;
            change.group = grouped.then_some(Group {
                id: first,
                last: pos == last,
            });
            weight += change.weight();
            if idle && pos == first {
                self.oldest_queued_us
                    .store(change.decided_us, Ordering::Relaxed);
            }
            inner.waiting.changes.push_back(change);
        }
        inner.last_pos = last;
        self.bytes.fetch_add(weight, Ordering::Relaxed);
        let call = idle
            || (urgent && !inner.urgent)
            || (inner.wanted > 0 && inner.waiting.changes.len() >= inner.wanted);
        inner.urgent |= urgent;
        drop(inner);
        if call {
            self.work.notify_one();
        }
        Ok(last)
    }

    /// Asks for all that is queued to be written without delay; the position of its last.
    pub(super) fn hurry(&self) -> u64 {
        let mut inner = self.inner.lock();
        if !inner.waiting.changes.is_empty() {
            inner.urgent = true;
            self.work.notify_one();
        }
        inner.last_pos
    }

    /// Takes no more claims; the committer ends when all is written, and then nothing is taken.
    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closing = true;
        self.work.notify_all();
    }

    /// Waits until the store is being closed.
    pub(super) fn wait_for_close(&self) {
        let mut inner = self.inner.lock();
        while !inner.closing {
            self.work.wait(&mut inner);
        }
    }

    /// Waits for changes, lets them gather for `interval` unless somebody waits for the disk, and takes them all. Those
    /// that come next gather in `spare`.
    ///
    /// When somebody does, those of the last batch, who have their answers now, may be on their way again: each of them, and
    /// of those who came meanwhile, waits for one batch instead of the rest of one and another when they go together.
    pub(super) fn take(&self, interval: Duration, spare: &mut VecDeque<Change>) -> Work {
        let mut inner = self.inner.lock();
        let together = match inner.taken <= MAX_TOGETHER {
            true => inner.taken + inner.waiting.changes.len(),
            false => 0,
        };
        while inner.waiting.changes.is_empty() {
            if inner.closing {
                inner.closed = true;
                return Work::Finish;
            }
            self.work.wait(&mut inner);
        }
        let gathering = crate::time::Stopwatch::start();
        while !inner.urgent && !inner.closing && self.bytes() < CLAIM_BYTES / 16 {
            let Some(rest) = interval
                .checked_sub(gathering.elapsed())
                .filter(|rest| !rest.is_zero())
            else {
                break;
            };
            self.work.wait_for(&mut inner, rest);
        }
        if inner.urgent {
            self.gather(&mut inner, together);
        }
        inner.urgent = false;
        inner.taken = inner.waiting.changes.len();
        let waiting = Waiting {
            changes: std::mem::replace(&mut inner.waiting.changes, std::mem::take(spare)),
            parcels: inner.waiting.parcels.take(),
        };
        if let Some(first) = waiting.changes.front() {
            self.oldest_in_hand_us
                .store(first.decided_us, Ordering::Relaxed);
        }
        self.oldest_queued_us.store(0, Ordering::Relaxed);
        Work::Write(waiting)
    }

    fn gather(&self, inner: &mut MutexGuard<'_, Inner>, together: usize) {
        if inner.waiting.changes.len() >= together {
            return;
        }
        if inner.in_vain > 0 {
            inner.in_vain -= 1;
            return;
        }
        let gathering = crate::time::Stopwatch::start();
        inner.wanted = together;
        while inner.waiting.changes.len() < together && !inner.closing {
            let Some(rest) = GATHERING.checked_sub(gathering.elapsed()) else {
                inner.in_vain = NOT_GATHERED;
                break;
            };
            self.work.wait_for(inner, rest);
        }
        inner.wanted = 0;
    }

    /// Memory of what is written, for what comes.
    pub(super) fn give_back(&self, parcels: Parcels) {
        self.inner.lock().waiting.parcels.give_back(parcels);
    }

    /// Changes of this weight are on disk.
    pub(super) fn written(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.call_waiting();
    }

    /// What the committer has in hand beyond the batch being written begins with a change decided at this time. Whoever
    /// waits finds room now, if anybody does: otherwise those who come anew would have it before them, for ever.
    pub(super) fn in_hand_since(&self, oldest_us: u64) {
        self.oldest_in_hand_us.store(oldest_us, Ordering::Relaxed);
        self.call_waiting();
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed; open it again")
}
