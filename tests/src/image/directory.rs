//! The names in one directory: those that are durable, and the changes since.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::disk::{Node, Seq};

type Names = BTreeMap<OsString, Node>;

#[derive(Debug, Default)]
pub(super) struct Directory {
    kept: Names,
    now: Names,
    changes: Vec<Change>,
}

/// A call that changed names; a rename from one directory into another leaves one in each, with the same number.
#[derive(Debug)]
struct Change {
    seq: Seq,
    twin: Option<Node>,
    names: Vec<(OsString, Option<Node>)>,
}

impl Directory {
    /// Adds a name that is durable.
    pub(super) fn add_durable(&mut self, name: &OsStr, node: Node) {
        self.kept.insert(name.into(), node);
        self.now.insert(name.into(), node);
    }

    pub(super) fn find(&self, name: &OsStr) -> Option<Node> {
        self.now.get(name).copied()
    }

    /// Sets names, or removes them, in one step; `twin` is the other directory of a move.
    pub(super) fn change(
        &mut self,
        seq: Seq,
        twin: Option<Node>,
        names: Vec<(OsString, Option<Node>)>,
    ) {
        set(&mut self.now, &names);
        self.changes.push(Change { seq, twin, names });
    }

    /// An fsync of this directory that began at `begin` succeeded.
    pub(super) fn synced(&mut self, begin: Seq) {
        let reached = self.changes.partition_point(|change| change.seq < begin);
        for change in self.changes.drain(..reached) {
            set(&mut self.kept, &change.names);
        }
    }

    pub(super) fn open_changes(&self) -> usize {
        self.changes.len()
    }

    /// The other half of each open move: where this half stands, its number, the other directory.
    pub(super) fn moves(&self) -> impl Iterator<Item = (usize, Seq, Node)> + '_ {
        let moves = self.changes.iter().enumerate();
        moves.filter_map(|(index, change)| Some((index, change.seq, change.twin?)))
    }

    /// Where the open change with this number stands; `None` when it is durable.
    pub(super) fn position(&self, seq: Seq) -> Option<usize> {
        self.changes.iter().position(|change| change.seq == seq)
    }

    /// The names after the power cut, when so many of the open changes are on the disk.
    pub(super) fn surviving(&self, changes: usize) -> Names {
        let mut names = self.kept.clone();
        for change in &self.changes[..changes] {
            set(&mut names, &change.names);
        }
        names
    }
}

fn set(names: &mut Names, changes: &[(OsString, Option<Node>)]) {
    for (name, node) in changes {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}
