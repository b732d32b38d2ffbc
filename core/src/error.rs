//! What can go wrong, apart from the answers of a claim: few kinds, each of which says what the caller should do.

use std::fmt;
use std::sync::Arc;

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input cannot be used. Nothing was touched; correct it and call again.
    InvalidInput,
    /// Another process holds the store and does not share it.
    StoreLocked,
    /// The store cannot serve now: overloaded, full, or its disk failed. Whether the call took effect may be unknown;
    /// asking again with the same key is always safe.
    Unavailable,
    /// What is on disk is not what was written. Restore a backup, or follow the advice of the message.
    Corrupt,
    /// The handle was inherited through `fork()`; open the store in this process.
    ForkedProcess,
    /// The store was closed. Open it again.
    Closed,
    /// This store or platform cannot do what was asked.
    Unsupported,
    /// The ticket is no longer the holder of its key: it was replaced, or has finished already. Nothing was changed.
    Lost,
    /// Waiting took longer than the caller allowed.
    Timeout,
    /// A transaction met conflicts more often than it may try again.
    TransactionConflict,
}

impl ErrorKind {
    /// The kind's name as every language spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "InvalidInput",
            Self::StoreLocked => "StoreLocked",
            Self::Unavailable => "Unavailable",
            Self::Corrupt => "Corrupt",
            Self::ForkedProcess => "ForkedProcess",
            Self::Closed => "Closed",
            Self::Unsupported => "Unsupported",
            Self::Lost => "Lost",
            Self::Timeout => "Timeout",
            Self::TransactionConflict => "TransactionConflict",
        }
    }
}

/// An error of semel: a kind, a message that says what was wrong and what to do, and the cause if there is one.
///
/// An error never means "first time" or "absent". Cloning is cheap.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// The same error with its cause.
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was wrong and what to do, without the kind's name.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Lost, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.name(), self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " (caused by: {source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}
