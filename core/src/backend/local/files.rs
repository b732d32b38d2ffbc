//! Files and directories: errors that say which, and what to do; and what makes a name durable.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// An error of the file system, with what was being done to which path.
pub(super) fn io(path: &Path, doing: &str, error: std::io::Error) -> Error {
    let advice = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "; free some space and open the store again"
        }
        std::io::ErrorKind::ReadOnlyFilesystem => {
            "; the store needs to write: put it on a file system that is mounted writable"
        }
        std::io::ErrorKind::PermissionDenied => {
            "; give this user the right to read and write there, or use another directory"
        }
        _ => "",
    };
    Error::unavailable(format!(
        "could not {doing} {}: {error}{advice}",
        path.display()
    ))
    .caused_by(error)
}

/// Makes a file, or the names in a directory, durable.
pub(super) fn sync_path(path: &Path) -> Result<()> {
    let open = File::open(path).map_err(|e| io(path, "open", e))?;
    open.sync_all().map_err(|e| io(path, "sync", e))
}

/// The same place wherever the process goes from here, and by its own name: what is behind the last slash of `link/` is what
/// the link leads to, and nothing would tell the one from the other.
pub(crate) fn settled(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    absolute.components().collect()
}
