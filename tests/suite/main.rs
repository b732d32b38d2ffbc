//! The suite: one binary, a module per behaviour.
