//! The subcommands that look after a store.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use semel::{Clock, Request, Store};
use semel_tests::image::Tree;
use serde_json::Value as Json;

use crate::cli_process::{Place, Said, say, semel};

/// A store with one record in each state that a command can leave behind.
pub(crate) fn furnished() -> Place {
    let place = Place::new();
    let store = place.store();
    let run = |options: &[&str], command: &[&str]| {
        say(&[&["run", "--store", &store], options, &["--"], command].concat())
    };
    run(&["--key", "done"], &["echo", "hello"]);
    run(
        &[
            "--key",
            "released",
            "--operation",
            "night",
            "--retry-on",
            "1",
        ],
        &["false"],
    );
    run(
        &["--key", "doubtful", "--scope", "tenant-7"],
        &["sh", "-c", "kill -9 $$"],
    );
    place
}

pub(crate) fn json(text: &str) -> Vec<Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect()
}

#[test]
fn records_are_listed_for_people_and_for_programs() {
    let place = furnished();
    let store = place.store();
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["done", "doubtful", "released"]),
        (&["--operation", "run"], &["done", "doubtful"]),
        (&["--scope", "tenant-7"], &["doubtful"]),
        (&["--state", "released"], &["released"]),
        (&["--state", "in_doubt"], &["doubtful"]),
        (&["--state", "failed"], &[]),
        (&["--operation", "no"], &[]),
    ];
    for (options, keys) in cases {
        let listed = json(&say(&[&["list", "--store", &store, "--json"], *options].concat()).out());
        let mut seen: Vec<&str> = listed
            .iter()
            .filter_map(|record| record["id"].as_str())
            .collect();
        seen.sort_unstable();
        assert_eq!(&seen, keys, "{options:?}");
        let table = say(&[&["list", "--store", &store], *options].concat());
        let lines = if keys.is_empty() { 0 } else { keys.len() + 1 };
        assert_eq!(
            (table.status, table.out().lines().count()),
            (0, lines),
            "{options:?}: {}",
            table.out()
        );
    }
    assert_eq!(
        json(&say(&["list", "--store", &store, "--json", "--limit", "2"]).out()).len(),
        2
    );
    assert_eq!(
        say(&["list", "--store", &store, "--state", "perhaps"]).status,
        64
    );
}

#[test]
fn one_record_is_shown_with_its_result() {
    let place = furnished();
    let store = place.store();
    let record = &json(&say(&["lookup", "--store", &store, "--key", "done", "--json"]).out())[0];
    assert_eq!(
        (record["state"].as_str(), record["attempt"].as_i64()),
        (Some("succeeded"), Some(1))
    );
    assert_eq!(record["value"]["run"]["status"].as_i64(), Some(0));
    assert_eq!(record["value"]["run"]["stdout_bytes"].as_i64(), Some(6));
    let moment = record["first_executed"].as_str().expect("a time");
    assert!(
        moment.starts_with('2') && moment.find('T') == Some(10) && moment.ends_with('Z'),
        "{moment}"
    );
    let shown = say(&["lookup", "--store", &store, "--key", "done"]).out();
    assert!(
        shown.contains("status 0, 6 bytes of stdout, 0 of stderr"),
        "{shown}"
    );
    let absent = say(&["lookup", "--store", &store, "--key", "doubtful"]);
    assert!(
        absent.status == 1 && absent.err().contains("absent"),
        "another scope is another record: {}",
        absent.err()
    );
    assert_eq!(
        say(&[
            "lookup", "--store", &store, "--key", "doubtful", "--scope", "tenant-7"
        ])
        .status,
        0
    );
}

#[test]
fn a_forgotten_key_runs_again_and_forgetting_twice_is_no_failure() {
    let place = furnished();
    let store = place.store();
    for answer in ["forgotten", "absent"] {
        let said = say(&["forget", "--store", &store, "--key", "done", "--json"]);
        assert_eq!(
            (said.status, json(&said.out())[0]["answer"].as_str()),
            (0, Some(answer)),
            "{}",
            said.err()
        );
    }
    assert_eq!(
        say(&[
            "run", "--store", &store, "--key", "done", "--", "echo", "other"
        ])
        .out(),
        "other\n"
    );
}

#[test]
fn what_has_expired_is_swept() {
    let place = Place::new();
    let store = place.store();
    say(&[
        "run", "--store", &store, "--key", "k", "--retain", "1ms", "--", "true",
    ]);
    let swept = say(&["sweep", "--store", &store, "--json"]);
    assert!(
        swept.status == 0 && json(&swept.out())[0]["swept"].is_u64(),
        "{}",
        swept.err()
    );
    let left = say(&["list", "--store", &store, "--json"]);
    assert_eq!(left.out(), "");
}

#[test]
fn a_backup_becomes_a_store_that_replays() {
    let place = furnished();
    let (store, file, copy) = (place.store(), place.path("backup"), place.path("copy"));
    let backup = say(&["backup", "--store", &store, "--to", &file, "--json"]);
    assert!(
        json(&backup.out())[0]["bytes"].as_u64() > Some(0),
        "{}",
        backup.err()
    );
    let restored = say(&["restore", "--store", &copy, "--from", &file]);
    assert!(
        restored.status == 0 && restored.err().contains("after the backup"),
        "{}",
        restored.err()
    );
    let replayed = say(&[
        "run", "--store", &copy, "--key", "done", "--", "echo", "hello",
    ]);
    assert!(
        replayed.out() == "hello\n" && replayed.last_line().starts_with("semel: replayed"),
        "{}",
        replayed.err()
    );
    let verified = say(&["verify", "--store", &copy, "--json"]);
    assert_eq!(
        (verified.status, json(&verified.out())[0]["sound"].as_bool()),
        (0, Some(true)),
        "{}",
        verified.err()
    );
    assert_ne!(
        say(&["restore", "--store", &copy, "--from", &file]).status,
        0,
        "a store is never overwritten"
    );
    fs::write(place.path("no backup"), "nonsense").expect("written");
    assert_ne!(
        say(&[
            "restore",
            "--store",
            &place.path("other"),
            "--from",
            &place.path("no backup")
        ])
        .status,
        0
    );
}

/// What is refused is told with the command that accepts it, and is accepted once for all.
fn accepted_by(flag: &str, store: &str) {
    let refused = say(&["stats", "--store", store]);
    assert!(
        refused.status == 69 && refused.err().contains(&format!("semel verify {flag}")),
        "{}: {}",
        refused.status,
        refused.err()
    );
    let accepted = say(&["verify", flag, "--store", store]);
    assert_eq!(accepted.status, 0, "{}", accepted.err());
    let stats = say(&["stats", "--store", store]);
    assert_eq!(stats.status, 0, "{}", stats.err());
}

#[test]
fn a_log_that_was_cut_back_is_accepted_by_name() {
    let place = Place::new();
    let store = place.store();
    let log = Path::new(&store).join("log");
    let run = |key| say(&["run", "--store", &store, "--key", key, "--", "echo", key]);
    run("early");
    let before = Tree::read(&log).expect("read");
    run("late");
    fs::remove_dir_all(&log).expect("removed");
    before.write(&log).expect("written");
    accepted_by("--accept-rollback", &store);
    let executed = |said: Said| said.last_line() == "semel: executed";
    assert!(!executed(run("early")) && executed(run("late")));
}

#[test]
fn a_clock_that_is_far_ahead_is_accepted_by_name() {
    let place = Place::new();
    let store = place.store();
    let now = fs::metadata(place.path(".")).and_then(|it| it.modified());
    let now = now
        .expect("a time")
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let long_ago = now - Duration::from_secs(400 * 24 * 3600);
    let made = Store::builder(&store)
        .clock(Clock::manual(long_ago))
        .open()
        .expect("opens");
    made.run(&Request::new("run", "k"), |_| Ok::<_, std::io::Error>(1))
        .expect("runs");
    made.close().expect("closes");
    accepted_by("--accept-clock", &store);
}

#[test]
fn a_store_that_is_not_there_is_refused_and_not_made() {
    let place = Place::new();
    let (absent, file) = (place.path("typo"), place.path("file"));
    fs::write(&file, "no store").expect("written");
    fs::create_dir(place.path("empty")).expect("made");
    let commands: &[&[&str]] = &[
        &["list"],
        &["lookup", "--key", "k"],
        &["unresolved"],
        &["resolve", "--key", "k", "--rerun"],
        &["stats"],
        &["sweep"],
        &["forget", "--key", "k"],
        &["verify"],
        &["backup", "--to", "/dev/null"],
    ];
    for command in commands {
        for store in [&absent, &file, &place.path("empty")] {
            let said = say(&[*command, &["--store", store]].concat());
            assert!(
                said.status == 69 && said.err().contains("no store at"),
                "{command:?} {store}: {}",
                said.err()
            );
        }
        assert_eq!(
            say(&[*command, &["--store", "memory:"]].concat()).status,
            64,
            "{command:?}"
        );
    }
    assert!(!Path::new(&absent).exists());
    assert_eq!(
        fs::read_dir(place.path("empty")).expect("readable").count(),
        0
    );
}

#[test]
fn a_reader_of_a_list_may_go_away() {
    let place = furnished();
    let store = place.store();
    let mut child = semel(&["list", "--store", &store])
        .stderr(Stdio::piped())
        .spawn()
        .expect("semel starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
