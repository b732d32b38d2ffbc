//! The attribute `#[semel::idempotent]`.
