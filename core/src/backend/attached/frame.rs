//! What is said over the socket: one question for each call, and the answers to it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::backend::local::{Accounts, BackupFacts, Verification};
use crate::backend::{Admission, Committed, Cursor, Decided, Durability, Scanned, Seen, Write};
use crate::codec::encode_message;
use crate::error::{Error, ErrorKind, Result};
use crate::lifecycle::Event;

/// Rises with every change of what is said here: both ends must have the same.
pub(super) const VERSION: u8 = 1;
/// The first bytes of every frame, so that no other protocol is taken for this one.
const MAGIC: [u8; 2] = *b"sM";
/// The length of what stands before the body.
pub(super) const HEAD_BYTES: usize = 16;
/// The longest body: a result and the record that holds it, or a commit, with room to spare.
pub(super) const MAX_BODY_BYTES: usize = 16 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Question = 1,
    /// The last of an answer.
    Answer = 2,
    /// A piece of an answer; more follows.
    Piece = 3,
    /// The owner is still at it.
    Alive = 4,
}

/// What stands before the body of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// Whether this question may have been asked before.
    pub(super) again: bool,
    pub(super) body_bytes: usize,
    /// Until when somebody waits for the answer to begin, in the store's time.
    pub(super) until_us: u64,
}

impl Head {
    /// Puts a frame together: the head, then the message.
    pub(super) fn frame<T: Serialize>(kind: Kind, message: &T) -> Result<Vec<u8>> {
        let mut frame = Vec::with_capacity(256);
        frame.resize(HEAD_BYTES, 0);
        encode_message(&mut frame, message)?;
        let body_bytes = frame.len() - HEAD_BYTES;
        if body_bytes > MAX_BODY_BYTES {
            return Err(Error::invalid(format!(
                "a call of {body_bytes} bytes is too long for another process to hold the store; at most {MAX_BODY_BYTES} are allowed: keep results and transactions smaller"
            )));
        }
        let head = Self {
            kind,
            again: false,
            body_bytes,
            until_us: 0,
        };
        head.write(&mut frame);
        Ok(frame)
    }

    /// A frame without a body.
    pub(super) fn bare(kind: Kind) -> [u8; HEAD_BYTES] {
        let mut frame = [0; HEAD_BYTES];
        let head = Self {
            kind,
            again: false,
            body_bytes: 0,
            until_us: 0,
        };
        head.write(&mut frame);
        frame
    }

    /// Says how long a question is asked, and whether for another time.
    pub(super) fn stamp(frame: &mut [u8], until_us: u64, again: bool) {
        frame[7] = u8::from(again);
        frame[8..HEAD_BYTES].copy_from_slice(&until_us.to_le_bytes());
    }

    fn write(&self, frame: &mut [u8]) {
        frame[..4].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        frame[4..6].copy_from_slice(&MAGIC);
        // The version and the kind share a byte, so that the head stays short.
        frame[6] = VERSION << 4 | self.kind as u8;
        Self::stamp(frame, self.until_us, self.again);
    }

    /// Reads a head, and refuses what this version does not speak.
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Self> {
        let body_bytes = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if bytes[4..6] != MAGIC {
            return Err(Error::corrupt(
                "what answers at the store's socket is not semel; see which process listens there",
            ));
        }
        if bytes[6] >> 4 != VERSION {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the processes that use the store speak versions {} and {VERSION} with each other: run the same version of semel in all of them",
                    bytes[6] >> 4
                ),
            ));
        }
        let kind = match bytes[6] & 0x0f {
            1 => Kind::Question,
            2 => Kind::Answer,
            3 => Kind::Piece,
            4 => Kind::Alive,
            _ => {
                return Err(Error::corrupt(
                    "a message of an unknown kind came over the store's socket",
                ));
            }
        };
        if body_bytes > MAX_BODY_BYTES {
            return Err(Error::corrupt(format!(
                "a message of {body_bytes} bytes came over the store's socket; at most {MAX_BODY_BYTES} are allowed"
            )));
        }
        let mut until_us = [0; 8];
        until_us.copy_from_slice(&bytes[8..]);
        Ok(Self {
            kind,
            again: bytes[7] & 1 != 0,
            body_bytes,
            until_us: u64::from_le_bytes(until_us),
        })
    }
}

/// Who is calling: the first message of a connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) session: u64,
}

/// What the owner answers to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// Of this ownership: no two owners have the same.
    pub(super) reign: u64,
    /// That of the owner before it, if that one wrote everything before it let go; 0 is none.
    pub(super) before: u64,
    pub(super) now_us: u64,
    /// Keys the fingerprints of payloads, and tells this store from every other.
    pub(super) fingerprint_secret: [u8; 32],
    pub(super) pid: u32,
}

/// One key of a commit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part<'q> {
    pub(super) key: Cow<'q, [u8]>,
    pub(super) version: u64,
    pub(super) write: Cow<'q, Option<Write>>,
}

/// One call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question<'q> {
    Hello(Hello),
    Update {
        key: Cow<'q, [u8]>,
        event: Cow<'q, Event>,
        /// The turn of a waiter that was promoted; 0 is none.
        turn: u64,
        durability: Durability,
    },
    /// A claim is taken back, and the row that its commit has noted it in.
    Withdraw {
        key: Cow<'q, [u8]>,
        event: Cow<'q, Event>,
        noted: Option<Cow<'q, [u8]>>,
    },
    Commit {
        keys: Vec<Part<'q>>,
        nonce: u64,
        durability: Durability,
        admission: Admission,
        /// When it was asked for at first, in the store's time.
        asked_us: u64,
    },
    Load {
        keys: Vec<Cow<'q, [u8]>>,
    },
    Changed {
        key: Cow<'q, [u8]>,
        seen: u64,
        until_us: u64,
    },
    /// A turn that was not used passes on.
    Pass {
        turn: u64,
    },
    Scan {
        from: Cursor,
    },
    OpenRecords {
        until_us: u64,
        limit: u64,
    },
    Ordered {
        space: Cow<'q, str>,
        limit: u64,
    },
    /// The first row of each space that is kept in order.
    FirstRows {
        limit: u64,
    },
    Stamp,
    Sweep,
    Barrier,
    Accounts,
    Verify,
    Backup {
        /// The absolute path, in the bytes of the system.
        file: Vec<u8>,
    },
}

/// The end of an answer. Records that were asked for come before it, in pieces.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Welcome(Welcome),
    Decided(Decided),
    Committed(Committed),
    Seen(Vec<Seen>),
    /// The turn that a waiter got; 0 is none.
    Turn(u64),
    /// All that was asked for has come.
    Scanned(Option<Cursor>),
    Number(u64),
    Done,
    Accounts(Box<Accounts>),
    Verified(Verification),
    Copied(BackupFacts),
    Error {
        kind: String,
        message: String,
    },
    /// The owner serves as many as it can.
    Full,
}

/// A piece of an answer.
pub(super) type Piece = Vec<Scanned>;

impl Reply {
    pub(super) fn error(error: &Error) -> Self {
        Self::Error {
            kind: error.kind().name().to_owned(),
            message: error.message().to_owned(),
        }
    }

    /// The answer, or the error that it is.
    pub(super) fn checked(self) -> Result<Self> {
        match self {
            Self::Error { kind, message } => Err(Error::new(named(&kind), message)),
            reply => Ok(reply),
        }
    }

    /// An answer to another question than the one that was asked.
    pub(super) fn unexpected(&self) -> Error {
        Error::corrupt(
            "the process that holds the store answered something else than it was asked; run the same version of semel in all processes",
        )
    }
}

fn named(name: &str) -> ErrorKind {
    [
        ErrorKind::InvalidInput,
        ErrorKind::StoreLocked,
        ErrorKind::Unavailable,
        ErrorKind::Corrupt,
        ErrorKind::ForkedProcess,
        ErrorKind::Closed,
        ErrorKind::Unsupported,
        ErrorKind::Lost,
        ErrorKind::Timeout,
        ErrorKind::TransactionConflict,
    ]
    .into_iter()
    .find(|kind| kind.name() == name)
    .unwrap_or(ErrorKind::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_as_it_went() {
        let mut frame = Head::frame(Kind::Question, &Question::Stamp).expect("encodes");
        Head::stamp(&mut frame, 77, true);
        let head = Head::read(frame[..HEAD_BYTES].try_into().expect("as long")).expect("is one");
        assert_eq!(
            (head.kind, head.again, head.until_us),
            (Kind::Question, true, 77)
        );
        assert_eq!(head.body_bytes, frame.len() - HEAD_BYTES);
    }

    #[test]
    fn what_is_no_head_is_refused_and_says_why() {
        let good = Head::bare(Kind::Alive);
        let with = |at: usize, byte: u8| {
            let mut bad = good;
            bad[at] = byte;
            Head::read(&bad).expect_err("refused").to_string()
        };
        assert!(with(4, b'x').contains("is not semel"));
        assert!(with(6, 0x91).contains("versions 9 and 1"));
        assert!(with(6, 0x1f).contains("unknown kind"));
        assert!(with(3, 0xff).contains("at most 16777216"));
    }
}
