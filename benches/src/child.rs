//! Work in a process of its own: a fresh heap whose memory can be measured, or one that is killed while it works.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::outcome::Outcome;
use crate::questions;
use crate::subject::Promise;

/// What a child says when it stands where it is to be killed.
pub const READY: &str = "ready";

/// Does the job that a parent asked of this process.
pub fn work(job: &str, arguments: &[String]) -> Outcome<()> {
    match job {
        questions::sustained::JOB => questions::sustained::work(arguments),
        questions::cold_memory::JOB => questions::cold_memory::work(arguments),
        questions::opening::FILL => questions::opening::fill(arguments),
        questions::opening::OPEN => questions::opening::open(arguments),
        questions::opening::SCAN => questions::opening::scan(arguments),
        questions::attached::HOLD => questions::attached::hold(arguments),
        questions::attached::ECHO => questions::attached::echo(arguments),
        questions::attached::REDIS_WORK => questions::attached::redis_work(arguments),
        questions::attached::WORK => questions::attached::work(arguments, Promise::Relaxed),
        questions::attached::SYNCED_WORK => questions::attached::work(arguments, Promise::Synced),
        questions::http::BARE => questions::http::bare(arguments),
        questions::http::PROXY => questions::http::proxy(arguments),
        other => Err(format!("no child has the job {other}").into()),
    }
}

/// Tells the parent a figure.
pub fn tell(name: &str, figure: f64) {
    println!("{name} {figure}");
}

/// The figures that a child told.
pub struct Told(BTreeMap<String, f64>);

impl Told {
    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Outcome<f64> {
        self.0
            .get(name)
            .copied()
            .ok_or_else(|| format!("the child did not tell {name}").into())
    }
}

/// Runs a job to its end.
pub fn ask(job: &str, arguments: &[&str]) -> Outcome<Told> {
    Running::start(job, arguments)?.finish()
}

/// A child at work. Dropping it kills it.
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts a job.
    pub fn start(job: &str, arguments: &[&str]) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--child", job])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
        Ok(Self { child, lines })
    }

    /// Waits until the child says that it is ready.
    pub fn ready(&mut self) -> Outcome<()> {
        for line in &mut self.lines {
            if line? == READY {
                return Ok(());
            }
        }
        Err("the child ended before it was ready".into())
    }

    /// Ends the child as `kill -9` does.
    pub fn kill(mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn finish(mut self) -> Outcome<Told> {
        let mut told = BTreeMap::new();
        for line in &mut self.lines {
            if let Some((name, figure)) = line?.split_once(' ') {
                told.insert(name.to_owned(), figure.parse()?);
            }
        }
        let status = self.child.wait()?;
        if status.success() {
            Ok(Told(told))
        } else {
            Err(format!("the child ended with {status}").into())
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the child has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
