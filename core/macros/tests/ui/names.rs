//! Options that are missing, unknown, given twice or without a value.

#![allow(unused)]

use semel_macros::idempotent;

#[idempotent]
fn bare(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op")]
fn without_key(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(operation = "op", key = id)]
fn without_store(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, key = id)]
fn without_operation(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, retian = "10m", ttl = 5)]
fn unknown(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, lease = "1m", lease = "2m")]
fn twice(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id, renew, lease = "1m")]
fn without_value(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id; lease = "1m")]
fn without_comma(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent("op", store = STORE)]
fn without_name(id: u32) -> Result<(), Error> {
    Ok(())
}

struct Error;

fn main() {}
