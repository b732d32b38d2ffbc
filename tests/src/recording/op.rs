//! One recorded operation.

use std::path::PathBuf;

use super::Call;

/// An open file, shared by the copies of its descriptor; unique in a recording.
pub type Handle = u64;

/// One recorded operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// The thread that did it.
    pub thread: u32,
    /// What it did.
    pub event: Event,
}

/// What happened. Paths are below the watched directory, which is the empty path itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A process began.
    Start {
        /// Its id.
        process: u32,
        /// The watched directory.
        root: PathBuf,
    },
    /// A file or directory was opened.
    Open {
        /// The handle from now on.
        handle: Handle,
        /// Its name at that moment.
        path: PathBuf,
        /// What was there.
        found: Found,
    },
    /// A descriptor was closed; copies of it may live on.
    Close {
        /// The open file.
        handle: Handle,
    },
    /// Bytes were written, by a short write fewer than asked for.
    Write {
        /// The open file.
        handle: Handle,
        /// Where the first byte went.
        offset: u64,
        /// What was written.
        data: Vec<u8>,
    },
    /// The size was set.
    Truncate {
        /// The open file.
        handle: Handle,
        /// The size from now on, in bytes.
        size: u64,
    },
    /// Space was allocated.
    Allocate {
        /// The open file.
        handle: Handle,
        /// The mode flags of `fallocate`.
        mode: i32,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        size: u64,
    },
    /// An fsync or fdatasync began.
    SyncBegin {
        /// The number that its end carries, too.
        sync: u64,
        /// The open file or directory.
        handle: Handle,
        /// Which of the two.
        call: Call,
    },
    /// An fsync or fdatasync returned.
    SyncEnd {
        /// The number that its begin carries.
        sync: u64,
        /// The open file or directory.
        handle: Handle,
        /// 0 when it succeeded.
        errno: i32,
    },
    /// A `sync_file_range` returned.
    SyncRange {
        /// The open file.
        handle: Handle,
    },
    /// A name was moved, or exchanged with another.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
        /// Which of the two.
        way: Way,
    },
    /// A name was removed.
    Unlink {
        /// The name.
        path: PathBuf,
    },
    /// A directory was made.
    Mkdir {
        /// Its name.
        path: PathBuf,
    },
    /// A directory was removed.
    Rmdir {
        /// Its name.
        path: PathBuf,
    },
    /// A file was given a second name.
    Link {
        /// The first name.
        from: PathBuf,
        /// The second name.
        to: PathBuf,
    },
    /// The process announced something: one write to its marks.
    Mark {
        /// The bytes of that write.
        bytes: Vec<u8>,
    },
    /// A call is about to be spoiled.
    Fault {
        /// Which call.
        call: Call,
        /// On what.
        path: PathBuf,
        /// 0 for a hang or a short write.
        errno: i32,
    },
    /// A call failed and changed nothing.
    Refused {
        /// Which call.
        call: Call,
        /// On what.
        path: PathBuf,
        /// Why.
        errno: i32,
    },
}

/// What an open met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A file, left as it was.
    File,
    /// A file that was emptied.
    Emptied,
    /// Nothing: the file was created.
    Nothing,
    /// A directory.
    Directory,
}

/// How a rename moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The old name is gone, the new one is replaced.
    Replace,
    /// The two names change places.
    Exchange,
}
