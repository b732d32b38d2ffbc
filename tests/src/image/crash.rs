//! The power fails: an image of what is left on the disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::base::{Base, Tree};
use super::choice::{Choice, Dice, Keep};
use super::disk::{Disk, Inode, Node, ROOT, Seq};
use crate::recording::{Op, Recording};

/// What a process finds after the power cut.
#[derive(Debug, Clone)]
pub struct Image {
    /// The directory tree, in place of the watched directory.
    pub dir: PathBuf,
    /// How many operations came before the cut.
    pub cut: usize,
    /// What reached the disk of those that were not synced.
    pub choice: Choice,
    /// What the process had announced: one entry for each whole line of its marks.
    pub marks: Vec<String>,
}

/// Builds the image of a cut after `cut` operations of a recording that began in an empty directory.
pub fn build(ops: &[Op], cut: usize, choice: &Choice, out: &Path) -> io::Result<Image> {
    build_on(&Base::default(), ops, cut, choice, out)
}

/// Builds the image of a cut after `cut` operations of a recording that began with `base`.
pub fn build_on(
    base: &Base,
    ops: &[Op],
    cut: usize,
    choice: &Choice,
    out: &Path,
) -> io::Result<Image> {
    let mut disk = Disk::new(base)?;
    for op in &ops[..cut] {
        disk.apply(op)?;
    }
    disk.image(cut, choice, out)
}

/// Records what `run` does on an image, so that a second power cut can hit the recovery of the first.
///
/// `run` starts a process under a shim that watches the directory it is given, and hands back the recording. The base
/// is the image as it was; its marks stay in force.
pub fn second_crash(
    image: &Image,
    run: impl FnOnce(&Path) -> io::Result<Recording>,
) -> io::Result<(Base, Recording)> {
    let tree = Tree::read(&image.dir)?;
    let marks = image
        .marks
        .iter()
        .flat_map(|line| [line, "\n"].concat().into_bytes());
    let base = Base {
        tree,
        marks: marks.collect(),
    };
    Ok((base, run(&image.dir)?))
}

impl Disk {
    /// Writes the image of a power cut in this state, after `cut` operations; the disk itself goes on.
    pub fn image(&self, cut: usize, choice: &Choice, out: &Path) -> io::Result<Image> {
        self.crash(choice).write(out)?;
        let whole = self.marks.iter().rposition(|byte| *byte == b'\n');
        let lines = String::from_utf8_lossy(&self.marks[..whole.unwrap_or(0)]).into_owned();
        Ok(Image {
            dir: out.into(),
            cut,
            choice: *choice,
            marks: lines.lines().map(String::from).collect(),
        })
    }

    /// What is left of the tree when the power fails in this state.
    pub fn crash(&self, choice: &Choice) -> Tree {
        let mut picker = Picker::new(self, choice);
        let changes = self.surviving_changes(&mut picker);
        let mut tree = Tree::default();
        self.surviving(ROOT, Path::new(""), &changes, &mut picker, &mut tree);
        tree
    }

    fn surviving(
        &self,
        node: Node,
        path: &Path,
        changes: &BTreeMap<Node, usize>,
        picker: &mut Picker,
        tree: &mut Tree,
    ) {
        match &self.inodes[node] {
            Inode::File(content) => {
                let bytes = content.surviving(node, picker);
                tree.0.insert(path.into(), Some(bytes));
            }
            Inode::Directory(directory) => {
                if node != ROOT {
                    tree.0.insert(path.into(), None);
                }
                for (name, child) in directory.surviving(changes[&node]) {
                    self.surviving(child, &path.join(name), changes, picker, tree);
                }
            }
        }
    }

    /// How many of the open changes of each directory are on the disk: a move stands in both directories or in none.
    fn surviving_changes(&self, picker: &mut Picker) -> BTreeMap<Node, usize> {
        let mut kept = BTreeMap::new();
        for (node, inode) in self.inodes.iter().enumerate() {
            if let Inode::Directory(directory) = inode {
                kept.insert(node, picker.names(node, directory.open_changes()));
            }
        }
        while let Some((node, count)) = self.half_move(&kept) {
            // Each turn keeps at least one more change, so this ends.
            kept.insert(node, count);
        }
        kept
    }

    /// A directory that must keep more changes, because the other half of a move is kept.
    fn half_move(&self, kept: &BTreeMap<Node, usize>) -> Option<(Node, usize)> {
        for (node, inode) in self.inodes.iter().enumerate() {
            let Inode::Directory(directory) = inode else {
                continue;
            };
            for (index, seq, twin) in directory.moves() {
                let Inode::Directory(other) = &self.inodes[twin] else {
                    continue;
                };
                let is_kept_there = other.position(seq).is_none_or(|there| there < kept[&twin]);
                if is_kept_there && index >= kept[&node] {
                    return Some((node, index + 1));
                }
            }
        }
        None
    }
}

/// Carries a choice out: picks among the states that are possible.
#[derive(Debug)]
pub(super) struct Picker {
    keep: Keep,
    dice: Dice,
    last_write: Seq,
    /// The one change that [`Keep::AllButOne`] loses.
    lost: Option<Open>,
}

/// Something whose state on the disk is open.
#[derive(Debug, PartialEq, Eq)]
enum Open {
    Page(Node, usize),
    Size(Node),
    Names(Node),
}

impl Picker {
    fn new(disk: &Disk, choice: &Choice) -> Self {
        let mut picker = Self {
            keep: choice.keep,
            dice: Dice::new(choice.seed),
            last_write: disk.last_write,
            lost: None,
        };
        if choice.keep == Keep::AllButOne {
            let mut open = open_states(disk);
            if !open.is_empty() {
                let index = picker.dice.below(open.len());
                picker.lost = Some(open.swap_remove(index));
            }
        }
        picker
    }

    pub(super) fn last_write(&self) -> Seq {
        self.last_write
    }

    /// How many of `open` shortenings of a file took place.
    pub(super) fn cuts(&mut self, node: Node, open: usize) -> usize {
        self.prefix(Open::Size(node), open, 0)
    }

    /// How many of `open` changes of names took place.
    fn names(&mut self, node: Node, open: usize) -> usize {
        self.prefix(Open::Names(node), open, open.saturating_sub(1))
    }

    fn prefix(&mut self, what: Open, open: usize, lost: usize) -> usize {
        match self.keep {
            Keep::Nothing => 0,
            Keep::AllButOne if self.lost == Some(what) => lost,
            Keep::Everything | Keep::LastOnly | Keep::AllButOne => open,
            Keep::Percent(_) | Keep::Torn => self.dice.below(open + 1),
        }
    }

    pub(super) fn size(&mut self, node: Node, old: usize, new: usize) -> usize {
        let is_new = match self.keep {
            Keep::Nothing => false,
            Keep::AllButOne => self.lost != Some(Open::Size(node)),
            Keep::Everything | Keep::LastOnly => true,
            Keep::Percent(_) | Keep::Torn => self.dice.percent(50),
        };
        if is_new { new } else { old }
    }

    /// The version of a page: 0 is the old one, `newest` the newest; `last` is the one of the last write, or 0. `None`
    /// is a page to be mixed sector by sector.
    pub(super) fn page(
        &mut self,
        (node, index): (Node, usize),
        newest: usize,
        last: usize,
    ) -> Option<usize> {
        if newest == 0 {
            return Some(0);
        }
        match self.keep {
            Keep::Nothing => Some(0),
            Keep::Everything => Some(newest),
            Keep::LastOnly => Some(last),
            Keep::AllButOne if self.lost == Some(Open::Page(node, index)) => {
                Some(self.dice.below(newest))
            }
            Keep::AllButOne => Some(newest),
            Keep::Percent(chance) => Some(self.version(chance, newest)),
            Keep::Torn if self.dice.percent(50) => None,
            Keep::Torn => Some(self.version(50, newest)),
        }
    }

    /// The version of one sector of a torn page.
    pub(super) fn sector(&mut self, newest: usize) -> usize {
        self.dice.below(newest + 1)
    }

    fn version(&mut self, chance: u8, newest: usize) -> usize {
        match self.dice.percent(chance) {
            false => 0,
            true if self.dice.percent(50) => newest,
            true => 1 + self.dice.below(newest),
        }
    }
}

fn open_states(disk: &Disk) -> Vec<Open> {
    let mut open = Vec::new();
    for (node, inode) in disk.inodes.iter().enumerate() {
        match inode {
            Inode::File(content) => {
                open.extend(content.dirty_pages().map(|page| Open::Page(node, page)));
                open.extend(content.is_size_open().then_some(Open::Size(node)));
            }
            Inode::Directory(directory) => {
                let is_open = directory.open_changes() > 0;
                open.extend(is_open.then_some(Open::Names(node)));
            }
        }
    }
    open
}
