//! The `semel` command: a thin shell over the public surface of the crate, with one file per subcommand.
//!
//! Not a part of the library's surface: use the command, or [`Store`](crate::Store).

#[cfg(not(unix))]
compile_error!("the semel command runs on Unix only; build without the feature `cli`");

mod argument;
mod backup;
mod cbor;
mod command;
mod dedup;
mod demo;
mod exit;
mod forget;
mod hold;
mod id;
mod json;
mod list;
mod lookup;
mod output;
mod place;
mod proxy;
mod quote;
mod resolve;
mod restore;
mod run;
mod stats;
mod sweep;
mod table;
mod unresolved;
mod verify;

pub use command::main;
