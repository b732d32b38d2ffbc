//! `semel run`: how commands can end, and what a repeat is answered then.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::cli_process::{Place, Said, say, semel, until};
use crate::crash::process::{Process, victim};

#[test]
fn a_status_to_retry_on_frees_the_key() {
    let place = Place::new();
    let script = "echo x >> $1; echo tried; test $(wc -l < $1) -ge 3 || exit 75";
    for attempt in [1, 2] {
        let said = place.run("k", &["--retry-on", "1,75"], script);
        let line = format!("semel: released: attempt {attempt} ended with status 75");
        assert!(
            said.status == 75 && said.last_line().starts_with(&line),
            "{}",
            said.err()
        );
    }
    let third = place.run("k", &["--retry-on", "1,75"], script);
    assert_eq!(
        (third.status, third.last_line().as_str()),
        (0, "semel: executed (attempt 3)")
    );
    let again = place.run("k", &["--retry-on", "1,75"], script);
    assert!(
        again.status == 0 && again.last_line().ends_with("attempt 3)"),
        "{}",
        again.err()
    );
    assert_eq!(place.effects(), 3);
}

#[test]
fn attempts_end_where_they_are_told_to() {
    let place = Place::new();
    let options = ["--retry-on", "1", "--max-attempts", "2"];
    let script = "echo x >> $1; exit 1";
    for says in ["the key may run again", "it was the last"] {
        let said = place.run("k", &options, script);
        assert!(
            said.status == 1 && said.last_line().contains(says),
            "{}",
            said.err()
        );
    }
    let over = place.run(
        "k",
        &[&options[..], &["--failed-status", "9"]].concat(),
        script,
    );
    assert!(
        over.status == 9 && over.last_line().contains("attempts_exhausted"),
        "{}",
        over.err()
    );
    assert_eq!(place.effects(), 2);
}

#[test]
fn a_store_that_is_not_shared_names_its_holder_or_is_waited_for() {
    let place = Place::new();
    let store = place.store();
    let mut holder = Process::start(&mut victim(&["hold", &store, "bare"]));
    assert_eq!(holder.line(), "open");
    let script = "echo x >> $1; echo out";
    let second = place.run("k", &["--unavailable-status", "42"], script);
    assert_eq!(second.status, 42, "{}", second.err());
    assert!(
        second.err().contains(&holder.id().to_string()),
        "no pid of the holder in: {}",
        second.err()
    );
    let late = place.run("k", &["--wait", "300ms"], script);
    assert!(
        late.status == 69 && late.last_line().ends_with("wait for it with --wait 1m"),
        "{}",
        late.err()
    );
    let patient = place.running("k", &["--wait", "1m"], script).spawn();
    let patient = patient.expect("semel starts");
    holder.send("close");
    assert_eq!(holder.line(), "closed");
    let patient = Said::of(patient.wait_with_output().expect("ends"));
    assert_eq!(
        (patient.status, patient.out().as_str()),
        (0, "out\n"),
        "{}",
        patient.err()
    );
    assert_eq!(place.effects(), 1);
}

#[test]
fn a_command_that_cannot_be_started_leaves_its_key_free() {
    let place = Place::new();
    let (store, program) = (place.store(), place.path("program"));
    let run = || say(&["run", "--store", &store, "--key", "k", "--", &program]);
    let absent = run();
    assert!(
        absent.status == 127 && absent.last_line().contains("nothing happened"),
        "{}",
        absent.err()
    );
    fs::write(&program, "#!/bin/sh\necho ran\n").expect("written");
    assert_eq!(run().status, 126, "it may not be executed");
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .expect("executable");
    let ran = run();
    assert_eq!(
        (ran.status, ran.out().as_str(), ran.last_line().as_str()),
        (0, "ran\n", "semel: executed (attempt 3)")
    );
}

#[test]
fn a_process_left_behind_does_not_hold_the_run_up() {
    let place = Place::new();
    let watch = semel::Stopwatch::start();
    let said = place.run("k", &[], "sleep 60 & echo started; echo $! > $1");
    let sleeper = fs::read_to_string(place.path("effects")).expect("its pid");
    // SAFETY: the process was started by this test and sleeps for a minute.
    unsafe { libc::kill(sleeper.trim().parse().expect("a number"), libc::SIGKILL) };
    assert_eq!(
        (said.status, said.out().as_str()),
        (0, "started\n"),
        "{}",
        said.err()
    );
    assert!(watch.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_reader_that_goes_away_costs_no_record() {
    let place = Place::new();
    let script = "sleep 0.2; for i in 1 2 3 4; do echo line $i; sleep 0.05; done; exit 5";
    let mut child = place
        .running("k", &[], script)
        .spawn()
        .expect("semel starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ends").code(), Some(5));
    let again = place.run("k", &[], script);
    assert_eq!(
        (again.status, again.out().as_str()),
        (5, "line 1\nline 2\nline 3\nline 4\n")
    );
}

#[test]
fn a_store_that_fails_after_the_command_never_frees_the_key() {
    use semel_tests::recording::Call;
    use semel_tests::shim::{Fault, Shim};
    let place = Place::new();
    let shim = Shim::new(
        Path::new(&place.path("watched")),
        Path::new(&place.path("side")),
    )
    .expect("a shim")
    .without_recording();
    let store = place.path("watched/store");
    let broken = Fault::on(Call::Fdatasync).errno(libc::EIO).always();
    let args = [
        "run",
        "--store",
        &store,
        "--key",
        "k",
        "--lease",
        "300ms",
        "--",
        "sh",
        "-c",
        "echo done; echo ready > $0; read line",
    ];
    let ready = place.path("ready");
    let mut command = semel(&args);
    shim.apply(&mut command);
    let mut child = command
        .arg(&ready)
        .stdin(Stdio::piped())
        .spawn()
        .expect("semel starts");
    until("the command", || Path::new(&ready).exists());
    shim.set_faults(&[broken]).expect("faults");
    drop(child.stdin.take());
    let said = Said::of(child.wait_with_output().expect("ends"));
    assert_eq!(
        (said.status, said.out().as_str()),
        (69, "done\n"),
        "{}",
        said.err()
    );
    assert!(
        said.last_line()
            .starts_with("semel: executed, but not recorded"),
        "{}",
        said.err()
    );
    sleep(Duration::from_millis(400));
    let mut repeat = semel(&args);
    let again = Said::of(repeat.arg(&ready).output().expect("semel starts"));
    // Whether the end reached the disk before the fault is the disk's affair; that nothing ran again is semel's.
    let last = again.last_line();
    assert!(
        again.status == 73 || last.starts_with("semel: replayed"),
        "status {}: {last}",
        again.status
    );
}
