//! The outside world of the demo: a file that effects are appended to, and that knows nothing of semel.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli::demo::folder::unique;

/// An append-only file, one line an effect: which operation, for which key, and its receipt.
#[derive(Clone, Debug)]
pub(super) struct Ledger(PathBuf);

impl Ledger {
    /// The ledger in this file, which begins to exist with its first line.
    pub(super) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The effect itself: one more line, appended in one write. Every effect has a receipt of its own.
    pub(super) fn charge(&self, operation: &str, key: &str) -> io::Result<String> {
        let receipt = format!("receipt-{}", unique());
        let mut file = OpenOptions::new().append(true).create(true).open(&self.0)?;
        file.write_all(format!("{operation}\t{key}\t{receipt}\n").as_bytes())?;
        Ok(receipt)
    }

    /// The receipts of all effects of an operation.
    pub(super) fn receipts(&self, operation: &str) -> io::Result<Vec<String>> {
        let text = match std::fs::read_to_string(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let lines = text.lines().filter_map(|line| {
            line.strip_prefix(operation)?
                .strip_prefix('\t')?
                .split_once('\t')
        });
        Ok(lines.map(|(_, receipt)| receipt.to_owned()).collect())
    }
}
