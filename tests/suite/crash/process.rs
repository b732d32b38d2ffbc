//! A victim process, and what it says.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Who says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(40);

/// The victim program, to be started with these arguments.
pub(crate) fn victim(args: &[&str]) -> Command {
    let mut command = Command::new(semel_tests::sibling("semel-victim"));
    command.args(args);
    command
}

/// A running victim; it is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the victim starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the victim hangs"),
        }
    }

    /// The next line, which there must be.
    pub(crate) fn line(&mut self) -> String {
        self.next().expect("the victim says more")
    }

    /// All lines up to the end.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe was asked for");
        writeln!(input, "{line}").expect("the victim listens");
    }

    /// SIGKILL, and what it had said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("the victim can be killed");
        self.child.wait().expect("the victim ends");
        self.rest()
    }

    /// Whether it ended well.
    pub(crate) fn ended_well(&mut self) -> bool {
        self.child.wait().expect("the victim ends").success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
