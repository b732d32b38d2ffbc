//! What cannot take effect once.

#![allow(unused)]

use semel_macros::idempotent;

#[idempotent(store = STORE, operation = "op", key = id)]
const fn constant(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id)]
extern "C" fn foreign(id: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id)]
fn nothing(id: u32) {}

#[idempotent(store = STORE, operation = "op", key = id)]
fn plain(id: u32) -> u32 {
    id
}

#[idempotent(store = STORE, operation = "op", key = id)]
fn optional(id: u32) -> Option<u32> {
    Some(id)
}

#[idempotent(store = STORE, operation = "op", key = id)]
fn pair(id: u32) -> (u32, u32) {
    (id, id)
}

#[idempotent(store = STORE, operation = "op", key = id)]
fn future(id: u32) -> impl Sized {
    id
}

#[idempotent(store = STORE, operation = "op", key = id)]
fn nameless(id: u32) -> Result<impl Sized, ()> {
    Ok::<_, ()>(id)
}

#[idempotent(store = STORE, operation = "op", key = id)]
struct NoFunction;

trait Sells {
    #[idempotent(store = self.store, operation = "op", key = id)]
    fn sell(&self, id: u32) -> Result<(), Error>;
}

struct Error;

fn main() {}
