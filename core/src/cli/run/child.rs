//! Runs the command: its output goes on as it comes and is kept on the way.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::cli::output::{Output, say};
use crate::cli::run::outcome::{Kept, Outcome, Stream};
use crate::cli::run::signals::Forwarding;

/// The most that is read from a pipe at once.
const PIECE_BYTES: usize = 64 * 1024;
/// How long the pipes may be silent after the command's end, while a process that it left behind holds them open.
const LEFT_BEHIND_SILENCE: Duration = Duration::from_secs(1);

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    pumps: [Arc<Pump>; 2],
    kept: Arc<Mutex<Kept>>,
    activity: Receiver<()>,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Makes the outcome of the exit status, with the output so far.
    kept: Arc<Mutex<Kept>>,
    /// Whether its standard error ended within a line.
    pub(crate) stderr_open: bool,
}

impl Running {
    /// Starts the command with its output through pipes and its input as it is. After an error nothing has run.
    pub(crate) fn start(
        forwarding: &Forwarding,
        mut command: Command,
        room: usize,
    ) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(Kept::with_room(room)));
        let (heard, activity) = sync_channel(1);
        let ((from_stdout, stdout), (from_stderr, stderr)) = (io::pipe()?, io::pipe()?);
        let pumps = [
            Pump::begin(
                from_stdout,
                Output::stdout()?,
                Stream::Stdout,
                &kept,
                heard.clone(),
            )?,
            Pump::begin(from_stderr, Output::stderr()?, Stream::Stderr, &kept, heard)?,
        ];
        let child = forwarding.start(command.stdout(stdout).stderr(stderr))?;
        // The command description holds the pipes' other ends, which must be the child's alone.
        drop(command);
        Ok(Self {
            child,
            pumps,
            kept,
            activity,
        })
    }

    /// Waits until the command has ended and its output has gone through.
    pub(crate) fn wait(mut self, forwarding: &Forwarding) -> io::Result<Ended> {
        let status = forwarding.wait(&mut self.child)?;
        loop {
            match self.activity.recv_timeout(LEFT_BEHIND_SILENCE) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if self.pumps.iter().all(|pump| pump.is_waiting()) {
                        say(
                            "semel: a process that the command left behind still holds its output; what it prints from now on is lost",
                        );
                        break;
                    }
                }
            }
        }
        let stderr_open = self
            .pumps
            .iter()
            .any(|pump| pump.stream == Stream::Stderr && pump.line_open.load(Ordering::SeqCst));
        Ok(Ended {
            status,
            kept: self.kept,
            stderr_open,
        })
    }
}

impl Ended {
    /// The outcome to keep.
    pub(crate) fn outcome(&self, status: u8) -> Outcome {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .end(status)
    }
}

/// Takes one stream of the command on.
struct Pump {
    stream: Stream,
    state: AtomicU8,
    line_open: AtomicBool,
}

const READING: u8 = 0;
const WRITING: u8 = 1;
const ENDED: u8 = 2;

impl Pump {
    fn begin(
        from: impl Read + Send + 'static,
        to: Output,
        stream: Stream,
        kept: &Arc<Mutex<Kept>>,
        heard: SyncSender<()>,
    ) -> io::Result<Arc<Self>> {
        let pump = Arc::new(Self {
            stream,
            state: AtomicU8::new(READING),
            line_open: AtomicBool::new(false),
        });
        let (own, kept) = (Arc::clone(&pump), Arc::clone(kept));
        thread::Builder::new()
            .name(format!("semel-{stream:?}"))
            .spawn(move || {
                own.run(from, to, &kept, &heard);
                own.state.store(ENDED, Ordering::SeqCst);
            })?;
        Ok(pump)
    }

    /// Whether there is nothing to take on at this moment.
    fn is_waiting(&self) -> bool {
        self.state.load(Ordering::SeqCst) != WRITING
    }

    fn run(&self, mut from: impl Read, to: Output, kept: &Mutex<Kept>, heard: &SyncSender<()>) {
        let mut piece = vec![0; PIECE_BYTES];
        let mut to = Some(to);
        loop {
            self.state.store(READING, Ordering::SeqCst);
            let read = match from.read(&mut piece) {
                Ok(0) => return,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            self.state.store(WRITING, Ordering::SeqCst);
            let bytes = &piece[..read];
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(self.stream, bytes);
            self.line_open
                .store(bytes.last() != Some(&b'\n'), Ordering::SeqCst);
            // A reader that went away ends nothing: the command's end must be known, and its output is kept.
            to = to.and_then(|to| self.pass_on(to, bytes));
            let _ = heard.try_send(());
        }
    }

    fn pass_on(&self, mut to: Output, bytes: &[u8]) -> Option<Output> {
        match to.write_all(bytes) {
            Ok(()) => Some(to),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Err(error) => {
                say(format_args!(
                    "semel: the command's {:?} cannot be written: {error}; the command goes on",
                    self.stream
                ));
                None
            }
        }
    }
}
