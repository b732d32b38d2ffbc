//! Parts of a JSON text, found by path without building a tree, and the key that a part is.

mod key;
mod path;
mod scan;

#[cfg(feature = "cli")]
pub(crate) use key::bare;
pub(crate) use key::key;
pub(crate) use path::Path;
