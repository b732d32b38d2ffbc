//! How a measurement ends: with its figures, or with the reason why there are none.

/// A result whose error is only ever printed.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
