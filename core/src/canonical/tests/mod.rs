//! The rules of the canonical form as tables.

mod json;
mod number;
mod serde;
mod serde_refused;
