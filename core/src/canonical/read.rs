//! Reads JSON text (RFC 8259, strictly) and writes its canonical form in the same pass.

use std::borrow::Cow;

use super::MAX_BYTES;
use super::number::Decimal;
use super::refusal::Refusal;
use super::write::{Writer, too_long};

const STRICT: &str = "send one JSON value as RFC 8259 defines it";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the one value of a whole text.
pub(super) fn text(text: &[u8], writer: &mut Writer) -> Result<(), Refusal> {
    if text.len() > MAX_BYTES {
        return Err(too_long().at(MAX_BYTES));
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        let refusal = Refusal::new("it begins with a byte order mark", "send UTF-8 without it");
        return Err(refusal.at(0));
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        Refusal::new("it is not UTF-8", "send the text in UTF-8").at(error.valid_up_to())
    })?;
    let mut reader = Reader {
        text,
        at: 0,
        writer,
    };
    reader.document().map_err(|refusal| refusal.at(reader.at))
}

struct Reader<'t, 'w> {
    text: &'t str,
    at: usize,
    writer: &'w mut Writer,
}

impl<'t> Reader<'t, '_> {
    fn document(&mut self) -> Result<(), Refusal> {
        self.value()?;
        match self.peek_token() {
            None => self.writer.room(),
            Some(_) => Err(self.unexpected("the end of the text")),
        }
    }

    /// Recursion ends at the depth that the writer allows.
    fn value(&mut self) -> Result<(), Refusal> {
        match self.peek_token() {
            Some(b'"') => match self.string()? {
                Cow::Borrowed(text) => self.writer.plain_string(text),
                Cow::Owned(text) => self.writer.string(&text)?,
            },
            Some(b'{') => return self.object(),
            Some(b'[') => return self.array(),
            Some(b'-' | b'0'..=b'9') => return self.number(),
            Some(b't') => return self.literal("true"),
            Some(b'f') => return self.literal("false"),
            Some(b'n') => return self.literal("null"),
            _ => return Err(self.unexpected("a value")),
        }
        Ok(())
    }

    fn array(&mut self) -> Result<(), Refusal> {
        self.writer.open_array()?;
        self.at += 1;
        if self.peek_token() != Some(b']') {
            loop {
                self.writer.element()?;
                self.value()?;
                match self.peek_token() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return Err(self.unexpected("',' or ']'")),
                }
            }
        }
        self.at += 1;
        self.writer.close_array()
    }

    fn object(&mut self) -> Result<(), Refusal> {
        self.writer.open_object()?;
        self.at += 1;
        if self.peek_token() != Some(b'}') {
            loop {
                self.member()?;
                match self.peek_token() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return Err(self.unexpected("',' or '}'")),
                }
            }
        }
        self.at += 1;
        self.writer.close_object()
    }

    fn member(&mut self) -> Result<(), Refusal> {
        if self.peek_token() != Some(b'"') {
            return Err(self.unexpected("a member name in double quotes"));
        }
        let offset = self.at;
        let name = self.string()?;
        self.writer.member(&name, offset)?;
        if self.peek_token() != Some(b':') {
            return Err(self.unexpected("':'"));
        }
        self.at += 1;
        self.value()
    }

    fn number(&mut self) -> Result<(), Refusal> {
        let (number, length) =
            Decimal::scan(&self.text.as_bytes()[self.at..]).map_err(|length| {
                self.at += length;
                self.unexpected("a number as JSON spells it")
            })?;
        self.writer.number(&number)?;
        self.at += length;
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), Refusal> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.unexpected("true, false or null"));
        }
        self.at += word.len();
        self.writer.literal(word);
        Ok(())
    }

    /// Reads a string from its opening to its closing quote. It is borrowed when it has no escapes.
    fn string(&mut self) -> Result<Cow<'t, str>, Refusal> {
        self.at += 1;
        let first = self.run();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(first));
        }
        let mut decoded = first.to_owned();
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => decoded.push(self.escape()?),
                Some(_) => {
                    let what = "a control character stands raw in a string";
                    return Err(Refusal::new(
                        what,
                        "write it as an escape, such as \\n or \\u0000",
                    ));
                }
                None => return Err(self.unexpected("the closing quote of a string")),
            }
            decoded.push_str(self.run());
        }
        self.at += 1;
        Ok(Cow::Owned(decoded))
    }

    /// The characters up to the next quote, backslash or control character.
    fn run(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest
            .bytes()
            .position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'));
        let run = &rest[..end.unwrap_or(rest.len())];
        self.at += run.len();
        run
    }

    fn escape(&mut self) -> Result<char, Refusal> {
        let start = self.at;
        self.at += 1;
        let short = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.code_point(start),
            _ => return Err(self.unexpected("an escape that JSON knows")),
        };
        self.at += 1;
        Ok(short)
    }

    /// Reads what follows a backslash from its `u`: one escape, or the two of a surrogate pair. `start` is where the
    /// backslash was.
    fn code_point(&mut self, start: usize) -> Result<char, Refusal> {
        let unit = self.code_unit()?;
        if let Some(character) = char::from_u32(unit) {
            return Ok(character);
        }
        if unit < 0xdc00 && self.text[self.at..].starts_with("\\u") {
            self.at += 1;
            let low = self.code_unit()?;
            if let 0xdc00..0xe000 = low {
                let pair = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(pair).ok_or_else(|| lone_surrogate().at(start));
            }
        }
        Err(lone_surrogate().at(start))
    }

    fn code_unit(&mut self) -> Result<u32, Refusal> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("four hexadecimal digits"));
            };
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The first byte of the next token: space is skipped.
    fn peek_token(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn unexpected(&self, wanted: &str) -> Refusal {
        // Inside of a character only after an error that came before.
        let rest = self.text.get(self.at..).unwrap_or_default();
        let found = match rest.chars().next() {
            Some(character) => format!("{character:?}"),
            None => "the end of the text".to_owned(),
        };
        Refusal::new(format!("expected {wanted}, found {found}"), STRICT).at(self.at)
    }
}

fn lone_surrogate() -> Refusal {
    Refusal::new(
        "an escape names half of a surrogate pair, which is no character",
        "send both halves of the pair, or leave it out",
    )
}
