//! The suite: one binary, a module per behaviour.

mod crash;
mod life;
mod vectors;
