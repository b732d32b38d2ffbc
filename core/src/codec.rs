//! The only place that knows how records become bytes. The layout is in `docs/format.md`.
//!
//! A block is one value of the log: a header, then entries back to back. An entry is one change of one key. Everything a
//! scan needs stands in fixed places before the key, so that an opening store decodes no record it does not need.

use std::sync::Arc;

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::record::Record;

mod block;
mod entry;
#[cfg(unix)]
mod frame;
mod relative;

pub(crate) use block::{
    BLOCK_ROOM_BYTES, BlockHead, BlockReader, BlockWriter, Entry, MAX_BLOCK_BYTES, piece_range,
    pieces,
};
pub(crate) use entry::{ENTRY_FIXED_BYTES, EntryHead, Group, Kind};
#[cfg(unix)]
pub(crate) use frame::{decode_message, encode_message};

/// What the largest decoded record may take, whatever the bytes claim.
const DECODE_LIMIT_BYTES: usize = 32 << 20;

/// The keyed hash of a key.
pub(crate) type KeyHash = [u64; 2];

/// What one value of a key is, in memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Content {
    /// The life of an operation.
    Record(Arc<Record>),
    /// A row: bytes with a version.
    Row(Arc<Row>),
}

/// A row of the store: bytes that somebody else gives a meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) version: u64,
    /// Of the commit that wrote it.
    pub(crate) nonce: u64,
    pub(crate) forgotten_at_us: u64,
    /// Its place among the rows of its space that are kept in order; 0 when it is not one of them.
    pub(crate) order: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Record(record) => record.version,
            Self::Row(row) => row.version,
        }
    }

    /// Of the event or commit that made this version.
    pub(crate) fn nonce(&self) -> u64 {
        match self {
            Self::Record(record) => record.nonce,
            Self::Row(row) => row.nonce,
        }
    }

    pub(crate) fn forgotten_at_us(&self) -> u64 {
        match self {
            Self::Record(record) => record.forgotten_at_us(),
            Self::Row(row) => row.forgotten_at_us,
        }
    }

    /// What an entry tells as its [`EntryHead::due_us`].
    pub(crate) fn due_us(&self) -> u64 {
        match self {
            Self::Record(record) => record
                .open_since_us()
                .unwrap_or_else(|| record.retained_until_us()),
            Self::Row(row) => row.forgotten_at_us,
        }
    }

    pub(crate) fn open_since_us(&self) -> Option<u64> {
        match self {
            Self::Record(record) => record.open_since_us(),
            Self::Row(_) => None,
        }
    }

    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Record(record) => record.weight(),
            Self::Row(row) => size_of::<Row>() + row.bytes.len(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Record(record) if record.open_since_us().is_some() => Kind::OpenRecord,
            Self::Record(_) => Kind::EndedRecord,
            Self::Row(row) if row.order != 0 => Kind::OrderedRow,
            Self::Row(_) => Kind::Row,
        }
    }
}

/// Puts the payload of an entry behind what is in `out`: the key with its length, then the body. Gives its length.
pub(crate) fn encode_payload(
    out: &mut Vec<u8>,
    key: &[u8],
    content: Option<&Content>,
) -> Result<usize> {
    let before = out.len();
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    let draft = Draft(out);
    let written = match content {
        Some(Content::Record(record)) => {
            bincode::serde::encode_into_writer(relative::from_version(record), draft, config())
        }
        Some(Content::Row(row)) => bincode::serde::encode_into_writer(&**row, draft, config()),
        None => Ok(()),
    };
    match written {
        Ok(()) => Ok(out.len() - before),
        Err(e) => Err(Error::invalid(format!("the record cannot be encoded: {e}"))),
    }
}

/// Bytes being written; most come one or few at a time.
struct Draft<'v>(&'v mut Vec<u8>);

impl bincode::enc::write::Writer for Draft<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::result::Result<(), bincode::error::EncodeError> {
        match bytes {
            [one] => self.0.push(*one),
            bytes => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Takes a payload apart into key and body.
pub(crate) fn split_payload(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = payload.split_at_checked(2)?;
    rest.split_at_checked(u16::from_le_bytes([len[0], len[1]]) as usize)
}

/// Decodes the body of an entry of this kind; `None` for a marker.
pub(crate) fn decode_body(kind: Kind, body: &[u8]) -> Result<Option<Content>> {
    let unreadable = |e: bincode::error::DecodeError| {
        Error::corrupt(format!(
            "a record of the log cannot be read: {e}; restore a backup"
        ))
    };
    Ok(match kind {
        Kind::OpenRecord | Kind::EndedRecord => {
            let (record, _) = bincode::serde::decode_from_slice::<Record, _>(body, config())
                .map_err(unreadable)?;
            Some(Content::Record(Arc::new(relative::to_version(record))))
        }
        Kind::Row | Kind::OrderedRow => {
            let (row, _) =
                bincode::serde::decode_from_slice::<Row, _>(body, config()).map_err(unreadable)?;
            Some(Content::Row(Arc::new(row)))
        }
        Kind::Marker | Kind::Piece => None,
    })
}

/// The form in which schemes write their rows; the first byte of each.
const ROW_FORM: u8 = 1;

/// What a scheme keeps, as the bytes of a row.
pub(crate) fn encode_row<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    out.push(ROW_FORM);
    match bincode::serde::encode_into_std_write(value, &mut out, config()) {
        Ok(_) => Ok(out),
        Err(e) => Err(Error::invalid(e.to_string())),
    }
}

/// What a scheme keeps, from the bytes of a row.
pub(crate) fn decode_row<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T> {
    let Some((&ROW_FORM, bytes)) = bytes.split_first() else {
        return Err(Error::corrupt(
            "it was written by a newer semel, or is damaged",
        ));
    };
    match bincode::serde::borrow_decode_from_slice(bytes, config()) {
        Ok((value, _)) => Ok(value),
        Err(e) => Err(Error::corrupt(e.to_string())),
    }
}

type Config = Configuration<LittleEndian, Varint, Limit<DECODE_LIMIT_BYTES>>;

const fn config() -> Config {
    bincode::config::standard().with_limit::<DECODE_LIMIT_BYTES>()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
