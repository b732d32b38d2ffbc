//! The tower layer: directly, around axum, behind a real server, and what becomes of a request whatever happens on the way.

mod fixture;
mod repeats;
