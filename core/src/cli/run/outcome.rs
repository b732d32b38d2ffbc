//! What is kept of a command: its exit status and its output, in the order it came.

use std::fmt;
use std::io::{self, Write};

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize as DeriveDeserialize, Serialize};

use crate::cli::output::Output;
use crate::{Result, Value};

/// The form of [`Outcome`]; another form is another name.
const FORM: &str = "semel run 1";
/// What each piece of output costs beside its bytes: its place in the array, its stream and its length.
const PIECE_OVERHEAD: usize = 8;
/// What an outcome costs beside its pieces: the names of its members, its form, status and counts.
pub(crate) const OVERHEAD_BYTES: usize = 128;

/// Where output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Its number, as every Unix program knows it.
    const fn number(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }
}

/// The end of a command and the output it is remembered by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outcome {
    form: String,
    pub(crate) status: u8,
    output: Vec<(u8, Bytes)>,
    /// How many bytes of output were beyond the cap.
    pub(crate) not_kept: u64,
}

impl Outcome {
    /// The outcome that a kept result holds; `None` when it is something else, as after `semel resolve --value`.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        value
            .decode::<Self>()
            .ok()
            .filter(|outcome| outcome.form == FORM)
    }

    /// The outcome as a result to keep.
    pub(crate) fn to_value(&self) -> Result<Value> {
        Value::of(self)
    }

    /// Writes the output again, each byte to the stream it came from, in the order it came.
    pub(crate) fn replay(&self, stdout: &mut Output, stderr: &mut Output) -> io::Result<()> {
        for (stream, bytes) in &self.output {
            match *stream == Stream::Stdout.number() {
                true => stdout.write_all(&bytes.0)?,
                false => stderr.write_all(&bytes.0)?,
            }
        }
        Ok(())
    }

    /// How many bytes of a stream are kept.
    pub(crate) fn kept_bytes(&self, stream: Stream) -> usize {
        self.output
            .iter()
            .filter(|(number, _)| *number == stream.number())
            .map(|(_, bytes)| bytes.0.len())
            .sum()
    }

    /// How many bytes are kept.
    pub(crate) fn total_bytes(&self) -> usize {
        self.output.iter().map(|(_, bytes)| bytes.0.len()).sum()
    }

    /// Whether the last byte for standard error leaves its line open.
    pub(crate) fn leaves_stderr_open(&self) -> bool {
        let mut of_stderr = self
            .output
            .iter()
            .filter(|(number, _)| *number == Stream::Stderr.number());
        of_stderr
            .next_back()
            .is_some_and(|(_, bytes)| bytes.0.last() != Some(&b'\n'))
    }

    /// The outcome on one line.
    pub(crate) fn line(&self) -> String {
        let (stdout, stderr) = (
            self.kept_bytes(Stream::Stdout),
            self.kept_bytes(Stream::Stderr),
        );
        let lost = if self.not_kept > 0 {
            format!(", {} bytes not kept", self.not_kept)
        } else {
            String::new()
        };
        format!(
            "status {}, {stdout} bytes of stdout, {stderr} of stderr{lost}",
            self.status
        )
    }
}

/// Output as it comes in, up to a cap.
#[derive(Debug)]
pub(crate) struct Kept {
    pieces: Vec<(u8, Bytes)>,
    room: usize,
    not_kept: u64,
}

impl Kept {
    /// Room for this many bytes, overhead included.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Self {
            pieces: Vec::new(),
            room: bytes,
            not_kept: 0,
        }
    }

    /// Takes what a stream brought. What comes after the first byte beyond the cap is counted only, so that no gap is replayed.
    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let joins = self
            .pieces
            .last()
            .is_some_and(|(number, _)| *number == stream.number());
        let overhead = if joins { 0 } else { PIECE_OVERHEAD };
        let fits = if self.not_kept > 0 {
            0
        } else {
            bytes.len().min(self.room.saturating_sub(overhead))
        };
        self.not_kept += (bytes.len() - fits) as u64;
        if fits == 0 {
            return;
        }
        self.room -= fits + overhead;
        match self.pieces.last_mut() {
            Some((_, piece)) if joins => piece.0.extend_from_slice(&bytes[..fits]),
            _ => self
                .pieces
                .push((stream.number(), Bytes(bytes[..fits].to_vec()))),
        }
    }

    /// The outcome of a command that ended with `status`.
    pub(crate) fn end(&mut self, status: u8) -> Outcome {
        Outcome {
            form: FORM.to_owned(),
            status,
            output: std::mem::take(&mut self.pieces),
            not_kept: self.not_kept,
        }
    }
}

/// Bytes that serde writes as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(
                self,
                bytes: &[u8],
            ) -> std::result::Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E: serde::de::Error>(
                self,
                bytes: Vec<u8>,
            ) -> std::result::Result<Bytes, E> {
                Ok(Bytes(bytes))
            }
        }
        deserializer
            .deserialize_byte_buf(Reader)
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_in_order_up_to_the_cap() {
        let mut kept = Kept::with_room(3 * PIECE_OVERHEAD + 6);
        kept.push(Stream::Stdout, b"ab");
        kept.push(Stream::Stdout, b"c");
        kept.push(Stream::Stderr, b"\xff\n");
        kept.push(Stream::Stdout, b"de");
        kept.push(Stream::Stderr, b"f");
        let outcome = kept.end(3);
        let pieces: Vec<(u8, &[u8])> = outcome
            .output
            .iter()
            .map(|(stream, bytes)| (*stream, &bytes.0[..]))
            .collect();
        assert_eq!(pieces, [(1, &b"abc"[..]), (2, b"\xff\n"), (1, b"d")]);
        assert_eq!((outcome.not_kept, outcome.total_bytes()), (2, 6));
        assert!(!outcome.leaves_stderr_open());
    }

    #[test]
    fn an_outcome_reads_back_and_nothing_else_reads_as_one() {
        let mut kept = Kept::with_room(1000);
        kept.push(Stream::Stderr, b"\0no end of line");
        let outcome = kept.end(255);
        assert_eq!(
            Outcome::of(&outcome.to_value().expect("encodes")),
            Some(outcome.clone())
        );
        assert!(outcome.leaves_stderr_open());
        for other in [
            Value::of(&1).expect("encodes"),
            Value::bytes(*b""),
            Value::bytes(*b"text"),
        ] {
            assert_eq!(Outcome::of(&other), None);
        }
    }

    #[test]
    fn the_overheads_are_upper_bounds() {
        let mut kept = Kept::with_room(1 << 20);
        for _ in 0..30_000 {
            kept.push(Stream::Stdout, b"x");
            kept.push(Stream::Stderr, b"y");
        }
        let outcome = kept.end(255);
        let size = outcome.to_value().expect("encodes").as_bytes().len();
        assert!(size <= (1 << 20) + OVERHEAD_BYTES - kept.room, "{size}");
    }
}
