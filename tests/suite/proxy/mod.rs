//! `semel proxy`: the real command.

mod config;
