//! The state from which a recording starts: a directory tree that is durable as it stands.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories and files below a root, by path; a directory stands before what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Tree {
    /// Reads a directory: `None` is a directory, bytes are a file.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_into(root, Path::new(""))?;
        Ok(tree)
    }

    fn read_into(&mut self, root: &Path, below: &Path) -> io::Result<()> {
        for entry in fs::read_dir(root.join(below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.0.insert(path.clone(), None);
                self.read_into(root, &path)?;
            } else if entry.file_type()?.is_file() {
                let bytes = fs::read(entry.path())?;
                self.0.insert(path, Some(bytes));
            }
        }
        Ok(())
    }

    /// Writes it below `root`, which is made if it is missing and should be empty.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root)?;
        for (path, bytes) in &self.0 {
            match bytes {
                None => fs::create_dir(root.join(path))?,
                Some(bytes) => fs::write(root.join(path), bytes)?,
            }
        }
        Ok(())
    }
}

/// What was there before a recording began: files, and marks of earlier recordings. Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    /// The files.
    pub tree: Tree,
    /// Marks taken before, as bytes.
    pub marks: Vec<u8>,
}

impl Base {
    /// The present content of a directory.
    pub fn read(root: &Path) -> io::Result<Self> {
        let tree = Tree::read(root)?;
        let marks = Vec::new();
        Ok(Self { tree, marks })
    }
}
