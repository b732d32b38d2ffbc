//! How a watched process tells the recording what it has acknowledged.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Set for a process under the shim: the file to which it writes its marks.
pub(super) const MARKS_VARIABLE: &str = "SEMEL_SHIM_MARKS";

/// Inside the watched process: announces what it has acknowledged.
#[derive(Debug)]
pub struct Marker(Option<File>);

impl Marker {
    /// Marks go nowhere when the process does not run under a shim.
    pub fn from_env() -> io::Result<Self> {
        let Some(path) = std::env::var_os(MARKS_VARIABLE) else {
            return Ok(Self(None));
        };
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self(Some(file)))
    }

    /// Call it after the acknowledgement was seen, with a line that names it.
    pub fn mark(&mut self, line: &str) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }
}
