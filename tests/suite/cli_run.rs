//! `semel run`: a command runs once, and repeats get its output and exit status.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use crate::cli_process::{Place, Said, say, semel};

#[test]
fn output_and_status_are_replayed_and_the_command_runs_once() {
    let scripts = [
        ("nothing", "exit 0", 0),
        ("failure", "exit 3", 3),
        ("largest", "exit 255", 255),
        ("streams", "echo out; echo err >&2; echo out2; exit 1", 1),
        ("binary", r"printf '\000\377\n\r'; printf '\001\376' >&2", 0),
        ("open lines", "printf out; printf err >&2; exit 65", 65),
        (
            "long",
            "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2",
            0,
        ),
    ];
    let place = Place::new();
    for (at, (key, script, status)) in scripts.into_iter().enumerate() {
        let script = format!("echo x >> $1; {script}");
        let first = place.run(key, &[], &script);
        assert_eq!(
            (first.status, first.last_line().as_str()),
            (status, "semel: executed"),
            "{key}: {}",
            first.err()
        );
        let again = place.run(key, &[], &script);
        assert_eq!(again.status, status, "{key}: {}", again.err());
        let last = again.last_line();
        assert!(
            last.starts_with("semel: replayed (first run 2") && last.ends_with("Z, attempt 1)"),
            "{last}"
        );
        assert!(again.stdout == first.stdout, "{key}: stdout differs");
        assert!(
            again.command_stderr() == first.command_stderr(),
            "{key}: stderr differs"
        );
        assert_eq!(place.effects(), at + 1, "{key}");
    }
}

#[test]
fn the_order_between_the_streams_is_replayed() {
    let place = Place::new();
    let script = "for i in 1 2 3; do echo out $i; sleep 0.1; echo err $i >&2; sleep 0.1; done";
    let both = |name: &str| {
        let file = fs::File::create(place.path(name)).expect("a file");
        let copy = file.try_clone().expect("a copy");
        let status = place
            .running("k", &[], script)
            .stdout(file)
            .stderr(copy)
            .status()
            .expect("semel starts");
        assert!(status.success());
        fs::read_to_string(place.path(name)).expect("text")
    };
    let lines = |text: String| text.lines().take(6).map(str::to_owned).collect::<Vec<_>>();
    let first = lines(both("first"));
    assert_eq!(
        first,
        ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]
    );
    assert_eq!(lines(both("again")), first);
}

#[test]
fn output_streams_while_the_command_runs() {
    let place = Place::new();
    let mut child = place
        .running("k", &[], "echo early; read line; echo $line")
        .stdin(Stdio::piped())
        .spawn()
        .expect("semel starts");
    let mut stdout = child.stdout.take().expect("piped");
    let mut early = [0; 6];
    stdout
        .read_exact(&mut early)
        .expect("output before the end");
    assert_eq!(&early, b"early\n");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"typed\n")
        .expect("standard input passes through");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    assert_eq!(
        (rest.as_str(), child.wait().expect("ends").code()),
        ("typed\n", Some(0))
    );
}

#[test]
fn another_command_under_the_same_key_is_a_mismatch() {
    let place = Place::new();
    place.run("k", &[], "echo x >> $1");
    let other = place.run("k", &[], "echo y >> $1");
    assert_eq!(other.status, 65);
    assert!(
        other.last_line().contains("other arguments") && other.last_line().contains("echo y"),
        "{}",
        other.err()
    );
    let store = place.store();
    let program = say(&[
        "run",
        "--store",
        &store,
        "--key",
        "k",
        "--mismatch-status",
        "10",
        "--",
        "true",
    ]);
    assert!(
        program.status == 10 && program.last_line().contains("program"),
        "{}",
        program.err()
    );
    assert_eq!(place.effects(), 1);
}

#[test]
fn output_beyond_the_cap_is_not_kept_and_its_absence_is_told() {
    let place = Place::new();
    let script = "echo x >> $1; printf 0123456789; sleep 0.3; printf abc >&2; exit 4";
    let first = place.run("k", &["--max-output", "14"], script);
    assert_eq!((first.status, first.out().as_str()), (4, "0123456789"));
    let again = place.run("k", &[], script);
    assert_eq!((again.status, again.out().as_str()), (4, "012345"));
    assert!(
        again
            .err()
            .contains("[semel: output beyond 6 bytes was not kept]"),
        "{}",
        again.err()
    );
    let all = place.run(
        "large",
        &["--max-output", "3000000"],
        "echo x >> $1; head -c 2500000 /dev/zero",
    );
    let replay = place.run("large", &[], "echo x >> $1; head -c 2500000 /dev/zero");
    assert_eq!(
        (all.stdout.len(), replay.stdout.len()),
        (2_500_000, 2_500_000),
        "{}",
        replay.err()
    );
    assert_eq!(place.effects(), 2);
}

#[test]
fn the_command_learns_its_key_and_fence() {
    let place = Place::new();
    let said = place.run(
        "k 7",
        &["--operation", "night"],
        "echo $SEMEL_OPERATION/$SEMEL_KEY/$SEMEL_ATTEMPT; test $SEMEL_FENCE -gt 0",
    );
    assert_eq!((said.status, said.out().as_str()), (0, "night/k 7/1\n"));
}

#[test]
fn arguments_that_are_no_text_are_told_apart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let store = place.store();
    let run = |bytes: &[u8]| {
        let mut command = semel(&["run", "--store", &store, "--key", "k", "--", "printf", "%s"]);
        Said::of(
            command
                .arg(OsStr::from_bytes(bytes))
                .output()
                .expect("semel starts"),
        )
    };
    assert_eq!(run(b"\xffa").stdout, b"\xffa");
    let again = run(b"\xffa");
    assert_eq!(
        (again.status, &again.stdout[..]),
        (0, &b"\xffa"[..]),
        "{}",
        again.err()
    );
    assert_eq!(run(b"\xfea").status, 65);
    assert_eq!(
        run("\u{fffd}a".as_bytes()).status,
        65,
        "a lossy spelling is another argument"
    );
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_touched() {
    let place = Place::new();
    let (store, effects) = (place.store(), place.path("effects"));
    let long = "x".repeat(300);
    let cases: &[(&[&str], &str)] = &[
        (&["--key", ""], "--key is blank"),
        (&["--key", "a\nb"], "control character"),
        (&["--key", &long], "at most 255"),
        (&["--key", "k", "--scope", " "], "scope is blank"),
        (&["--key", "k", "--operation", ""], "operation is blank"),
        (&["--key", "k", "--lease", "0s"], "or `never`"),
        (&["--key", "k", "--lease", "30"], "has no unit"),
        (&["--key", "k", "--lease=-1s"], "no sign"),
        (&["--key", "k", "--wait", "-1s"], "no sign"),
        (
            &["--key", "k", "--remember", "forever"],
            "only what is kept `forever`",
        ),
        (
            &["--key", "k", "--lease", "never", "--in-doubt", "rerun"],
            "hold",
        ),
        (&["--key", "k", "--in-doubt", "perhaps"], "perhaps"),
        (&["--key", "k", "--max-attempts", "0"], "0"),
        (&["--key", "k", "--retry-on", "0"], "0"),
        (&["--key", "k", "--retry-on", "256"], "256"),
        (&[], "--key"),
    ];
    for (options, fault) in cases {
        let args = [
            &["run", "--store", &store],
            *options,
            &["--", "touch", &effects],
        ]
        .concat();
        let said = say(&args);
        assert!(
            said.status == 64 && said.err().contains(fault),
            "{options:?}: status {}: {}",
            said.status,
            said.err()
        );
        assert!(!Path::new(&effects).exists(), "{options:?}");
    }
    assert_eq!(
        say(&["run", "--store", &store, "--key", "k"]).status,
        64,
        "no command"
    );
    assert_eq!(
        say(&["run", "--store", "memory:", "--key", "k", "--", "true"]).status,
        64,
        "it would remember nothing"
    );
    assert_eq!(
        say(&["run", "--store", "ftp://x", "--key", "k", "--", "true"]).status,
        64,
        "no such scheme"
    );
    assert_eq!(say(&[]).status, 64);
    assert_eq!(say(&["--help"]).status, 0);
}

#[test]
fn a_key_that_is_no_text_is_a_usage_error_that_names_it() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let store = place.store();
    let mut command = semel(&["run", "--store", &store, "--key"]);
    command
        .arg(std::ffi::OsStr::from_bytes(b"\xff"))
        .args(["--", "true"]);
    let said = Said::of(command.output().expect("semel starts"));
    assert!(
        said.status == 64 && said.err().contains("--key") && said.err().contains("UTF-8"),
        "{}",
        said.err()
    );
}
