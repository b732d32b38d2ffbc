//! Where tests put what they throw away, and how they say what must not be overlooked.

use std::io::Write;
use std::path::Path;

use tempfile::TempDir;

/// A file system in memory, where there is one.
const IN_MEMORY: &str = "/dev/shm";

/// A directory that goes with the test, in memory if possible: a sync costs nothing there.
///
/// # Panics
/// When no directory can be made.
pub fn in_memory() -> TempDir {
    let builder = tempfile::Builder::new();
    let made = match Path::new(IN_MEMORY).is_dir() {
        true => builder.tempdir_in(IN_MEMORY),
        false => builder.tempdir(),
    };
    made.expect("a temporary directory")
}

/// A directory that goes with the test, on the disk.
///
/// # Panics
/// When no directory can be made.
pub fn on_disk() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Says it on the real standard error, also when the test passes.
pub fn say(what: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{what}");
}

/// Says loudly that a test does not run here, and why.
pub fn skip(test: &str, why: &str) {
    say(&format!("SKIPPED: {test}: {why}"));
}

/// Says loudly that a test cannot run here, although it could be set up to; where `CI` is set that is a failure.
///
/// # Panics
/// When `CI` is set.
pub fn cannot(test: &str, why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test}: {why}");
    skip(test, why);
}

/// Whether this process may do everything.
pub fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
