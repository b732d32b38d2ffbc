//! Waking an event loop: calls that are ready leave their numbers, and one byte in a pipe that the loop watches. Whoever wakes
//! needs nothing of Python.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use pyo3::prelude::*;

/// Numbers of calls that are ready, and the pipe that rings for them.
struct Letters {
    waiting: Mutex<Vec<u64>>,
    bell: UnixStream,
}

impl Letters {
    fn waiting(&self) -> MutexGuard<'_, Vec<u64>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an event loop watches.
#[pyclass(frozen, module = "semel._native", name = "Mailbox")]
pub(crate) struct Mailbox {
    letters: Arc<Letters>,
    ear: UnixStream,
}

impl Mailbox {
    /// Wakes the loop for the call of this number.
    pub(crate) fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(Ring {
            number,
            letters: Arc::clone(&self.letters),
        }))
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let (ear, bell) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        // A full pipe rings already.
        bell.set_nonblocking(true)?;
        let letters = Letters {
            waiting: Mutex::default(),
            bell,
        };
        Ok(Self {
            letters: Arc::new(letters),
            ear,
        })
    }

    /// What to watch for reading.
    fn fileno(&self) -> i32 {
        self.ear.as_raw_fd()
    }

    /// The numbers of the calls that are ready to be looked at.
    fn drain(&self) -> Vec<u64> {
        let mut bytes = [0; 64];
        // The bell first: what comes after it is read rings again.
        while (&self.ear)
            .read(&mut bytes)
            .is_ok_and(|read| read == bytes.len())
        {}
        std::mem::take(&mut *self.letters.waiting())
    }
}

struct Ring {
    number: u64,
    letters: Arc<Letters>,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = {
            let mut waiting = self.letters.waiting();
            waiting.push(self.number);
            waiting.len() == 1
        };
        if first {
            let _ = (&self.letters.bell).write(&[1]);
        }
    }
}
