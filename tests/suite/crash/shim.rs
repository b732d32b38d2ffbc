//! The shim spoils what it is told to, records the rest, and nothing else.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use semel_tests::recording::{Call, Event, Recording};
use semel_tests::scratch::in_memory;
use semel_tests::shim::{Fault, Shim};

use super::process::{Process, victim};

fn shim(dir: &Path) -> Shim {
    Shim::new(&dir.join("root"), &dir.join("side")).expect("a shim")
}

/// A process that does one call for each line.
struct Puppet(Process);

impl Puppet {
    fn under(shim: &Shim) -> Self {
        let mut command = victim(&["puppet", shim.dir().to_str().expect("a path of text")]);
        shim.apply(&mut command);
        Self(Process::start(&mut command))
    }

    fn answer(&mut self) -> i32 {
        self.0.line().parse().expect("a number")
    }

    fn does(&mut self, line: &str) -> i32 {
        self.0.send(line);
        self.answer()
    }
}

fn count(shim: &Shim, wanted: impl Fn(&Event) -> bool) -> usize {
    let recording = shim.recording().expect("a recording");
    recording.ops.iter().filter(|op| wanted(&op.event)).count()
}

#[test]
fn faults_hit_the_named_calls_only() {
    let dir = in_memory();
    let shim = shim(dir.path()).fault(
        Fault::on(Call::Pwrite)
            .path("f")
            .after(2)
            .times(2)
            .errno(libc::EIO),
    );
    let mut puppet = Puppet::under(&shim);
    let lines = [
        "pwrite f", "pwrite g", "pwrite f", "write f", "pwrite f", "pwrite g", "pwrite f",
        "pwrite f",
    ];
    let answers = lines.map(|line| puppet.does(line));
    assert_eq!(answers, [0, 0, 0, 0, libc::EIO, 0, libc::EIO, 0]);
    let calls = [
        (Call::Write, "write f"),
        (Call::Fsync, "fsync f"),
        (Call::Fdatasync, "fdatasync f"),
        (Call::SyncFileRange, "sync_file_range f"),
        (Call::Ftruncate, "ftruncate f"),
        (Call::Open, "open f"),
        (Call::Read, "read f"),
        (Call::Pread, "pread f"),
        (Call::Rename, "rename f"),
        (Call::Unlink, "unlink f"),
        (Call::Mkdir, "mkdir f"),
        (Call::Fsync, "fsyncdir ."),
        (Call::Fallocate, "fallocate f"),
    ];
    for (call, line) in calls {
        let path = &line[line.len() - 1..];
        shim.set_faults(&[Fault::on(call).path(path).always().errno(libc::ENOSPC)])
            .expect("faults");
        assert_eq!(
            [puppet.does(line), puppet.does(line)],
            [libc::ENOSPC; 2],
            "{line}"
        );
        shim.set_faults(&[]).expect("no faults");
        if !matches!(call, Call::Mkdir | Call::Unlink | Call::Rename) {
            assert_eq!(puppet.does(line), 0, "{line}");
        }
    }
    assert_eq!(
        shim.recording().expect("a recording").faults(),
        2 + 2 * calls.len()
    );
}

#[test]
fn a_short_write_leaves_half() {
    let dir = in_memory();
    let shim = shim(dir.path()).fault(
        Fault::on(Call::Pwrite)
            .path("f")
            .short()
            .errno(libc::ENOSPC),
    );
    let mut puppet = Puppet::under(&shim);
    assert_eq!(puppet.does("pwrite f"), libc::ENOSPC);
    assert_eq!(fs::metadata(shim.dir().join("f")).expect("there").len(), 50);
    assert_eq!(puppet.does("pwrite f"), 0);
    let recording = shim.recording().expect("a recording");
    let written = |event: &Event| match event {
        Event::Write { data, .. } => Some(data.len()),
        _ => None,
    };
    let lengths: Vec<usize> = recording
        .ops
        .iter()
        .filter_map(|op| written(&op.event))
        .collect();
    assert_eq!(lengths, [50, 100]);
    // Who gets a short count without an error goes on with the rest.
    shim.set_faults(&[Fault::on(Call::Pwrite).path("f").short()])
        .expect("faults");
    assert_eq!(puppet.does("pwrite f"), 0);
}

#[test]
fn a_hang_ends_when_the_faults_change() {
    let dir = in_memory();
    let shim = shim(dir.path());
    shim.set_faults(&[Fault::on(Call::Fdatasync).path("f").hang()])
        .expect("faults");
    let mut puppet = Puppet::under(&shim);
    puppet.does("pwrite f");
    puppet.0.send("fdatasync f");
    sleep(Duration::from_millis(200));
    let ends = |event: &Event| matches!(event, Event::SyncEnd { errno: 0, .. });
    assert_eq!(
        (
            shim.recording().expect("a recording").faults(),
            count(&shim, ends)
        ),
        (1, 0)
    );
    shim.set_faults(&[]).expect("no faults");
    assert_eq!((puppet.answer(), count(&shim, ends)), (0, 1));
}

#[test]
fn ignored_syncs_leave_no_trace() {
    let dir = in_memory();
    let shim = shim(dir.path()).without_fdatasync();
    let mut puppet = Puppet::under(&shim);
    assert_eq!(
        ["pwrite f", "fdatasync f", "fsync f"].map(|line| puppet.does(line)),
        [0; 3]
    );
    assert_eq!(
        count(&shim, |event| matches!(event, Event::SyncBegin { .. })),
        1
    );
}

#[test]
fn a_forked_child_does_not_block_and_a_kill_leaves_a_readable_recording() {
    let dir = in_memory();
    let shim = shim(dir.path());
    let mut puppet = Puppet::under(&shim);
    for _ in 0..20 {
        assert_eq!(puppet.does("fork f"), 0);
    }
    puppet.0.send("storm f");
    sleep(Duration::from_millis(100));
    puppet.0.kill();
    let whole = shim.recording().expect("a recording").ops.len();
    assert!(whole > 100, "{whole}");
    let mut bytes = fs::read(dir.path().join("side/recording")).expect("read");
    for cut in [1, 30, 63, 64, 65, 70] {
        let parsed =
            Recording::parse(&bytes[..bytes.len() - cut]).expect("a recording that was cut short");
        assert!((100..=whole).contains(&parsed.ops.len()));
    }
    bytes[0] = 0;
    assert!(Recording::parse(&bytes).is_err());
}

#[test]
fn a_standard_output_can_be_the_marks() {
    let dir = in_memory();
    let shim = shim(dir.path());
    let mut command = victim(&["puppet", shim.dir().to_str().expect("a path of text")]);
    shim.apply(&mut command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(shim.marks().expect("marks"))
        .spawn()
        .expect("the puppet starts");
    let mut input = child.stdin.take().expect("a pipe was asked for");
    std::io::Write::write_all(&mut input, b"pwrite f\nfsync f\n").expect("written");
    drop(input);
    child.wait().expect("the puppet ends");
    let mark = |event: Event| match event {
        Event::Mark { bytes } => Some(bytes),
        _ => None,
    };
    let recording = shim.recording().expect("a recording");
    let marks: Vec<Vec<u8>> = recording
        .ops
        .into_iter()
        .filter_map(|op| mark(op.event))
        .collect();
    assert_eq!(marks.concat(), b"0\n0\n");
}
