//! The keeper: writes the watermark once a second and sweeps, on a thread that no caller waits for.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Shared;
use super::company::Company;
use super::watermark::Watermark;
use crate::error::{Error, Result};
use crate::time::Stopwatch;

/// How often the watermark is written.
const WATERMARK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a sweep goes on before the watermark has its turn again.
const SWEEP_SLICE: Duration = Duration::from_millis(500);

/// How long a closing store waits for a keeper when the disk has failed: it may hang there.
const AFTER_FAULT: Duration = Duration::from_secs(1);

/// The keeper's thread.
pub(super) struct Upkeep {
    control: Arc<Control>,
    thread: std::thread::JoinHandle<()>,
    shared: Arc<Shared>,
}

struct Control {
    stage: Mutex<Stage>,
    changed: Condvar,
    /// Whose knocking the keeper hears while it has nothing to do.
    company: Option<Arc<dyn Company>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Keeping,
    /// The log is whole and will not change any more: the watermark is to be written a last time.
    Finishing,
    /// The disk failed: nothing is to be written.
    Leaving,
    Ended,
}

impl Control {
    fn is_stopping(&self) -> bool {
        *self.stage.lock() != Stage::Keeping
    }

    fn turn(&self, stage: Stage) {
        *self.stage.lock() = stage;
        self.changed.notify_all();
        if let Some(company) = &self.company {
            company.ring();
        }
    }

    /// Pauses, unless the keeper is to stop; what it is to do next.
    fn pause(&self, pause: Duration) -> Stage {
        let mut stage = self.stage.lock();
        match (&self.company, *stage) {
            (Some(company), Stage::Keeping) => {
                drop(stage);
                company.wait(pause);
                return *self.stage.lock();
            }
            (None, Stage::Keeping) => {
                self.changed.wait_for(&mut stage, pause);
            }
            _ => {}
        }
        *stage
    }
}

impl Upkeep {
    pub(super) fn start(shared: &Arc<Shared>, watermark: Option<Watermark>) -> Result<Self> {
        let control = Arc::new(Control {
            stage: Mutex::default(),
            changed: Condvar::new(),
            company: shared.company.clone(),
        });
        let (keeper, watched) = (Arc::clone(shared), Arc::clone(&control));
        let thread = std::thread::Builder::new()
            .name("semel-upkeep".into())
            .spawn(move || {
                keep(&keeper, watermark, &watched);
                watched.turn(Stage::Ended);
            })
            .map_err(|e| {
                Error::unavailable(format!("the keeper's thread could not be started: {e}"))
            })?;
        Ok(Self {
            control,
            thread,
            shared: Arc::clone(shared),
        })
    }

    /// Ends the thread and, when the log is whole, has it write the watermark a last time. A thread that hangs in the disk
    /// is left behind.
    pub(super) fn stop(self, whole: bool) {
        self.control.turn(match whole {
            true => Stage::Finishing,
            false => Stage::Leaving,
        });
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        let patience = match whole {
            true => self.shared.options.tuning.disk_timeout(),
            false => AFTER_FAULT,
        };
        let mut stage = self.control.stage.lock();
        while *stage != Stage::Ended {
            let waited = self.control.changed.wait_for(&mut stage, patience);
            if waited.timed_out() {
                return;
            }
        }
        drop(stage);
        let _ = self.thread.join();
    }
}

fn keep(shared: &Arc<Shared>, mut watermark: Option<Watermark>, control: &Control) {
    let (mut swept, mut marked) = (Stopwatch::start(), Stopwatch::start());
    let every = shared.options.sweep_interval;
    let pause = every.map_or(WATERMARK_INTERVAL, |every| every.min(WATERMARK_INTERVAL));
    // Whether the last sweep was cut short, so that others had their turn.
    let mut unfinished = false;
    loop {
        // Even between two slices of a long sweep somebody may have knocked.
        let stage = control.pause(if unfinished { Duration::ZERO } else { pause });
        if stage == Stage::Leaving {
            return;
        }
        if (stage != Stage::Keeping || marked.elapsed() >= WATERMARK_INTERVAL)
            && let Some(mark) = &mut watermark
        {
            marked = Stopwatch::start();
            if let Err(fault) = shared.watched(|| write(shared, mark)) {
                return shared.fail(fault);
            }
        }
        if stage != Stage::Keeping {
            return;
        }
        if unfinished || every.is_some_and(|every| swept.elapsed() >= every) {
            swept = Stopwatch::start();
            let stop = || control.is_stopping() || swept.elapsed() >= SWEEP_SLICE;
            // What a sweep cannot read it leaves; the next one tries again, and verify tells.
            unfinished = shared.sweep(&stop).is_ok_and(|swept| !swept.finished);
        }
    }
}

fn write(shared: &Shared, watermark: &mut Watermark) -> Result<()> {
    match &shared.log {
        Some(log) if log.ends().head > 0 => watermark.write(log.mark()),
        _ => Ok(()),
    }
}
