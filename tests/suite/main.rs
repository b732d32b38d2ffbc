//! The suite: one binary, a module per behaviour.

mod architecture;
mod life;
mod octokit;
mod vectors;
