//! What the suites share: recorders, image builders, victims that are killed, and judges outside of the store.

pub mod conformance;
pub mod generator;
pub mod image;
pub mod recording;
pub mod scratch;
pub mod shim;
pub mod victim;

use std::path::PathBuf;

/// The `semel` command that was built with the suite.
pub fn semel_binary() -> PathBuf {
    sibling("semel")
}

/// A program that was built beside the suite.
pub fn sibling(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("the suite knows where it is");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    path.join(name)
}
