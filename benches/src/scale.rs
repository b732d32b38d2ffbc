//! How much work a run does: the sizes that are quoted, or small ones that only show that the harness runs.

/// The size of a run.
#[derive(Clone, Copy)]
pub struct Scale {
    quick: bool,
}

impl Scale {
    /// The sizes that are quoted, unless `quick`.
    pub fn new(quick: bool) -> Self {
        Self { quick }
    }

    /// One of two sizes.
    pub fn of<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The name of this size.
    pub fn name(self) -> &'static str {
        self.of("full size", "quick: not to be quoted")
    }
}
