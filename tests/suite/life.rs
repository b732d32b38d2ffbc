//! The life of an operation, from claim to forgotten, as a caller sees it: the contract, clause by clause.

mod asking;
mod attempts;
mod basics;
mod cancelling;
mod clocks;
mod durability;
mod endings;
mod exposition;
pub(crate) mod fixture;
mod hands;
mod identity;
mod input;
mod limits;
mod measures;
mod model;
mod parity;
mod policies;
mod reentry;
mod renewal;
mod resolving;
mod retention;
mod steps;
mod twins;
mod values;
mod waiting;
