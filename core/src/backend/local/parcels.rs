//! The payloads of changes on their way to the disk, in few large pieces of memory: a caller allocates nothing for them, and
//! the committer gives nothing back one by one.

use std::collections::VecDeque;

/// How large a piece of memory is, unless one payload needs more.
const CHUNK_BYTES: usize = 256 << 10;
/// How many pieces are kept for later.
const SPARE_CHUNKS: usize = 16;

/// Where a payload is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parcel {
    chunk: u64,
    at: usize,
    pub(super) bytes: usize,
}

impl Parcel {
    /// One that is still to be put somewhere.
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

/// Payloads, in the order in which they came.
#[derive(Default)]
pub(super) struct Parcels {
    chunks: VecDeque<Vec<u8>>,
    /// Number of the first chunk that is left.
    first: u64,
    spare: Vec<Vec<u8>>,
}

impl Parcels {
    /// Copies a payload in.
    pub(super) fn put(&mut self, payload: &[u8]) -> Parcel {
        let fits = |chunk: &Vec<u8>| chunk.capacity() - chunk.len() >= payload.len();
        if !self.chunks.back().is_some_and(fits) {
            let chunk = match self.spare.pop() {
                Some(spare) if payload.len() <= CHUNK_BYTES => spare,
                _ => Vec::with_capacity(payload.len().max(CHUNK_BYTES)),
            };
            self.chunks.push_back(chunk);
        }
        let number = self.first + self.chunks.len() as u64 - 1;
        let mut at = 0;
        if let Some(chunk) = self.chunks.back_mut() {
            at = chunk.len();
            chunk.extend_from_slice(payload);
        }
        Parcel {
            chunk: number,
            at,
            bytes: payload.len(),
        }
    }

    pub(super) fn get(&self, parcel: Parcel) -> &[u8] {
        let chunk = parcel.chunk.checked_sub(self.first);
        chunk
            .and_then(|chunk| self.chunks.get(chunk as usize))
            .and_then(|chunk| chunk.get(parcel.at..parcel.at + parcel.bytes))
            .unwrap_or_default()
    }

    /// Takes all out. What comes next is numbered on.
    pub(super) fn take(&mut self) -> Self {
        let chunks = std::mem::take(&mut self.chunks);
        let first = self.first;
        self.first += chunks.len() as u64;
        Self {
            chunks,
            first,
            spare: Vec::new(),
        }
    }

    /// Everything before this parcel is on disk.
    pub(super) fn done_before(&mut self, parcel: Parcel) {
        while self.first < parcel.chunk
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.first += 1;
            self.keep(chunk);
        }
    }

    /// Gives memory back for later use.
    pub(super) fn give_back(&mut self, mut done: Self) {
        let left = std::mem::take(&mut done.chunks);
        for chunk in left.into_iter().chain(done.spare) {
            self.keep(chunk);
        }
    }

    fn keep(&mut self, mut chunk: Vec<u8>) {
        if self.spare.len() < SPARE_CHUNKS && chunk.capacity() == CHUNK_BYTES {
            chunk.clear();
            self.spare.push(chunk);
        }
    }
}
