//! The calls that the shim watches, by the names that its rules use.

/// A kind of call; a fault names one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `write`, and `writev`.
    Write,
    /// `pwrite`, and `pwritev`.
    Pwrite,
    /// `fdatasync`.
    Fdatasync,
    /// `fsync`, of a file or a directory.
    Fsync,
    /// `sync_file_range`, which promises nothing after a power cut.
    SyncFileRange,
    /// `ftruncate`, and `truncate`.
    Ftruncate,
    /// `rename` and its kin.
    Rename,
    /// `open` and its kin.
    Open,
    /// `read`.
    Read,
    /// `pread`.
    Pread,
    /// `unlink`.
    Unlink,
    /// `mkdir`.
    Mkdir,
    /// `fallocate`, and `posix_fallocate`.
    Fallocate,
    /// `rmdir`.
    Rmdir,
    /// `link`.
    Link,
}

/// In the order of the shim's numbers, which begin at 1.
const NAMES: [(Call, &str); 15] = [
    (Call::Write, "write"),
    (Call::Pwrite, "pwrite"),
    (Call::Fdatasync, "fdatasync"),
    (Call::Fsync, "fsync"),
    (Call::SyncFileRange, "sync_file_range"),
    (Call::Ftruncate, "ftruncate"),
    (Call::Rename, "rename"),
    (Call::Open, "open"),
    (Call::Read, "read"),
    (Call::Pread, "pread"),
    (Call::Unlink, "unlink"),
    (Call::Mkdir, "mkdir"),
    (Call::Fallocate, "fallocate"),
    (Call::Rmdir, "rmdir"),
    (Call::Link, "link"),
];

impl Call {
    /// The name in a rule.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The call with this number in a recording.
    pub(super) fn numbered(number: u16) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        NAMES.get(index).map(|(call, _)| *call)
    }
}
