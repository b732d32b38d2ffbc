//! Many processes on one machine, one store: real ones, and kill -9.

mod bounds;
mod command;
mod crowd;
mod forked;
mod hostile;
mod hosts;
mod layered;
mod owners;
mod places;
mod played;
mod stopped;
mod together;

use semel_tests::scratch::in_memory;

use crate::crash::process::{Process, victim};

/// A directory for a store, and its name.
struct Place {
    dir: tempfile::TempDir,
    name: String,
}

impl Place {
    fn new() -> Self {
        let dir = in_memory();
        let name = dir
            .path()
            .join("store")
            .to_str()
            .expect("a path of text")
            .to_owned();
        Self { dir, name }
    }

    /// Another process at this store.
    fn guest(&self, options: &[&str]) -> Guest {
        let mut args = vec!["guest", &*self.name];
        args.extend(options);
        let mut process = Process::start(&mut victim(&args));
        assert_eq!(process.line(), "open");
        Guest(process)
    }

    /// The process that holds the store, by its own word.
    fn owner(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.dir.path().join("store/owner")).ok()?;
        let mut words = text.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        (words.next() == Some("open")).then_some(pid)
    }
}

/// A process that does what it is told.
struct Guest(Process);

impl Guest {
    fn does(&mut self, words: &str) -> String {
        self.0.send(words);
        self.0.line()
    }
}

/// Stops a process, and waits until all its threads stand still.
fn stop(pid: u32) {
    signal(pid, libc::SIGSTOP);
    let stands = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('T'))
    };
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("is there");
    while !threads().flatten().all(stands) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A signal to a process.
fn signal(pid: u32, signal: i32) {
    // SAFETY: kill takes numbers alone, and the process was started by this test.
    let sent = unsafe { libc::kill(pid.try_into().expect("a pid"), signal) };
    assert_eq!(sent, 0, "the process {pid} is there");
}
