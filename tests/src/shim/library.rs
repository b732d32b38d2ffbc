//! The shim itself: a shared object, compiled from its C source when a test needs it first.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SOURCE: &str = include_str!("../../shim/shim.c");
const FLAGS: &[&str] = &[
    "-std=c11", "-O2", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror",
];

/// The shared object, compiled by `cc` once per version of its source.
///
/// # Panics
/// When there is no C compiler: a crash test that skips itself would pass for the wrong reason.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile().expect("the shim needs a C compiler named cc"))
}

fn compile() -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (SOURCE, FLAGS).hash(&mut hasher);
    let dir = build_dir();
    let path = dir.join(format!("semel-shim-{:016x}.so", hasher.finish()));
    if path.is_file() {
        return Ok(path);
    }
    fs::create_dir_all(&dir)?;
    let fresh = tempfile::Builder::new()
        .prefix("semel-shim-")
        .tempfile_in(&dir)?
        .into_temp_path();
    let mut compiler = Command::new("cc")
        .args(FLAGS)
        .arg("-o")
        .arg(&fresh)
        .args(["-x", "c", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut input = compiler.stdin.take().expect("a pipe was asked for");
    input.write_all(SOURCE.as_bytes())?;
    drop(input);
    if !compiler.wait()?.success() {
        return Err(io::Error::other("cc refused the shim"));
    }
    // Another process may have been quicker; the bytes are the same.
    fresh.persist(&path).map_err(|refused| refused.error)?;
    Ok(path)
}

/// `target/tmp`, found from the running test; cargo names it to integration tests only.
fn build_dir() -> PathBuf {
    let running = std::env::current_exe().unwrap_or_default();
    let target = running
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file());
    target.map_or_else(std::env::temp_dir, |dir| dir.join("tmp"))
}
