//! Options that contradict each other, or do nothing beside each other.

#![allow(unused)]

use semel_macros::idempotent;

#[idempotent(store = STORE, operation = "op", key = id, in_doubt = ask)]
fn nobody_asked(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, confirm = find_out)]
fn never_asked(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, in_doubt = rerun, confirm = find_out)]
fn never_asked_either(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, on_twin = refuse)]
fn no_window(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, twin_window = "1h", payload = none)]
fn no_payload(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, renew = off, renew_limit = "1h")]
fn no_renewal(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, lease = never, in_doubt = rerun)]
fn never_rerun(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, retain = "10m", remember = "5m", retry_window = "1h")]
fn forgotten(id: u32) -> Result<(), Error> {
    Ok(())
}

struct Error;

fn main() {}
