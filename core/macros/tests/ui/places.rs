//! Keys, scopes, stores and payloads that name nothing in the arguments.

#![allow(unused)]

use semel_macros::idempotent;

#[idempotent(store = STORE, operation = "op", key = "rep.order_no")]
fn misspelt(req: Request, amount: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = order.no.clone(), scope = "user")]
fn unknown(req: Request) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = self.store, operation = "op", key = "id")]
fn no_arguments() -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = "ORDER_1", scope = "tenant-7")]
fn constants(req: Request) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = 7)]
fn number(req: Request) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = "", payload = "req, amount")]
fn lists(req: Request, amount: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = req.id, payload = (req, amout))]
fn tuple(req: Request, amount: u32) -> Result<(), Error> {
    Ok(())
}

#[idempotent(store = STORE, operation = "op", key = id)]
fn taken_apart(Request { id, .. }: Request, _: u32) -> Result<(), Error> {
    Ok(())
}

struct Error;

struct Request {
    id: u32,
}

fn main() {}
