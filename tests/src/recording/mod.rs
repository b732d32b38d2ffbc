//! A recording: what a watched process did to its files, in order, as the shim wrote it down.

mod call;
mod op;
mod parse;

pub use call::Call;
pub use op::{Event, Found, Handle, Op, Way};
pub use parse::Recording;
