//! Starts a process under the file shim: what it does to a directory is recorded, and single calls can be spoiled.

mod fault;
mod library;
mod marker;
mod watch;

pub use fault::Fault;
pub use library::library;
pub use marker::Marker;
pub use watch::Shim;
