//! Values of the wrong kind.

#![allow(unused)]

use semel_macros::idempotent;

#[idempotent(store = STORE, operation = " ", key = id, holder = "a\nb")]
fn blank(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, lease = 30, retain = "10", remember = "ten", wait = -5, twin_window = 1.5)]
fn times(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, lease = "0s", retain = "0", twin_window = "0m", renew_limit = "0s")]
fn zeros(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, lease = "forever", retain = never, wait = "forever", remember = forever)]
fn endless(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, in_doubt = "retry", durability = synch, renew = true)]
fn words(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, twin_window = "1h", on_twin = reject)]
fn word(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, max_attempts = 0)]
fn no_attempts(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, max_attempts = "3")]
fn quoted_attempts(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, max_attempts = 4294967296)]
fn many_attempts(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, in_doubt = ask, confirm = "find_out", on_lost = 5)]
fn quoted_functions(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, classify = "a b")]
fn no_path(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, ticket = "ticket")]
fn quoted_ticket(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, ticket = id)]
fn taken_ticket(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, crate = "semel")]
fn quoted_crate(id: u32) -> Result<(), Error> {
    Ok(())
}

struct Error;

fn main() {}
