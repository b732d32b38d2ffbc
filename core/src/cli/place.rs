//! Opens stores that are there: only `run` and `dedup` make one, so that a typing error creates nothing.

use std::io;
use std::path::Path;

use crate::cli::exit::Stop;
use crate::{Store, StoreBuilder, is_store};

/// Opens the store at `url`, and refuses to make one.
pub(crate) fn existing(url: &str) -> Result<Store, Stop> {
    existing_with(url, |builder| builder)
}

/// The same, with options.
pub(crate) fn existing_with(
    url: &str,
    options: impl FnOnce(StoreBuilder) -> StoreBuilder,
) -> Result<Store, Stop> {
    if url == "memory:" {
        return Err(Stop::usage(
            "--store memory: lives and dies with one process, so there is nothing in it to see; name a directory",
        ));
    }
    if let Some(directory) = directory(url) {
        check(directory)?;
    }
    Ok(options(Store::builder(url)).open()?)
}

/// The directory that a URL names; `None` for one of another scheme, which the store judges.
fn directory(url: &str) -> Option<&Path> {
    let is_scheme = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    match url.split_once(':') {
        Some(("sled", path)) => Some(Path::new(path)),
        Some((word, _)) if is_scheme(word) => None,
        _ => Some(Path::new(url)),
    }
}

fn check(directory: &Path) -> Result<(), Stop> {
    if is_store(directory) {
        return Ok(());
    }
    let looked = std::fs::read_dir(directory).map(|_| "the directory has none");
    let why = match looked.as_ref().map_err(io::Error::kind) {
        Ok(why) => why,
        Err(io::ErrorKind::NotFound) => "there is no such directory",
        Err(io::ErrorKind::NotADirectory) => "this is no directory",
        // What cannot be looked at may be a store: the opening says what is wrong and what to do.
        Err(_) => return Ok(()),
    };
    let advice = "check the path, or make a store with semel run or semel dedup";
    Err(Stop::unavailable(format!(
        "no store at {}: {why}; {advice}",
        directory.display()
    )))
}
