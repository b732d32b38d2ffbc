//! The C library of semel. Nothing is exported yet; the Rust crate in `core` is complete without it.
