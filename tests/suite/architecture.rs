//! The shape of the engine: imports go one way, and each rule lives in one place. ARCHITECTURE.md says why.

mod source;

use std::collections::BTreeMap;

use self::source::Source;

/// The rooms of the engine, from the ground up: a module uses what stands before its own room. Inside one room modules may
/// use each other where the room is one thing in several files (`Ring`), and not where it is a shelf (`Shelf`).
const ROOMS: &[(Inside, &[&str])] = &[
    (Shelf, &["sync"]),
    (Shelf, &["error", "time", "moment", "histogram"]),
    (Shelf, &["fork", "key", "canonical", "value"]),
    (Shelf, &["nonce", "timer", "fingerprint", "work"]),
    (Shelf, &["record", "json"]),
    (Shelf, &["lifecycle"]),
    (Shelf, &["codec"]),
    (Shelf, &["stats", "info", "caller", "lanes", "reserve"]),
    (Shelf, &["archive", "metrics", "backend"]),
    (Shelf, &["backend/local"]),
    (Shelf, &["backend/attached", "backend/alone"]),
    (Shelf, &["request"]),
    (Shelf, &["duration"]),
    (
        Ring,
        &[
            "engine",
            "store",
            "builder",
            "claiming",
            "glance",
            "message",
            "answer",
            "answering",
            "ticket",
            "step",
            "run",
            "watchdog",
        ],
    ),
    (Shelf, &["tx"]),
    (Shelf, &["transaction", "batch", "attribute"]),
    (Shelf, &["ids", "scheme"]),
    (Shelf, &["http", "binding"]),
    (Shelf, &["cli"]),
];

/// Whether modules of one room may use each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Ring,
    Shelf,
}
use Inside::{Ring, Shelf};

/// The longest file, in lines, tests included.
const MAX_LINES: usize = 500;
/// Files that are longer, and the length they may not exceed: to be cut, and not to grow.
const TOO_LONG: &[(&str, usize)] = &[];
/// Where the code gives up on what cannot happen: the file, the words, and how often.
const GIVES_UP: &[(&str, &str, usize)] = &[("sync.rs", "unreachable!(", 2)];

fn room(module: &str) -> Option<usize> {
    ROOMS
        .iter()
        .position(|(_, modules)| modules.contains(&module))
}

/// The module that a file or a path belongs to: its first name, or the two first names below `backend`.
fn module(path: &[&str]) -> String {
    match path {
        ["backend", part @ ("local" | "attached" | "alone"), ..] => format!("backend/{part}"),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    }
}

fn all_of(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn imports_go_one_way() {
    let source = Source::of("core/src");
    let exports = exports(&source);
    let mut found = Vec::new();
    for file in &source.files {
        let from = module(&file.module());
        if matches!(from.as_str(), "" | "bin") {
            continue;
        }
        let Some(own) = room(&from) else {
            found.push(format!("{}: the module {from} has no room", file.path));
            continue;
        };
        for (line, path) in file.uses() {
            // What is named at the root is re-exported there.
            let to = match path.as_slice() {
                [name, ..] if name.starts_with(char::is_uppercase) || !source.has(name) => {
                    exports.get(*name).cloned().unwrap_or_default()
                }
                path => module(path),
            };
            if to == from {
                continue;
            }
            let allowed = match room(&to) {
                Some(room) if room == own => ROOMS[own].0 == Ring,
                Some(room) => room < own,
                None => false,
            };
            if !allowed {
                found.push(format!(
                    "{}:{line}: {from} may not use {to} ({})",
                    file.path,
                    path.join("::")
                ));
            }
        }
    }
    all_of(found);
}

/// What lib.rs re-exports, and from where.
fn exports(source: &Source) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for (from, names) in source.file("lib.rs").exports() {
        for name in names {
            exports.insert(name, from.clone());
        }
    }
    exports
}

/// Words that may stand in some files only, and why.
const PLACES: &[(&[&str], &[&str], &str)] = &[
    (
        &[
            "SystemTime",
            "Instant::now",
            "std::time::Instant",
            "clock_gettime",
        ],
        &["time.rs"],
        "the clock is read in one place, so that a test can own it",
    ),
    (
        &["sled::"],
        &["backend/local/disk.rs"],
        "all there is of sled is in one file",
    ),
    (
        &["bincode::"],
        &["codec.rs", "codec/frame.rs"],
        "one file knows the bytes of a record, and one those of a message",
    ),
    (
        &["getrandom::"],
        &["backend/local/directory.rs", "nonce.rs"],
        "secrets and nonces are made in two places",
    ),
    (
        &["ciborium::"],
        &["value.rs", "cli/cbor.rs"],
        "values are encoded in one place, and shown in one",
    ),
    (
        &["unsafe "],
        &[
            "backend/local/disk.rs",
            "backend/local/index.rs",
            "backend/local/memory.rs",
            "backend/local/slot.rs",
            "cli/hold.rs",
            "cli/output.rs",
            "cli/run/child.rs",
            "cli/run/signals.rs",
            "fork.rs",
            "fork/heir.rs",
            "time.rs",
        ],
        "unsafe code is where the system is called, where dashmap's table is read, where a slot is one word, where a forked child keeps sled's handle, and nowhere else",
    ),
];

#[test]
fn each_thing_is_known_in_one_place() {
    let source = Source::of("core/src");
    let mut found = Vec::new();
    for file in &source.files {
        for (words, places, why) in PLACES {
            if places.contains(&file.path.as_str()) {
                continue;
            }
            for (line, text) in file.code() {
                if words.iter().any(|word| text.contains(word)) {
                    found.push(format!("{}:{line}: {text}\n    {why}", file.path));
                }
            }
        }
    }
    all_of(found);
}

#[test]
fn a_rule_sees_no_backend_and_does_nothing_but_decide() {
    let source = Source::of("core/src");
    let rules = source
        .files
        .iter()
        .filter(|file| file.module().first() == Some(&"lifecycle"));
    for (file, (line, text)) in rules.flat_map(|file| file.code().map(move |code| (file, code))) {
        for word in [
            "backend",
            "std::fs",
            "std::io",
            "std::thread",
            "async ",
            "Mutex",
            "random",
        ] {
            assert!(!text.contains(word), "{}:{line}: {text}", file.path);
        }
    }
    let judges: Vec<&str> = source
        .files
        .iter()
        .filter(|file| {
            file.code()
                .any(|(_, text)| text.contains("lifecycle::{") && text.contains(" decide}"))
                || file
                    .code()
                    .any(|(_, text)| text.contains("lifecycle::decide"))
        })
        .map(|file| file.path.as_str())
        .collect();
    // One key at a time in the backend, and a claim that looks for twins, which is a load and a commit.
    assert_eq!(judges, ["backend/local/updates.rs", "claiming.rs", "tx.rs"]);
}

#[test]
fn nothing_gives_up_where_an_error_could_be_told() {
    let source = Source::of("core/src");
    let mut counts: BTreeMap<(String, &str), Vec<usize>> = BTreeMap::new();
    for file in &source.files {
        for (line, text) in file.code() {
            for word in [
                ".unwrap()",
                ".expect(",
                "panic!(",
                "unreachable!(",
                "todo!(",
                "unimplemented!(",
            ] {
                if text.contains(word) {
                    counts
                        .entry((file.path.clone(), word))
                        .or_default()
                        .push(line);
                }
            }
        }
    }
    let found = counts.iter().filter(|((path, word), lines)| {
        !GIVES_UP
            .iter()
            .any(|(file, words, times)| file == path && words == word && lines.len() <= *times)
    });
    all_of(
        found
            .map(|((path, word), lines)| format!("{path}: {word} in the lines {lines:?}"))
            .collect(),
    );
    for (path, word, _) in GIVES_UP {
        assert!(
            counts.contains_key(&((*path).to_owned(), *word)),
            "{path} has no {word} any more: take it off the list"
        );
    }
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut found = Vec::new();
    for root in ["core/src", "tests/src", "tests/suite", "benches/src"] {
        for file in &Source::of(root).files {
            let lines = file.lines();
            let known = TOO_LONG
                .iter()
                .find(|(path, _)| root == "core/src" && *path == file.path);
            if lines > known.map_or(MAX_LINES, |(_, most)| *most) {
                found.push(format!("{root}/{}: {lines} lines", file.path));
            }
            if !file.begins_with_purpose() {
                found.push(format!(
                    "{root}/{}: does not begin with a line of //!",
                    file.path
                ));
            }
        }
    }
    all_of(found);
}

#[test]
fn the_front_doors_hold_no_logic() {
    let source = Source::of("core/src");
    for path in ["lib.rs", "cli/mod.rs", "canonical/mod.rs"] {
        for (line, text) in source.file(path).code() {
            assert!(
                !text.contains("fn ") && !text.contains("impl "),
                "{path}:{line}: {text}"
            );
        }
    }
}
