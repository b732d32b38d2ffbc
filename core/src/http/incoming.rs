//! How long the body of a request may be, and whether it came whole: decided before anything is claimed.

use super::guard::Guard;
use super::problem::{Problem, ProblemKind};

/// What is expected of the body of a request.
///
/// ```
/// use semel::http::{Guard, ProblemKind};
///
/// let guard = Guard::new().max_body_bytes(100);
/// let incoming = guard.incoming([&b"7"[..]]).unwrap();
/// assert!(incoming.whole(7).is_ok());
/// assert_eq!(incoming.whole(3).unwrap_err().kind(), ProblemKind::RequestMalformed);
/// assert_eq!(guard.incoming([&b"101"[..]]).unwrap_err().kind(), ProblemKind::BodyTooLarge);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    declared_bytes: Option<u64>,
    limit_bytes: usize,
}

impl Guard {
    /// What is expected of a body, by the values of the field `Content-Length`; none when the body says by itself where it
    /// ends.
    ///
    /// # Errors
    /// The problem that the request is answered with, of which no byte has to be read: it is too long, or does not say how
    /// long it is in one way.
    pub fn incoming<'v>(
        &self,
        lengths: impl IntoIterator<Item = &'v [u8]>,
    ) -> Result<Incoming, Problem> {
        let mut declared_bytes = None;
        for value in lengths {
            let length = length(value);
            if length.is_none() || declared_bytes.is_some_and(|other| Some(other) != length) {
                return Err(Problem::new(
                    ProblemKind::RequestMalformed,
                    "its Content-Length cannot be read",
                ));
            }
            declared_bytes = length;
        }
        let limit_bytes = self.body_limit_bytes();
        match declared_bytes {
            Some(bytes) if bytes > limit_bytes as u64 => Err(Problem::too_large(limit_bytes)),
            _ => Ok(Incoming {
                declared_bytes,
                limit_bytes,
            }),
        }
    }
}

impl Incoming {
    /// The most bytes to read; a body that has more is [`too_large`](Problem::too_large).
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Whether a body of this many bytes is all of it.
    ///
    /// # Errors
    /// The problem that the request is answered with.
    pub fn whole(&self, bytes: usize) -> Result<(), Problem> {
        match self.declared_bytes {
            Some(declared) if declared != bytes as u64 => Err(Problem::new(
                ProblemKind::RequestMalformed,
                format!("its body has {bytes} bytes, and its Content-Length says {declared}"),
            )),
            _ => Ok(()),
        }
    }
}

fn length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    match !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        true => std::str::from_utf8(digits).ok()?.parse().ok(),
        false => None,
    }
}
