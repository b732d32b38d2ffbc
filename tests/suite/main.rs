//! The suite: one binary, a module per behaviour.

mod life;
mod octokit;
mod vectors;
