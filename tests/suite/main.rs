//! The suite: one binary, a module per behaviour.

mod alerts;
mod architecture;
mod life;
mod octokit;
mod readme;
mod vectors;
