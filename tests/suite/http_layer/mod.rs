//! The tower layer: directly, around axum, behind a real server, and what becomes of a request whatever happens on the way.

mod answers;
mod bodies;
mod fixture;
mod noise;
mod origins;
mod repeats;
mod servers;
mod tokens;
mod work;
