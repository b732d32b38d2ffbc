//! Lines of any input, bounded in length, byte for byte.

use std::io::{self, BufRead};

/// The longest line that is read, in bytes, its end included (16 MiB).
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line, with its end if it has one.
    Line,
    /// A line beyond the limit; it was passed over, and this is its length.
    TooLong(u64),
    /// The end of the input.
    End,
}

/// A source of lines.
pub(crate) struct Lines<R> {
    from: R,
    number: u64,
    bytes: u64,
    ready: usize,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `from`.
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            number: 0,
            bytes: 0,
            ready: 0,
        }
    }

    /// The number of the line that was read last; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes were read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the next line is here already, so that reading it will not wait.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready > 0
    }

    /// Reads the next line into `line`.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Next> {
        line.clear();
        let mut length = 0u64;
        loop {
            let buffer = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                self.number += u64::from(length > 0);
                return Ok(ended(length, line));
            }
            let end = memchr(buffer);
            let taken = end.map_or(buffer.len(), |at| at + 1);
            length += taken as u64;
            if length <= MAX_LINE_BYTES as u64 {
                line.extend_from_slice(&buffer[..taken]);
            }
            if self.ready == 0 {
                self.ready = buffer.iter().filter(|b| **b == b'\n').count();
            }
            self.from.consume(taken);
            self.bytes += taken as u64;
            if end.is_some() {
                self.ready -= 1;
                self.number += 1;
                return Ok(ended(length, line));
            }
        }
    }
}

fn ended(length: u64, line: &mut Vec<u8>) -> Next {
    match length {
        0 => Next::End,
        _ if length > MAX_LINE_BYTES as u64 => {
            *line = Vec::new();
            Next::TooLong(length)
        }
        _ => Next::Line,
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == b'\n')
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn all(text: &[u8], capacity: usize) -> Vec<(Vec<u8>, Next, bool)> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, text));
        let (mut seen, mut line) = (Vec::new(), Vec::new());
        while let Ok(next) = lines.next(&mut line) {
            if next == Next::End {
                assert_eq!(lines.bytes(), text.len() as u64);
                break;
            }
            seen.push((line.clone(), next, lines.is_ready()));
        }
        assert_eq!(lines.number(), seen.len() as u64);
        seen
    }

    #[test]
    fn lines_come_byte_for_byte_whatever_the_buffer() {
        let text = b"one\r\n\n\xff three\nlast";
        for capacity in [1, 2, 3, 5, 8, 100] {
            let lines: Vec<Vec<u8>> = all(text, capacity)
                .into_iter()
                .map(|(line, ..)| line)
                .collect();
            assert_eq!(
                lines,
                [&b"one\r\n"[..], b"\n", b"\xff three\n", b"last"],
                "{capacity}"
            );
        }
    }

    #[test]
    fn a_line_is_ready_exactly_when_its_end_is_buffered() {
        let ready: Vec<bool> = all(b"a\nb\nc", 100)
            .into_iter()
            .map(|(.., ready)| ready)
            .collect();
        assert_eq!(ready, [true, false, false]);
        let ready: Vec<bool> = all(b"ab\ncd\n", 4)
            .into_iter()
            .map(|(.., ready)| ready)
            .collect();
        assert_eq!(ready, [false, false]);
    }

    #[test]
    fn a_line_beyond_the_limit_is_passed_over() {
        let mut text = vec![b'x'; MAX_LINE_BYTES];
        text.extend_from_slice(b"\nnext\n");
        let lines = all(&text, 1 << 16);
        assert_eq!(lines[0].1, Next::TooLong(MAX_LINE_BYTES as u64 + 1));
        assert_eq!((&lines[1].0[..], lines[1].1), (&b"next\n"[..], Next::Line));
    }
}
