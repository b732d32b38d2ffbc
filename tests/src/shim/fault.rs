//! One rule of fault injection: which call is spoiled, when, and how.

use crate::recording::Call;

/// One rule: which call is spoiled, when, and how. It hits one call unless told otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    call: Call,
    path: String,
    after: u64,
    times: u64,
    error: Option<String>,
    size: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Whole,
    Half,
}

impl Fault {
    /// A fault on the first such call, whatever its path; say next what happens to it.
    pub fn on(call: Call) -> Self {
        Self {
            call,
            path: "*".into(),
            after: 0,
            times: 1,
            error: None,
            size: Size::Whole,
        }
    }

    /// Only paths that match this shell pattern, as a whole below the directory or in their last component.
    #[must_use]
    pub fn path(mut self, pattern: &str) -> Self {
        self.path = pattern.into();
        self
    }

    /// Lets so many matching calls pass first.
    #[must_use]
    pub fn after(mut self, calls: u64) -> Self {
        self.after = calls;
        self
    }

    /// Hits so many calls (at least one).
    #[must_use]
    pub fn times(mut self, calls: u64) -> Self {
        self.times = calls.max(1);
        self
    }

    /// Hits every call from then on.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = 0;
        self
    }

    /// The call fails with this error number.
    #[must_use]
    pub fn errno(mut self, number: i32) -> Self {
        self.error = Some(number.to_string());
        self
    }

    /// The call sleeps until the faults are replaced, then does its work.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.error = Some("HANG".into());
        self
    }

    /// A sync claims success, does nothing and leaves no record.
    #[must_use]
    pub fn ignore(mut self) -> Self {
        self.error = Some("IGNORE".into());
        self
    }

    /// The first half of the bytes is written before the error; without an error the short count is returned.
    #[must_use]
    pub fn short(mut self) -> Self {
        self.size = Size::Half;
        self
    }

    pub(super) fn to_rule(&self) -> String {
        let Self {
            call,
            path,
            after,
            times,
            error,
            size,
        } = self;
        let error = error
            .as_ref()
            .map_or(String::new(), |error| format!(";error={error}"));
        let short = i32::from(*size == Size::Half);
        format!(
            "op={};path={path};after={after};times={times}{error};short={short}",
            call.name()
        )
    }
}
