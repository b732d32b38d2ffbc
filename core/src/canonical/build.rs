//! Writes the canonical form value by value, for languages whose values serde does not know.

use super::number::Decimal;
use super::payload::Canonical;
use super::read;
use super::refusal::Refusal;
use super::write::{Writer, misused};
use crate::error::{Error, Result};

/// A canonical form in the making: call what the payload consists of, in its order, then [`finish`](Builder::finish).
///
/// What is beyond JSON has a spelling that no JSON value has: `@`, a name as a JSON string, a colon, and the canonical form of
/// what stands for the value.
#[derive(Debug)]
pub struct Builder {
    writer: Writer,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            writer: Writer::with_capacity(128),
        }
    }
}

impl Builder {
    /// `null`.
    pub fn null(&mut self) {
        self.writer.literal("null");
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, value: bool) {
        self.writer.literal(if value { "true" } else { "false" });
    }

    /// An integer.
    ///
    /// # Errors
    /// `InvalidInput`, like all calls here, for what is beyond the limits.
    pub fn integer(&mut self, value: i128) -> Result<()> {
        let written = self.writer.integer(value < 0, value.unsigned_abs());
        self.told(written)
    }

    /// A binary float, by its shortest decimal text.
    pub fn float(&mut self, value: f64) -> Result<()> {
        match value.is_finite() {
            true => self.number(ryu::Buffer::new().format_finite(value)),
            false => Err(self.refuse(
                "NaN and the infinities have no decimal value",
                "send a finite number, null or text",
            )),
        }
    }

    /// A number by its decimal text.
    pub fn number(&mut self, text: &str) -> Result<()> {
        let written =
            Decimal::exactly(text.as_bytes()).and_then(|number| self.writer.number(&number));
        self.told(written)
    }

    /// A string.
    pub fn string(&mut self, text: &str) -> Result<()> {
        let written = self.writer.string(text);
        self.told(written)
    }

    /// A value by its JSON text.
    pub fn json(&mut self, text: &[u8]) -> Result<()> {
        let written = read::text(text, &mut self.writer);
        self.told(written)
    }

    /// Begins an array: [`element`](Builder::element) before each value, then [`close_array`](Builder::close_array).
    pub fn open_array(&mut self) -> Result<()> {
        let written = self.writer.open_array();
        self.told(written)
    }

    /// Before each value of an array.
    pub fn element(&mut self) -> Result<()> {
        let written = self.writer.element();
        self.told(written)
    }

    /// Ends an array.
    pub fn close_array(&mut self) -> Result<()> {
        let written = self.writer.close_array();
        self.told(written)
    }

    /// Begins an object: [`member`](Builder::member) before each value, then [`close_object`](Builder::close_object).
    pub fn open_object(&mut self) -> Result<()> {
        let written = self.writer.open_object();
        self.told(written)
    }

    /// The name of the member whose value comes next.
    pub fn member(&mut self, name: &str) -> Result<()> {
        let written = self.writer.member(name, 0);
        self.told(written)
    }

    /// Ends an object.
    pub fn close_object(&mut self) -> Result<()> {
        let written = self.writer.close_object();
        self.told(written)
    }

    /// Marks the value that comes next as one of a type that JSON lacks.
    pub fn typed(&mut self, name: &str) -> Result<()> {
        self.writer.literal("@");
        let written = self.writer.string(name);
        self.writer.literal(":");
        self.told(written)
    }

    /// An array of values that have no order: they are written in the order of their bytes.
    pub fn unordered(&mut self, mut values: Vec<Canonical>) -> Result<()> {
        values.sort_unstable_by(|one, two| one.as_bytes().cmp(two.as_bytes()));
        self.open_array()?;
        for value in &values {
            self.element()?;
            self.writer.out.extend_from_slice(value.as_bytes());
        }
        self.close_array()
    }

    /// An error that names the place where the builder is.
    pub fn refuse(&self, what: impl Into<String>, advice: &'static str) -> Error {
        Refusal::new(what, advice).into_error(|| self.writer.path())
    }

    /// The canonical form.
    ///
    /// # Errors
    /// `InvalidInput` when it is too long, or something was left open.
    pub fn finish(self) -> Result<Canonical> {
        let whole = match self.writer.open.is_empty() {
            true => self.writer.room(),
            false => Err(misused()),
        };
        self.told(whole)?;
        Ok(Canonical::written(self.writer))
    }

    fn told(&self, written: Result<(), Refusal>) -> Result<()> {
        written.map_err(|refusal| refusal.by_path().into_error(|| self.writer.path()))
    }
}
