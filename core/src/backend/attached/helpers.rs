//! Threads that ask for callers who await: a socket is waited for here, and not where it would hold up other tasks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// How long a thread stays that has nothing to do.
const IDLE: Duration = Duration::from_secs(5);
/// How many jobs wait for a thread.
const MAX_QUEUED: usize = 4096;

/// Some threads, started as they are needed.
pub(super) struct Helpers(Arc<Office>);

struct Office {
    most: usize,
    desk: Mutex<Desk>,
    work: Condvar,
}

#[derive(Default)]
struct Desk {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Helpers {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Office {
            most,
            desk: Mutex::default(),
            work: Condvar::new(),
        }))
    }

    /// Does it on some thread, soon; whether it will be done.
    pub(super) fn start(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut desk = self.0.desk();
        if desk.queue.len() >= MAX_QUEUED {
            return false;
        }
        self.0.take_on(&mut desk, Box::new(job))
    }

    /// Does it on a thread that has nothing else to do; whether there is one.
    pub(super) fn start_at_once(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let mut desk = self.0.desk();
        let free = desk.idle > desk.queue.len() || desk.threads < self.0.most;
        free && self.0.take_on(&mut desk, Box::new(job))
    }
}

impl Office {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn take_on(self: &Arc<Self>, desk: &mut Desk, job: Job) -> bool {
        desk.queue.push_back(job);
        if desk.idle >= desk.queue.len() {
            self.work.notify_one();
            return true;
        }
        if desk.threads < self.most {
            let office = Arc::clone(self);
            let thread = std::thread::Builder::new().name("semel-call".into());
            match thread.spawn(move || office.serve()) {
                Ok(_) => desk.threads += 1,
                Err(_) if desk.threads == 0 => {
                    desk.queue.pop_back();
                    return false;
                }
                Err(_) => {}
            }
        }
        true
    }

    fn serve(&self) {
        let mut desk = self.desk();
        loop {
            if let Some(job) = desk.queue.pop_front() {
                drop(desk);
                // A job that panics must not end the others.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                desk = self.desk();
                continue;
            }
            desk.idle += 1;
            let (mut back, waited) = match self.work.wait_timeout(desk, IDLE) {
                Ok(waited) => waited,
                Err(e) => e.into_inner(),
            };
            back.idle -= 1;
            if waited.timed_out() && back.queue.is_empty() {
                back.threads -= 1;
                return;
            }
            desk = back;
        }
    }
}
