//! A disk that follows a recording, operation by operation, and remembers what is durable.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path};

use super::base::Base;
use super::content::Content;
use super::directory::Directory;
use crate::recording::{Event, Found, Handle, Op, Way};

/// The number of an operation.
pub(super) type Seq = u64;
/// A file or a directory, whatever its name.
pub(super) type Node = usize;

pub(super) const ROOT: Node = 0;

#[derive(Debug)]
pub(super) enum Inode {
    File(Content),
    Directory(Directory),
}

/// The state of the watched directory after some operations, as the disk may know it.
#[derive(Debug)]
pub struct Disk {
    pub(super) inodes: Vec<Inode>,
    pub(super) marks: Vec<u8>,
    pub(super) last_write: Seq,
    applied: Seq,
    handles: HashMap<Handle, Node>,
    syncs: HashMap<u64, Seq>,
}

impl Disk {
    /// A disk on which `base` is durable.
    pub fn new(base: &Base) -> io::Result<Self> {
        let mut disk = Self {
            inodes: vec![Inode::Directory(Directory::default())],
            marks: base.marks.clone(),
            last_write: 0,
            applied: 0,
            handles: HashMap::new(),
            syncs: HashMap::new(),
        };
        for (path, bytes) in &base.tree.0 {
            let (parent, name) = disk.parent(path)?;
            let node = disk.add(match bytes {
                Some(bytes) => Inode::File(Content::durable(bytes)),
                None => Inode::Directory(Directory::default()),
            });
            disk.directory(parent)?.add_durable(&name, node);
        }
        Ok(disk)
    }

    /// Applies the next operation of the recording.
    ///
    /// # Errors
    /// When the recording does not fit: it began in a directory that was not empty and was not given as the base, or a
    /// process changed the directory without the shim.
    pub fn apply(&mut self, op: &Op) -> io::Result<()> {
        self.applied += 1;
        let seq = self.applied;
        match &op.event {
            Event::Open {
                handle,
                path,
                found,
            } => self.open(seq, *handle, path, *found)?,
            Event::Write {
                handle,
                offset,
                data,
            } => {
                self.last_write = seq;
                self.file(*handle)?.write(seq, index(*offset)?, data);
            }
            Event::Truncate { handle, size } => {
                self.file(*handle)?.resize(seq, index(*size)?);
            }
            Event::Allocate {
                handle,
                mode,
                offset,
                size,
            } => self.allocate(seq, *handle, *mode, index(*offset)?, index(*size)?)?,
            Event::SyncBegin { sync, .. } => {
                self.syncs.insert(*sync, seq);
            }
            Event::SyncEnd {
                sync,
                handle,
                errno,
            } => self.sync(*sync, *handle, *errno)?,
            // A socket is made by no call that is recorded, and holds nothing.
            Event::Rename { from, .. } if from.file_name() == Some("socket.new".as_ref()) => {}
            Event::Rename { from, to, way } => self.rename(seq, from, to, *way)?,
            Event::Link { from, to } => {
                let node = self.find(from)?;
                self.name(seq, to, Some(node))?;
            }
            Event::Mkdir { path } => {
                let node = self.add(Inode::Directory(Directory::default()));
                self.name(seq, path, Some(node))?;
            }
            Event::Unlink { path } | Event::Rmdir { path } => self.name(seq, path, None)?,
            Event::Mark { bytes } => self.marks.extend_from_slice(bytes),
            Event::Start { .. }
            | Event::Close { .. }
            | Event::SyncRange { .. }
            | Event::Fault { .. }
            | Event::Refused { .. } => {}
        }
        Ok(())
    }

    fn open(&mut self, seq: Seq, handle: Handle, path: &Path, found: Found) -> io::Result<()> {
        let node = match found {
            Found::Nothing => {
                let node = self.add(Inode::File(Content::default()));
                self.name(seq, path, Some(node))?;
                node
            }
            Found::File | Found::Emptied | Found::Directory => self.find(path)?,
        };
        self.handles.insert(handle, node);
        if found == Found::Emptied {
            self.file(handle)?.resize(seq, 0);
        }
        Ok(())
    }

    fn allocate(
        &mut self,
        seq: Seq,
        handle: Handle,
        mode: i32,
        offset: usize,
        size: usize,
    ) -> io::Result<()> {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        let file = self.file(handle)?;
        match mode {
            0 => file.grow(seq, offset + size),
            KEEP => {}
            PUNCH => file.zero(seq, offset, size),
            _ => return Err(unfit(format!("fallocate with mode {mode}"))),
        }
        Ok(())
    }

    fn sync(&mut self, sync: u64, handle: Handle, errno: i32) -> io::Result<()> {
        let begin = self.syncs.remove(&sync);
        let begin = begin.ok_or_else(|| unfit("the end of a sync that never began".into()))?;
        let node = self.node(handle)?;
        match (&mut self.inodes[node], errno) {
            (Inode::File(file), 0) => file.synced(begin),
            (Inode::File(file), _) => file.sync_failed(begin),
            (Inode::Directory(directory), 0) => directory.synced(begin),
            (Inode::Directory(_), _) => {}
        }
        Ok(())
    }

    fn rename(&mut self, seq: Seq, from: &Path, to: &Path, way: Way) -> io::Result<()> {
        let moved = self.find(from)?;
        let back = match way {
            // Two names of one file: rename leaves both alone.
            Way::Replace if self.find(to).is_ok_and(|node| node == moved) => return Ok(()),
            Way::Replace => None,
            Way::Exchange => Some(self.find(to)?),
        };
        let (old_parent, old_name) = self.parent(from)?;
        let (new_parent, new_name) = self.parent(to)?;
        let (old, new) = ((old_name, back), (new_name, Some(moved)));
        if old_parent == new_parent {
            self.directory(old_parent)?
                .change(seq, None, vec![old, new]);
        } else {
            self.directory(old_parent)?
                .change(seq, Some(new_parent), vec![old]);
            self.directory(new_parent)?
                .change(seq, Some(old_parent), vec![new]);
        }
        Ok(())
    }

    /// Sets a name, or removes it.
    fn name(&mut self, seq: Seq, path: &Path, node: Option<Node>) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let names = vec![(name, node)];
        self.directory(parent)?.change(seq, None, names);
        Ok(())
    }

    fn add(&mut self, inode: Inode) -> Node {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    fn find(&mut self, path: &Path) -> io::Result<Node> {
        let mut node = ROOT;
        for part in path.components() {
            let Component::Normal(name) = part else {
                return Err(unfit(format!("the path {}", path.display())));
            };
            let found = self.directory(node)?.find(name);
            node = found
                .ok_or_else(|| unfit(format!("{}, whose beginning is missing", path.display())))?;
        }
        Ok(node)
    }

    fn parent(&mut self, path: &Path) -> io::Result<(Node, OsString)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(unfit(format!("a change of {}", path.display())));
        };
        Ok((self.find(parent)?, name.into()))
    }

    fn directory(&mut self, node: Node) -> io::Result<&mut Directory> {
        match &mut self.inodes[node] {
            Inode::Directory(directory) => Ok(directory),
            Inode::File(_) => Err(unfit("a file where a directory was".into())),
        }
    }

    fn node(&self, handle: Handle) -> io::Result<Node> {
        let node = self.handles.get(&handle).copied();
        node.ok_or_else(|| unfit("a handle that was never opened".into()))
    }

    fn file(&mut self, handle: Handle) -> io::Result<&mut Content> {
        let node = self.node(handle)?;
        match &mut self.inodes[node] {
            Inode::File(content) => Ok(content),
            Inode::Directory(_) => Err(unfit("a directory where a file was".into())),
        }
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| unfit("an offset too large".into()))
}

fn unfit(what: String) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the recording does not fit its base: {what}"),
    )
}
