//! Things to do at a time of the store: one thread, started with the first of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::fork::Origin;
use crate::sync::plain::{Condvar, Mutex, MutexGuard};
use crate::sync::thread;
use crate::time::StoreClock;

type Job = Box<dyn FnOnce() + Send>;

/// A scheduled job; it can be called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Appointment {
    due_us: u64,
    number: u64,
}

/// The appointments of a store.
pub(crate) struct Timers(Arc<Shared>);

struct Shared {
    clock: StoreClock,
    origin: Origin,
    diary: Mutex<Diary>,
    changed: Condvar,
}

#[derive(Default)]
struct Diary {
    jobs: BTreeMap<Appointment, Job>,
    next_number: u64,
    thread: Option<thread::JoinHandle<()>>,
    closed: bool,
}

impl Timers {
    pub(crate) fn new(clock: StoreClock) -> Self {
        let shared = Arc::new(Shared {
            clock,
            origin: Origin::here(),
            diary: Mutex::default(),
            changed: Condvar::new(),
        });
        let weak = Arc::downgrade(&shared);
        shared.clock.source().listen(move || {
            if let Some(shared) = Weak::upgrade(&weak) {
                // Under the lock, so that the thread is either before its look at the clock or asleep.
                let _diary = shared.diary.lock();
                shared.changed.notify_all();
            }
        });
        Self(shared)
    }

    /// Runs `job` on the timer's thread when `due_us` has come. The job must be short and must not block.
    pub(crate) fn at(&self, due_us: u64, job: impl FnOnce() + Send + 'static) -> Appointment {
        let mut diary = self.0.diary.lock();
        let appointment = Appointment {
            due_us,
            number: diary.next_number,
        };
        diary.next_number += 1;
        if diary.closed {
            return appointment;
        }
        let first = diary
            .jobs
            .first_key_value()
            .is_none_or(|(first, _)| due_us < first.due_us);
        diary.jobs.insert(appointment, Box::new(job));
        if diary.thread.is_none() {
            let shared = Arc::clone(&self.0);
            let thread = thread::Builder::new()
                .name("semel-timer".into())
                .spawn(move || shared.serve());
            diary.thread = thread.ok();
        } else if first {
            self.0.changed.notify_one();
        }
        appointment
    }

    pub(crate) fn call_off(&self, appointment: Appointment) {
        let job = self.0.diary.lock().jobs.remove(&appointment);
        drop(job);
    }

    /// Ends the thread; what is still due is dropped.
    pub(crate) fn close(&self) {
        if self.0.origin.is_foreign() {
            return; // the thread does not exist in a forked child, and the lock may never be free
        }
        let (thread, jobs) = {
            let mut diary = self.0.diary.lock();
            diary.closed = true;
            (diary.thread.take(), std::mem::take(&mut diary.jobs))
        };
        self.0.changed.notify_all();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
        drop(jobs);
    }
}

/// A job that panics must not end all others.
fn job_guarded(job: Job) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
}

impl Drop for Timers {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn serve(&self) {
        let mut diary = self.diary.lock();
        while !diary.closed {
            let now_us = self.clock.now_us();
            match diary.jobs.first_entry() {
                Some(entry) if entry.key().due_us <= now_us => {
                    let job = entry.remove();
                    MutexGuard::unlocked(&mut diary, || job_guarded(job));
                }
                Some(entry) if !self.clock.source().is_manual() => {
                    let wait = Duration::from_micros(
                        entry.key().due_us.saturating_sub(now_us).min(3_600_000_000),
                    );
                    self.changed.wait_for(&mut diary, wait);
                }
                _ => self.changed.wait(&mut diary),
            }
        }
    }
}
