//! Parts of a JSON text, found by path without building a tree, and the key that a part is.

mod key;
mod path;
mod scan;

pub(crate) use key::{bare, key};
pub(crate) use path::Path;
