//! The rules of the canonical form as tables.

mod build;
mod json;
mod number;
mod serde;
mod serde_refused;
