//! The keeper: writes the watermark once a second and sweeps, on a thread that no caller waits for.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Shared;
use super::watermark::Watermark;
use crate::error::{Error, Result};
use crate::time::Stopwatch;

/// How often the watermark is written.
const WATERMARK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a closing store waits for a thread to notice that the disk has failed. One that hangs there never does.
pub(super) const AFTER_FAULT: Duration = Duration::from_secs(1);

/// The keeper's thread.
pub(super) struct Upkeep {
    control: Arc<Control>,
    thread: std::thread::JoinHandle<()>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Control {
    stage: Mutex<Stage>,
    changed: Condvar,
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
    }
}

impl Upkeep {
    pub(super) fn start(shared: &Arc<Shared>, watermark: Option<Watermark>) -> Result<Self> {
        let control = Arc::new(Control::default());
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
        let stage = match whole {
            true => Stage::Finishing,
            false => Stage::Leaving,
        };
        self.control.turn(stage);
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        let patience = self.shared.options.disk_timeout;
        let mut stage = self.control.stage.lock();
        while *stage != Stage::Ended {
            let patience = match self.shared.durable.check() {
                Ok(()) => patience,
                Err(_) => patience.min(AFTER_FAULT),
            };
            if self
                .control
                .changed
                .wait_for(&mut stage, patience)
                .timed_out()
            {
                return;
            }
        }
        drop(stage);
        let _ = self.thread.join();
    }
}

fn keep(shared: &Arc<Shared>, mut watermark: Option<Watermark>, control: &Control) {
    let mut swept = Stopwatch::start();
    let pause = shared
        .options
        .sweep_interval
        .map_or(WATERMARK_INTERVAL, |interval| {
            interval.min(WATERMARK_INTERVAL)
        });
    loop {
        let stage = {
            let mut stage = control.stage.lock();
            if *stage == Stage::Keeping {
                control.changed.wait_for(&mut stage, pause);
            }
            *stage
        };
        if stage == Stage::Leaving {
            return;
        }
        if let Some(mark) = &mut watermark
            && let Err(fault) = shared.watched(|| write(shared, mark))
        {
            return shared.fail(fault);
        }
        if stage != Stage::Keeping {
            return;
        }
        if shared
            .options
            .sweep_interval
            .is_some_and(|interval| swept.elapsed() >= interval)
        {
            swept = Stopwatch::start();
            // What a sweep cannot read it leaves; the next one tries again, and verify tells.
            let _ = shared.sweep(&|| control.is_stopping());
        }
    }
}

fn write(shared: &Shared, watermark: &mut Watermark) -> Result<()> {
    match &shared.log {
        Some(log) if log.ends().head > 0 => watermark.write(log.ends()),
        _ => Ok(()),
    }
}
