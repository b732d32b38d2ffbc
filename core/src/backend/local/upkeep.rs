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

/// How long a sweep goes on before the watermark has its turn again.
const SWEEP_SLICE: Duration = Duration::from_millis(500);

/// The keeper's thread.
pub(super) struct Upkeep {
    control: Arc<Control>,
    thread: std::thread::JoinHandle<Option<Watermark>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Control {
    stopping: Mutex<bool>,
    changed: Condvar,
}

impl Upkeep {
    pub(super) fn start(shared: &Arc<Shared>, watermark: Option<Watermark>) -> Result<Self> {
        let control = Arc::new(Control::default());
        let (keeper, watched) = (Arc::clone(shared), Arc::clone(&control));
        let thread = std::thread::Builder::new()
            .name("semel-upkeep".into())
            .spawn(move || keep(&keeper, watermark, &watched))
            .map_err(|e| {
                Error::unavailable(format!("the keeper's thread could not be started: {e}"))
            })?;
        Ok(Self {
            control,
            thread,
            shared: Arc::clone(shared),
        })
    }

    /// Ends the thread and, when the log is whole, writes the watermark a last time.
    pub(super) fn stop(self, whole: bool) {
        *self.control.stopping.lock() = true;
        self.control.changed.notify_all();
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        if let Ok(Some(mut watermark)) = self.thread.join()
            && whole
        {
            let _ = write(&self.shared, &mut watermark);
        }
    }
}

fn keep(shared: &Shared, mut watermark: Option<Watermark>, control: &Control) -> Option<Watermark> {
    let (mut swept, mut marked) = (Stopwatch::start(), Stopwatch::start());
    let every = shared.options.sweep_interval;
    let pause = every.map_or(WATERMARK_INTERVAL, |every| every.min(WATERMARK_INTERVAL));
    // Whether the last sweep was cut short, so that others had their turn.
    let mut unfinished = false;
    loop {
        {
            let mut stopping = control.stopping.lock();
            if !*stopping && !unfinished {
                control.changed.wait_for(&mut stopping, pause);
            }
            if *stopping {
                return watermark;
            }
        }
        if marked.elapsed() >= WATERMARK_INTERVAL
            && let Some(mark) = &mut watermark
        {
            marked = Stopwatch::start();
            if let Err(fault) = write(shared, mark) {
                shared.fail(fault);
                return None;
            }
        }
        if unfinished || every.is_some_and(|every| swept.elapsed() >= every) {
            swept = Stopwatch::start();
            let stop = || *control.stopping.lock() || swept.elapsed() >= SWEEP_SLICE;
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
