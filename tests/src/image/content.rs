//! The bytes of one file: what is durable, and each version of each page since.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::crash::Picker;
use super::disk::{Node, Seq};

pub(super) const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;

type Block = Option<Arc<[u8; PAGE_BYTES]>>;

#[derive(Debug, Default)]
pub(super) struct Content {
    pages: Vec<Page>,
    dirty: BTreeSet<usize>,
    kept: Extent,
    now: Extent,
    extents: Vec<(Seq, Extent)>,
    /// Changes before this one took part in a sync that failed: the next sync does not see them any more.
    failed: Seq,
}

/// A size, and how many times the file was cut shorter to get there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Extent {
    cuts: u32,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Page {
    kept: Block,
    versions: Vec<Version>,
}

#[derive(Debug)]
struct Version {
    seq: Seq,
    block: Block,
    /// The page went with this cut of the file.
    cut: Option<u32>,
}

impl Content {
    /// A file that is durable.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, 0, bytes);
        content.synced(1);
        content
    }

    pub(super) fn write(&mut self, seq: Seq, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        self.grow(seq, end);
        let mut at = offset;
        while at < end {
            let (index, from) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let size = (PAGE_BYTES - from).min(end - at);
            let part = &data[at - offset..at - offset + size];
            self.change(seq, index, |block| {
                block[from..from + size].copy_from_slice(part);
            });
            at += size;
        }
    }

    pub(super) fn zero(&mut self, seq: Seq, offset: usize, size: usize) {
        let end = (offset + size).min(self.now.bytes);
        if offset < end {
            self.write(seq, offset, &vec![0; end - offset]);
        }
    }

    pub(super) fn resize(&mut self, seq: Seq, size: usize) {
        if size >= self.now.bytes {
            return self.grow(seq, size);
        }
        let (index, from) = (size / PAGE_BYTES, size % PAGE_BYTES);
        if from > 0 {
            self.change(seq, index, |block| block[from..].fill(0));
        }
        self.now.cuts += 1;
        self.now.bytes = size;
        self.extents.push((seq, self.now));
        for index in size.div_ceil(PAGE_BYTES)..self.pages.len() {
            let cut = Some(self.now.cuts);
            let block = None;
            self.pages[index].versions.push(Version { seq, block, cut });
            self.dirty.insert(index);
        }
    }

    pub(super) fn grow(&mut self, seq: Seq, size: usize) {
        if size > self.now.bytes {
            self.now.bytes = size;
            self.extents.push((seq, self.now));
        }
    }

    fn change(&mut self, seq: Seq, index: usize, edit: impl FnOnce(&mut [u8; PAGE_BYTES])) {
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, Page::default);
        }
        let page = &mut self.pages[index];
        let mut block = page.newest().as_deref().copied().unwrap_or([0; PAGE_BYTES]);
        edit(&mut block);
        page.versions.push(Version {
            seq,
            block: Some(Arc::new(block)),
            cut: None,
        });
        self.dirty.insert(index);
    }

    /// A sync that began at `begin` succeeded.
    pub(super) fn synced(&mut self, begin: Seq) {
        let failed = self.failed;
        let reached = |seq: &Seq| *seq < begin && *seq >= failed;
        if let Some(last) = self.extents.iter().rposition(|(seq, _)| reached(seq)) {
            self.kept = self.extents[last].1;
            self.extents.drain(..=last);
        }
        let pages = &mut self.pages;
        self.dirty.retain(|index| {
            let page = &mut pages[*index];
            if let Some(last) = page.versions.iter().rposition(|v| reached(&v.seq)) {
                page.kept = page.versions[last].block.clone();
                page.versions.drain(..=last);
            }
            !page.versions.is_empty()
        });
    }

    /// A sync that began at `begin` failed.
    pub(super) fn sync_failed(&mut self, begin: Seq) {
        self.failed = self.failed.max(begin);
    }

    pub(super) fn dirty_pages(&self) -> impl Iterator<Item = usize> + '_ {
        self.dirty.iter().copied()
    }

    pub(super) fn is_size_open(&self) -> bool {
        !self.extents.is_empty()
    }

    /// The bytes after the power cut.
    pub(super) fn surviving(&self, node: Node, picker: &mut Picker) -> Vec<u8> {
        let (cuts, old, new) = self.sizes(node, picker);
        let size = picker.size(node, old, new);
        let mut bytes = vec![0; size];
        for (index, target) in bytes.chunks_mut(PAGE_BYTES).enumerate() {
            let Some(page) = self.pages.get(index) else {
                break;
            };
            page.surviving(cuts, (node, index), picker, target);
        }
        bytes
    }

    /// How many cuts took place, and the sizes that are possible then.
    fn sizes(&self, node: Node, picker: &mut Picker) -> (u32, usize, usize) {
        let open = usize::try_from(self.now.cuts - self.kept.cuts).unwrap_or(usize::MAX);
        let taken = picker.cuts(node, open);
        let cuts = self.kept.cuts + u32::try_from(taken).unwrap_or(u32::MAX);
        let mut sizes = self
            .extents
            .iter()
            .filter(|(_, extent)| extent.cuts == cuts)
            .map(|(_, extent)| extent.bytes);
        let old = match cuts == self.kept.cuts {
            true => self.kept.bytes,
            false => sizes.next().unwrap_or(self.kept.bytes),
        };
        (cuts, old, sizes.next_back().unwrap_or(old))
    }
}

impl Page {
    fn newest(&self) -> &Block {
        self.versions
            .last()
            .map_or(&self.kept, |version| &version.block)
    }

    fn surviving(&self, cuts: u32, at: (Node, usize), picker: &mut Picker, target: &mut [u8]) {
        let is_later = |version: &Version| version.cut.is_some_and(|cut| cut > cuts);
        let end = self
            .versions
            .iter()
            .position(is_later)
            .unwrap_or(self.versions.len());
        let versions = &self.versions[..end];
        let cut = versions.iter().rposition(|version| version.cut.is_some());
        let old = if cut.is_some() { &None } else { &self.kept };
        let open = &versions[cut.map_or(0, |cut| cut + 1)..];
        let block = |pick: usize| match pick {
            0 => old,
            pick => &open[pick - 1].block,
        };
        let last = open.iter().position(|v| v.seq == picker.last_write());
        let picked = picker.page(at, open.len(), last.map_or(0, |last| last + 1));
        for (sector, part) in target.chunks_mut(SECTOR_BYTES).enumerate() {
            let pick = picked.unwrap_or_else(|| picker.sector(open.len()));
            if let Some(block) = block(pick) {
                let from = sector * SECTOR_BYTES;
                part.copy_from_slice(&block[from..from + part.len()]);
            }
        }
    }
}
