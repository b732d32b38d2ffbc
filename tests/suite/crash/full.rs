//! The disk is full: for real on a small file system where one can be mounted, and by a limit on the size of files.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use semel::{Claim, Request, Store};
use semel_tests::scratch::{cannot, in_memory, is_root, on_disk, skip};
use semel_tests::victim::goods::result_of;

use super::process::{Process, victim};

/// What a victim acknowledged before it filled the disk; checks what it said after that.
fn fill(command: &mut Command) -> Vec<String> {
    let said = Process::start(command).rest();
    let done: Vec<String> = said
        .iter()
        .filter_map(|line| {
            Some(
                line.strip_prefix("ok ")?
                    .strip_suffix(" complete")?
                    .to_owned(),
            )
        })
        .collect();
    let after: Vec<&str> = said.iter().skip(done.len()).map(String::as_str).collect();
    let [stopped, replays, fresh] = after[..] else {
        panic!("the victim said {after:?}");
    };
    assert!(done.len() > 10, "nothing fitted: {after:?}");
    assert!(stopped.starts_with("stopped Unavailable"), "{stopped}");
    assert_eq!(replays, format!("replays {}", done.len()));
    assert!(fresh.starts_with("fresh Unavailable"), "{fresh}");
    done
}

fn check_all_there(place: &str, done: &[String]) {
    let store = Store::open(place).expect("opens when there is space again");
    for key in done {
        let Claim::Replay(replay) = store
            .claim(&Request::new("step", key.as_str()))
            .expect("claims")
        else {
            panic!("{key} was acknowledged");
        };
        assert_eq!(replay.value, result_of(key));
    }
    let Claim::Execute(ticket) = store.claim(&Request::new("step", "later")).expect("claims")
    else {
        panic!("a new key");
    };
    ticket.complete("later").expect("completes");
    assert!(store.verify().expect("verifies").problems.is_empty());
}

/// A file system in memory of a limited size, until this is dropped.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(at: &'a Path, options: &str) -> Option<Self> {
        mount(at, options).then_some(Self(at))
    }
}

fn mount(at: &Path, options: &str) -> bool {
    let mut command = Command::new("mount");
    let status = command
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(at)
        .status();
    status.is_ok_and(|status| status.success())
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_replays_and_loses_nothing() {
    let test = "a_full_disk_replays_and_loses_nothing";
    if !is_root() {
        return skip(test, "only root can mount a small file system");
    }
    let dir = on_disk();
    let Some(small) = Small::mount(dir.path(), "size=6m") else {
        return cannot(test, "this root cannot mount a small file system");
    };
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    let done = fill(&mut victim(&["fill", place]));
    // Full as it is, it opens or says why not; then there is space again.
    if let Err(error) = Store::open(place) {
        assert_eq!(error.kind(), semel::ErrorKind::Unavailable, "{error:?}");
    }
    assert!(
        mount(small.0, "remount,size=64m"),
        "the file system cannot be made larger"
    );
    check_all_there(place, &done);
}

#[test]
fn a_limit_on_the_size_of_files_is_a_full_disk() {
    const LIMIT_BYTES: u64 = 3 << 20;
    let dir = in_memory();
    let place = dir.path().join("store");
    let place = place.to_str().expect("a path of text");
    let mut command = victim(&["fill", place]);
    // SAFETY: setrlimit and signal are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: LIMIT_BYTES,
                rlim_max: LIMIT_BYTES,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let done = fill(&mut command);
    check_all_there(place, &done);
}
