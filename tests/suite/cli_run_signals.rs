//! `semel run`: signals to the command, to `semel run`, and from the terminal.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::thread::sleep;
use std::time::Duration;

use crate::cli_process::{Place, Said, say, until};

#[test]
fn a_command_ended_by_a_signal_is_in_doubt_until_resolved() {
    let place = Place::new();
    let script = "echo x >> $1; kill -9 $$";
    let first = place.run("it's 1", &[], script);
    assert!(
        first.status == 128 + 9 && first.last_line().contains("signal 9 (SIGKILL)"),
        "{}",
        first.err()
    );
    let again = place.run("it's 1", &[], script);
    let store = place.store();
    let advice = format!(
        r"resolve with: semel resolve --store {store} --operation run --key 'it'\''s 1' --fence "
    );
    let ways = " (--value JSON | --executed | --error CODE --message TEXT | --rerun)";
    let last = again.last_line();
    assert_eq!(again.status, 73);
    assert!(
        last.starts_with("semel: in doubt since 2")
            && last.contains("because the command was ended by signal 9"),
        "{last}"
    );
    let fence = last
        .split_once(&advice)
        .and_then(|(_, rest)| rest.strip_suffix(ways))
        .unwrap_or_else(|| panic!("{last}"));
    let resolved = say(&[
        "resolve",
        "--store",
        &store,
        "--key",
        "it's 1",
        "--fence",
        fence,
        "--value",
        r#"{"paid":true}"#,
    ]);
    assert_eq!(resolved.status, 0, "{}", resolved.err());
    let after = place.run("it's 1", &[], script);
    assert_eq!(
        (after.status, after.out().as_str()),
        (0, "{\"paid\":true}\n")
    );
    assert!(
        after.last_line().starts_with("semel: replayed"),
        "{}",
        after.err()
    );
    assert_eq!(place.effects(), 1);
}

#[test]
fn a_killed_run_is_in_doubt_after_its_lease_and_runs_again_only_when_told() {
    let place = Place::new();
    let (options, script) = (
        ["--lease", "500ms"],
        "echo x >> $1; test -e $1.again || sleep 30",
    );
    let mut child = place
        .running("k", &options, script)
        .spawn()
        .expect("semel starts");
    until("the effect", || place.effects() == 1);
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let mut last = place.run("k", &options, script);
    if last.status == 75 {
        assert!(
            last.last_line()
                .starts_with("semel: busy: attempt 1 runs since 2"),
            "{}",
            last.err()
        );
        sleep(Duration::from_millis(600));
        last = place.run("k", &options, script);
    }
    assert!(
        last.status == 73 && last.last_line().contains("its lease ended"),
        "{}",
        last.err()
    );
    let store = place.store();
    let unresolved = say(&["unresolved", "--store", &store, "--json"]);
    assert!(
        unresolved.out().contains(r#""state":"in_doubt""#),
        "{}",
        unresolved.out()
    );
    assert_eq!(
        say(&["resolve", "--store", &store, "--key", "k", "--rerun"]).status,
        0
    );
    fs::write(place.path("effects.again"), "").expect("written");
    let rerun = place.run("k", &options, script);
    assert_eq!(
        (rerun.status, rerun.last_line().as_str()),
        (0, "semel: executed (attempt 2)")
    );
    assert_eq!(place.effects(), 2);
}

#[test]
fn work_that_may_repeat_runs_again_after_a_signal_unasked() {
    let place = Place::new();
    let script = "echo x >> $1; test $(wc -l < $1) -ge 2 || kill -9 $$";
    assert_eq!(place.run("k", &["--in-doubt", "rerun"], script).status, 137);
    let again = place.run("k", &["--in-doubt", "rerun"], script);
    assert_eq!(
        (again.status, again.last_line().as_str()),
        (0, "semel: executed (attempt 2)")
    );
}

#[test]
fn a_signal_to_semel_reaches_the_command_and_its_end_is_recorded() {
    for (signal, name) in [
        (libc::SIGTERM, "TERM"),
        (libc::SIGINT, "INT"),
        (libc::SIGHUP, "HUP"),
    ] {
        let place = Place::new();
        let script =
            format!("trap 'echo told; exit 7' {name}; echo x >> $1; while :; do sleep 0.05; done");
        let child = place
            .running("k", &[], &script)
            .spawn()
            .expect("semel starts");
        until("the effect", || place.effects() == 1);
        // SAFETY: the process is our child and not reaped yet.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        let said = Said::of(child.wait_with_output().expect("ends"));
        assert_eq!(
            (said.status, said.out().as_str()),
            (7, "told\n"),
            "{name}: {}",
            said.err()
        );
        let again = place.run("k", &[], &script);
        assert_eq!(
            (again.status, again.out().as_str()),
            (7, "told\n"),
            "{name}: {}",
            again.err()
        );
    }
}

#[test]
fn a_key_of_the_terminal_reaches_the_command_once() {
    let place = Place::new();
    // A shell in a loop of its own takes each signal at once; while it waits for a program it counts two as one.
    let script = "n=0; trap 'n=$((n+1))' INT; echo x >> $1; i=0; while [ $n -eq 0 ] && [ $i -lt 20000000 ]; do i=$((i+1)); done; \
        i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo seen $n; exit $n";
    let (mut keyboard, terminal) = terminal();
    let mut command = place.running("k", &[], script);
    command.stdin(terminal);
    // SAFETY: between fork and exec only system calls are made: a session of its own, led by the terminal on its input.
    unsafe {
        command.pre_exec(|| {
            match libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) != -1 {
                true => Ok(()),
                false => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let child = command.spawn().expect("semel starts");
    drop(command);
    until("the effect", || place.effects() == 1);
    // Once everything has settled, the two processes wake in the order of their signals.
    sleep(Duration::from_millis(300));
    keyboard.write_all(b"\x03").expect("typed");
    let said = Said::of(child.wait_with_output().expect("ends"));
    assert_eq!(
        (said.status, said.out().as_str(), said.last_line().as_str()),
        (1, "seen 1\n", "semel: executed")
    );
}

/// Both ends of a new terminal.
fn terminal() -> (File, File) {
    let (mut keyboard, mut terminal) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are valid for writing, and the descriptors that come back are owned by nobody else.
    unsafe {
        assert_eq!(
            libc::openpty(&mut keyboard, &mut terminal, none, none.cast(), none.cast()),
            0
        );
        (File::from_raw_fd(keyboard), File::from_raw_fd(terminal))
    }
}
