//! The recording as it stands in its file: a header of fixed size, then path, target and data, all little-endian.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{Call, Event, Found, Op, Way};

const MAGIC: u32 = 0x524d_4553;
const FORMAT_VERSION: u64 = 1;
const HEADER_BYTES: usize = 64;
const OPEN_CREATED: u64 = 1;
const OPEN_TRUNCATED: u64 = 2;
const OPEN_DIRECTORY: u64 = 4;

/// All operations, in the order in which they happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// The operations.
    pub ops: Vec<Op>,
}

impl Recording {
    /// Reads a recording. A last record that a kill cut short is left out.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&fs::read(path)?)
    }

    /// Parses the bytes of a recording.
    pub fn parse(mut bytes: &[u8]) -> io::Result<Self> {
        let mut ops = Vec::new();
        while let Some(record) = Record::take(&mut bytes)? {
            let thread = record.thread;
            let event = record.into_event()?;
            ops.push(Op { thread, event });
        }
        Ok(Self { ops })
    }

    /// How many faults were injected.
    pub fn faults(&self) -> usize {
        let is_fault = |op: &&Op| matches!(op.event, Event::Fault { .. });
        self.ops.iter().filter(is_fault).count()
    }
}

struct Record<'a> {
    kind: u16,
    call: u16,
    thread: u32,
    handle: u64,
    offset: u64,
    size: u64,
    result: i64,
    flags: u64,
    path: PathBuf,
    target: PathBuf,
    data: &'a [u8],
}

impl<'a> Record<'a> {
    fn take(bytes: &mut &'a [u8]) -> io::Result<Option<Self>> {
        let Some((mut header, mut rest)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Ok(None);
        };
        if u32_of(&mut header) != MAGIC {
            return Err(broken("a record without its magic"));
        }
        let (kind, call) = (u16_of(&mut header), u16_of(&mut header));
        let thread = u32_of(&mut header);
        let path_bytes = usize::from(u16_of(&mut header));
        let target_bytes = usize::from(u16_of(&mut header));
        let [handle, offset, size, result, flags, data_bytes] =
            std::array::from_fn(|_| u64_of(&mut header));
        let data_bytes = usize::try_from(data_bytes).map_err(|_| broken("a record too large"))?;
        if rest.len() < data_bytes.saturating_add(path_bytes + target_bytes) {
            return Ok(None);
        }
        let path = path_of(take(&mut rest, path_bytes));
        let target = path_of(take(&mut rest, target_bytes));
        let data = take(&mut rest, data_bytes);
        *bytes = rest;
        let result = result.cast_signed();
        Ok(Some(Self {
            kind,
            call,
            thread,
            handle,
            offset,
            size,
            result,
            flags,
            path,
            target,
            data,
        }))
    }

    fn into_event(self) -> io::Result<Event> {
        let handle = self.handle;
        let errno = i32::try_from(-self.result.min(0)).map_err(|_| broken("an error number"))?;
        let is_attempt = matches!(self.kind, 4..=6 | 9..=14);
        if is_attempt && errno != 0 {
            let call = self.call()?;
            let path = self.path;
            return Ok(Event::Refused { call, path, errno });
        }
        Ok(match self.kind {
            1 if self.offset == FORMAT_VERSION => Event::Start {
                process: u32::try_from(self.flags).map_err(|_| broken("a process id"))?,
                root: self.path,
            },
            2 => Event::Open {
                handle,
                found: found(self.flags),
                path: self.path,
            },
            3 => Event::Close { handle },
            4 => Event::Write {
                handle,
                offset: self.offset,
                data: self.data.to_vec(),
            },
            5 => Event::Truncate {
                handle,
                size: self.size,
            },
            6 => Event::Allocate {
                handle,
                mode: i32::try_from(self.flags).map_err(|_| broken("a mode"))?,
                offset: self.offset,
                size: self.size,
            },
            7 => Event::SyncBegin {
                sync: self.offset,
                handle,
                call: self.call()?,
            },
            8 => Event::SyncEnd {
                sync: self.offset,
                handle,
                errno,
            },
            9 => Event::SyncRange { handle },
            10 => Event::Rename {
                way: way(self.flags),
                from: self.path,
                to: self.target,
            },
            11 => Event::Unlink { path: self.path },
            12 => Event::Mkdir { path: self.path },
            13 => Event::Rmdir { path: self.path },
            14 => Event::Link {
                from: self.path,
                to: self.target,
            },
            15 => Event::Mark {
                bytes: self.data.to_vec(),
            },
            16 => Event::Fault {
                call: self.call()?,
                path: self.path,
                errno,
            },
            _ => return Err(broken("a record of another kind or version")),
        })
    }

    fn call(&self) -> io::Result<Call> {
        Call::numbered(self.call).ok_or_else(|| broken("a call without a name"))
    }
}

fn found(flags: u64) -> Found {
    match flags {
        flags if flags & OPEN_DIRECTORY != 0 => Found::Directory,
        flags if flags & OPEN_CREATED != 0 => Found::Nothing,
        flags if flags & OPEN_TRUNCATED != 0 => Found::Emptied,
        _ => Found::File,
    }
}

fn way(flags: u64) -> Way {
    match flags & u64::from(libc::RENAME_EXCHANGE) {
        0 => Way::Replace,
        _ => Way::Exchange,
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    match bytes {
        b"." => PathBuf::new(),
        bytes => PathBuf::from(OsString::from_vec(bytes.to_vec())),
    }
}

/// The caller has checked that so many bytes are there.
fn take<'a>(bytes: &mut &'a [u8], size: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(size);
    *bytes = rest;
    head
}

fn array<const SIZE: usize>(bytes: &mut &[u8]) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    out.copy_from_slice(take(bytes, SIZE));
    out
}

fn u16_of(bytes: &mut &[u8]) -> u16 {
    u16::from_le_bytes(array(bytes))
}

fn u32_of(bytes: &mut &[u8]) -> u32 {
    u32::from_le_bytes(array(bytes))
}

fn u64_of(bytes: &mut &[u8]) -> u64 {
    u64::from_le_bytes(array(bytes))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the recording holds {what}"),
    )
}
