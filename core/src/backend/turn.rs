//! The right of the first waiter in line to try next; dropped unused, it passes on.

use std::fmt;

/// A turn, or none.
pub(crate) struct Turn {
    id: u64,
    pass: Option<Box<dyn FnOnce() + Send>>,
}

impl Turn {
    /// No turn: the waiter may look again like anybody.
    pub(crate) fn none() -> Self {
        Self { id: 0, pass: None }
    }

    /// The turn of this waiter; `pass` gives it to the next.
    pub(crate) fn of(id: u64, pass: impl FnOnce() + Send + 'static) -> Self {
        Self {
            id,
            pass: Some(Box::new(pass)),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The turn was used: it does not pass on.
    pub(crate) fn used(mut self) {
        self.pass = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            pass();
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.id)
    }
}
