//! What a victim process does, by part; the judges read the same names and values from here.

pub mod crowd;
pub mod effects;
mod fork;
mod forked;
pub mod goods;
mod guest;
mod hold;
pub mod life;
mod puppet;
pub mod steps;

use std::error::Error;
use std::process::ExitCode;

/// Anything that ends a victim early.
type Ended = Result<(), Box<dyn Error>>;

/// Plays the part that the first argument names.
pub fn main(args: Vec<String>) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = match &words[..] {
        ["life", store, session] => life::play(store, session),
        ["relaxed", store] => life::play_relaxed(store),
        ["effects", store, ledger, cycle] => effects::play(store, ledger.as_ref(), cycle),
        ["hold", store, options @ ..] => hold::play(store, options),
        ["steps", store, timeout_ms] => steps::play(store, timeout_ms),
        ["fill", store] => steps::fill(store),
        ["fork", store, other] => fork::play(store, other),
        ["guest", store, options @ ..] => guest::play(store, options),
        ["crowd", store, ledger, member] => crowd::play(store, ledger.as_ref(), member),
        ["prefork", store, ledger, members] => crowd::prefork(store, ledger.as_ref(), members),
        ["forked", store] => forked::play(store),
        ["orphans", store, told] => forked::orphans(store, told.as_ref()),
        ["puppet", dir] => puppet::play(dir.as_ref()),
        _ => Err("semel-victim knows no such part".into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("semel-victim {}: {error}", args.join(" "));
            ExitCode::FAILURE
        }
    }
}
