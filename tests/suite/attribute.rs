//! The attribute `#[semel::idempotent]`: what a function becomes, and that every option does what it says.

mod awaiting;
mod basics;
mod errors;
mod fixture;
mod options;
mod payloads;
mod shapes;
mod times;
