//! `semel proxy`: the real command, before services that answer, stall, break off and die as a test says.

mod admin;
mod client;
mod config;
mod ends;
mod killed;
mod passing;
mod real;
mod service;
mod shutdown;
mod sidecar;
mod smuggling;
mod storm;
mod streams;
