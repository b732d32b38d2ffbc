//! How work ends when it does not succeed: its own error, and what is known of its effect.

use std::fmt;

use crate::value::Failure;

/// An error of the work, with what it says of the effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkError<E> {
    /// The work took no effect and may run again.
    Retryable(E),
    /// The work is over: the error is its result, and every repeat gets it.
    Terminal(E, Failure),
    /// Nobody knows.
    Unknown(E),
}

/// The work took no effect and may run again.
///
/// ```
/// # let store = semel::Store::open("memory:")?;
/// # let request = semel::Request::new("sms.send", "S-1");
/// let sent = store.run(&request, |_| -> Result<(), _> { Err(semel::retryable("the line was busy")) });
/// assert!(matches!(sent, Err(semel::RunError::Work(_))));
/// assert!(matches!(store.claim(&request)?, semel::Claim::Execute(ticket) if ticket.attempt() == 2));
/// # Ok::<(), semel::Error>(())
/// ```
pub fn retryable<E>(error: E) -> WorkError<E> {
    WorkError::Retryable(error)
}

/// The work is over, and the error is its result. Its text and type are kept; name a code with [`WorkError::code`].
pub fn terminal<E: fmt::Display>(error: E) -> WorkError<E> {
    let failure = Failure::new("error", error.to_string()).kind(short_type_name::<E>());
    WorkError::Terminal(error, failure)
}

impl<E> WorkError<E> {
    /// Names the code of a terminal error: a stable word for programs.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        if let Self::Terminal(_, failure) = &mut self {
            failure.code = code.into();
        }
        self
    }

    /// The error itself.
    pub fn into_inner(self) -> E {
        match self {
            Self::Retryable(error) | Self::Terminal(error, _) | Self::Unknown(error) => error,
        }
    }
}

impl<E> From<E> for WorkError<E> {
    fn from(error: E) -> Self {
        Self::Unknown(error)
    }
}

impl<E: fmt::Display> fmt::Display for WorkError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retryable(error) | Self::Terminal(error, _) | Self::Unknown(error) => {
                write!(f, "{error}")
            }
        }
    }
}

/// An error that work may return: a [`WorkError`], or an error that says nothing of the effect.
///
/// Every [`std::error::Error`] is one. What is none, such as `String` or `anyhow::Error`, is returned in a [`WorkError`], which
/// [`WorkError::from`] makes:
///
/// ```
/// # let store = semel::Store::open("memory:")?;
/// # let request = semel::Request::new("sms.send", "S-1");
/// fn send() -> Result<u32, String> {
///     Ok(1)
/// }
/// let sent = store.run(&request, |_| send().map_err(semel::WorkError::from));
/// assert_eq!(sent.unwrap(), 1);
/// # Ok::<(), semel::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what is known of the work's effect",
    note = "return it in a `semel::WorkError`; in an attribute add `classify = semel::WorkError::Unknown`, or a function that tells its errors apart"
)]
pub trait Classify {
    /// The work's own error.
    type Error: fmt::Display;

    /// The error with what it says of the effect.
    fn classify(self) -> WorkError<Self::Error>;
}

impl<E: fmt::Display> Classify for WorkError<E> {
    type Error = E;

    fn classify(self) -> Self {
        self
    }
}

impl<E: std::error::Error> Classify for E {
    type Error = E;

    fn classify(self) -> WorkError<E> {
        WorkError::Unknown(self)
    }
}

fn short_type_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let end = name.find('<').unwrap_or(name.len());
    name[..end].rsplit("::").next().unwrap_or(name)
}
