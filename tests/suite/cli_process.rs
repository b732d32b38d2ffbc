//! Starts the `semel` command, and has a place for what it leaves behind.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// How long a test waits for another process to get somewhere.
const PATIENCE: u32 = 500;

/// What a `semel` process answered.
pub(crate) struct Said {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        }
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn last_line(&self) -> String {
        self.err().lines().last().unwrap_or_default().to_owned()
    }

    /// Standard error without semel's own last line.
    pub(crate) fn command_stderr(&self) -> &[u8] {
        let text = self.stderr.strip_suffix(b"\n").unwrap_or(&self.stderr);
        let end = text
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        &self.stderr[..end]
    }
}

/// A `semel` process to be started with these arguments.
pub(crate) fn semel(args: &[&str]) -> Command {
    let mut command = Command::new(semel_tests::semel_binary());
    // Whoever runs the tests may ignore signals (nohup does), and a shell cannot trap what was ignored when it began.
    // SAFETY: signal() may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What `semel` answers to these arguments.
pub(crate) fn say(args: &[&str]) -> Said {
    Said::of(semel(args).output().expect("semel starts"))
}

/// Waits until `done` holds.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..PATIENCE {
        if done() {
            return;
        }
        sleep(Duration::from_millis(20));
    }
    panic!("waited too long for {what}");
}

/// A place for a store and for what commands leave behind.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0
            .path()
            .join(name)
            .to_str()
            .expect("a path of text")
            .to_owned()
    }

    pub(crate) fn store(&self) -> String {
        self.path("store")
    }

    /// `semel run` of a shell script under a key, with more options before.
    pub(crate) fn run(&self, key: &str, options: &[&str], script: &str) -> Said {
        Said::of(
            self.running(key, options, script)
                .output()
                .expect("semel starts"),
        )
    }

    pub(crate) fn running(&self, key: &str, options: &[&str], script: &str) -> Command {
        let store = self.store();
        let mut args = vec!["run", "--store", &store, "--key", key];
        args.extend(options);
        args.extend(["--", "sh", "-c", script, "sh"]);
        let effects = self.path("effects");
        args.push(&effects);
        semel(&args)
    }

    /// How many effects the scripts have had: lines in the file that they get as their first argument.
    pub(crate) fn effects(&self) -> usize {
        fs::read_to_string(self.path("effects")).map_or(0, |text| text.lines().count())
    }
}
