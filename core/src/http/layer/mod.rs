//! The rules of HTTP as a tower layer: what axum, hyper and other services of `http` types put around themselves.

mod admission;
mod body;
mod builder;
mod cors;
mod ending;
mod execution;
mod piping;
mod running;
mod service;
mod short;

pub use body::{Body, BoxError};
pub use builder::{IdempotencyLayer, LayerBuilder, Unscoped};
pub use running::Running;
pub use service::Idempotency;
