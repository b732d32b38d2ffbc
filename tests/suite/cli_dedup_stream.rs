//! `semel dedup` as a stream: nothing waits, nothing is lost, and memory does not grow.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::cli_dedup::{begin, dedup};
use crate::cli_process::Place;

#[test]
fn what_came_goes_out_before_more_is_waited_for() {
    let place = Place::new();
    let mut child = begin(&place, &["--key", ".id"]);
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    for id in 0..3 {
        let line = format!("{{\"id\":{id}}}\n");
        stdin.write_all(line.repeat(2).as_bytes()).expect("written");
        let mut got = String::new();
        stdout.read_line(&mut got).expect("a line");
        assert_eq!(got, line);
    }
    drop(stdin);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

#[test]
fn lines_that_nobody_took_are_not_marked() {
    let place = Place::new();
    let input = numbered(0..50_000);
    let mut child = begin(&place, &["--key", ".id"]);
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("piped");
    let fed = input.clone();
    let feeder = thread::spawn(move || stdin.write_all(fed.as_bytes()));
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("text");
    assert_eq!(child.wait().expect("ends").code(), Some(74), "{stderr}");
    let _ = feeder.join();
    assert!(
        stderr.contains("went away") && stderr.contains("not marked"),
        "{stderr}"
    );
    let again = dedup(&place, &["--key", ".id"], input.as_bytes());
    assert!(
        again.stdout == input.as_bytes(),
        "some line was lost: {}",
        again.err()
    );
}

#[test]
fn a_killed_run_loses_no_line() {
    let place = Place::new();
    let input = numbered(0..30_000);
    for round in 0..3 {
        let operation = format!("round {round}");
        let options = ["--key", ".id", "--operation", &operation];
        let mut child = begin(&place, &options);
        let mut stdin = child.stdin.take().expect("piped");
        let fed = input.clone();
        let feeder = thread::spawn(move || stdin.write_all(fed.as_bytes()));
        let mut stdout = child.stdout.take().expect("piped");
        let mut before = vec![0; 100_000 * (round + 1)];
        stdout.read_exact(&mut before).expect("some output");
        // Long enough for marks that came too early to reach the disk, while the output waits for its reader.
        sleep(Duration::from_millis(100));
        child.kill().expect("killed");
        stdout.read_to_end(&mut before).expect("the rest");
        child.wait().expect("reaped");
        let _ = feeder.join();
        let after = dedup(&place, &options, input.as_bytes());
        assert_eq!(after.status, 0, "{}", after.err());
        let whole = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .lines()
                .map(str::to_owned)
                .collect::<HashSet<_>>()
        };
        let (before, after) = (whole(&before), whole(&after.stdout));
        let lost: Vec<&str> = input
            .lines()
            .filter(|line| !before.contains(*line) && !after.contains(*line))
            .collect();
        assert!(
            lost.is_empty(),
            "{} lines were lost, the first is {:?}",
            lost.len(),
            lost.first()
        );
    }
}

#[test]
fn memory_does_not_grow_with_the_lines() {
    let few = peak_kib(10_000, 100);
    let many = peak_kib(200_000, 100);
    assert!(
        many < few + 8 * 1024,
        "10,000 lines took {few} KiB, 200,000 took {many} KiB"
    );
    let distinct = peak_kib(200_000, 200_000);
    assert!(
        distinct < 192 * 1024,
        "200,000 keys took {distinct} KiB, of which the store's cache is 64 MiB"
    );
}

/// The most memory that a run ever had for so many lines with so many keys, in KiB, once all of them went through.
fn peak_kib(lines: usize, keys: usize) -> u64 {
    let place = Place::new();
    let mut child = begin(&place, &["--key", ".id"]);
    let mut stdin = BufWriter::new(child.stdin.take().expect("piped"));
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let feeder = thread::spawn(move || {
        for at in 0..lines {
            writeln!(
                stdin,
                "{{\"id\":{},\"note\":\"{:0100}\"}}",
                at % keys,
                at % keys
            )
            .expect("fed");
        }
        writeln!(stdin, "{{\"id\":\"last\"}}")
            .and_then(|()| stdin.flush())
            .expect("fed");
        stdin
    });
    let passed = stdout
        .lines()
        .take_while(|line| !line.as_ref().is_ok_and(|line| line.contains("last")))
        .count();
    assert_eq!(passed, keys);
    let status =
        fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a living process");
    let peak = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    });
    drop(feeder.join());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    peak.expect("the system tells the peak")
}

fn numbered(ids: std::ops::Range<u32>) -> String {
    ids.fold(String::new(), |mut text, id| {
        let _ = writeln!(text, "{{\"id\":{id},\"note\":\"line number {id}\"}}");
        text
    })
}
