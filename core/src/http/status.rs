//! Which answers are kept, by status.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// How a request ended behind the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer of this status, whose body may still be on its way.
    Status(u16),
    /// Without a whole answer, after the request was passed on: a reset, a time-out, a panic of the handler.
    Broken,
    /// Before anything was passed on: nobody could be reached.
    NotSent,
}

/// What becomes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answer is the operation's: repeats get it.
    Keep,
    /// Nothing happened: a repeat runs.
    Release,
    /// Nobody knows whether it took effect.
    Doubt,
}

/// Which answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum StatusPolicy {
    /// 2xx, 3xx and 4xx are kept, but 401, 403, 408, 425 and 429, which say that nothing was tried, release; 5xx leaves a
    /// doubt.
    #[default]
    Careful,
    /// 2xx is kept, every other status releases: for services in which an error has no effect.
    SuccessOnly,
    /// As careful, but 5xx is kept as well, as Stripe documents of its first version.
    StripeV1,
}

impl StatusPolicy {
    /// The policies by name.
    pub const ALL: [Self; 3] = [Self::Careful, Self::SuccessOnly, Self::StripeV1];

    /// Its name in configuration: `careful`, `success-only`, `stripe-v1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Careful => "careful",
            Self::SuccessOnly => "success-only",
            Self::StripeV1 => "stripe-v1",
        }
    }

    /// What becomes of the key of a request that ended so.
    ///
    /// ```
    /// use semel::http::{Ending, StatusPolicy, Verdict};
    ///
    /// let careful = StatusPolicy::Careful;
    /// assert_eq!(careful.judge(Ending::Status(402)), Verdict::Keep);
    /// assert_eq!(careful.judge(Ending::Status(429)), Verdict::Release);
    /// assert_eq!(careful.judge(Ending::Status(500)), Verdict::Doubt);
    /// assert_eq!(careful.judge(Ending::Broken), Verdict::Doubt);
    /// ```
    pub fn judge(self, ending: Ending) -> Verdict {
        let status = match ending {
            Ending::NotSent => return Verdict::Release,
            Ending::Broken => return Verdict::Doubt,
            Ending::Status(status) => status,
        };
        match (self, status) {
            (_, 200..=299) => Verdict::Keep,
            (Self::SuccessOnly, _) => Verdict::Release,
            (_, 401 | 403 | 408 | 425 | 429) => Verdict::Release,
            (_, 300..=499) => Verdict::Keep,
            (Self::StripeV1, 500..=599) => Verdict::Keep,
            _ => Verdict::Doubt,
        }
    }
}

impl fmt::Display for StatusPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StatusPolicy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let named = Self::ALL.into_iter().find(|policy| policy.name() == name);
        named.ok_or_else(|| {
            Error::invalid(format!(
                "there is no status policy {name:?}; use careful, success-only or stripe-v1"
            ))
        })
    }
}
