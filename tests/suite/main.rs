//! The suite: one binary, a module per behaviour.

mod life;
mod vectors;
