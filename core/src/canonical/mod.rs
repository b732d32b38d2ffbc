//! The canonical form of a payload: one spelling in bytes for each value, so that equal payloads, and only they, are
//! equal bytes.
//!
//! The rules, in full in `docs/canonical.md`: members in the byte order of their UTF-8 names, arrays in order, strings
//! exact, numbers by the exact decimal value of their text, no space. What has no exact value is refused: repeated
//! names, lone surrogates, NaN and infinities.

mod build;
mod compound;
mod encode;
mod name;
mod number;
mod path;
mod payload;
mod read;
mod refusal;
mod write;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use build::Builder;
pub use number::Number;
pub use payload::Canonical;
pub(crate) use refusal::head;

/// The longest JSON text that is read, and the longest canonical form that is written, in bytes (16 MiB).
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How many arrays and objects may be open inside each other.
pub const MAX_DEPTH: usize = 128;

/// The largest exponent, up or down, of a number written with one digit before the point.
///
/// 1e100000 and 1e-100000 are taken, 10e100000 is refused. Zero has no exponent and is taken however it is written.
pub const MAX_EXPONENT: i64 = 100_000;
