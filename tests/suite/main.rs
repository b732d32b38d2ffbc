//! The suite: one binary, a module per behaviour.

mod life;
mod payment;
mod vectors;
