//! The table of faults that other systems have shipped: every test that it names is there, and is run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// How many faults the table lists at least: none is taken off it.
const FAULTS: usize = 49;

/// A test as it stands in a source.
struct Found {
    name: String,
    ignored: bool,
}

/// Every test below a folder, by the path that the test runner shows, after this prefix.
fn tests_of(folder: &str, prefix: &str) -> Vec<Found> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let mut found = Vec::new();
    gather(
        &root,
        &mut prefix.split("::").map(str::to_owned).collect(),
        &mut found,
    );
    assert!(!found.is_empty(), "{folder} has no tests");
    found
}

fn gather(folder: &Path, path: &mut Vec<String>, found: &mut Vec<Found>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("an entry").path();
        let name = entry.file_stem().expect("a name").to_string_lossy();
        let is_root = matches!(&*name, "main" | "lib" | "mod");
        if !is_root {
            path.push(name.clone().into_owned());
        }
        if entry.is_dir() {
            gather(&entry, path, found);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&entry).expect("readable");
            found.extend(tests_in(&text, &path.join("::")));
        }
        if !is_root {
            path.pop();
        }
    }
}

fn tests_in(text: &str, module: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let (mut inner, mut is_test, mut ignored) = ("", false, false);
    for line in text.lines() {
        if line == "mod tests {" {
            inner = "tests::";
        }
        let line = line.trim();
        if line == "#[test]" {
            (is_test, ignored) = (true, false);
        } else if is_test && line.starts_with("#[") {
            ignored |= line.starts_with("#[ignore") || line.starts_with("#[cfg");
        } else if is_test && let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split('(').next().unwrap_or_default();
            found.push(Found {
                name: format!("{module}::{inner}{name}"),
                ignored,
            });
            is_test = false;
        }
    }
    found
}

/// The rows of the tables: the fault, and the tests that hold it.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    let (held, _) = page.split_once("## For parts").expect("a heading");
    held.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .filter(|line| !line.starts_with("fault ") && !line.starts_with("--"))
        .map(|line| {
            let (fault, tests) = line.split_once(" | ").expect("two columns");
            let named = tests.split('`').skip(1).step_by(2).collect();
            (fault, named)
        })
        .collect()
}

#[test]
fn every_fault_of_the_table_is_held_by_tests_that_run() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("CASES.md");
    let page = fs::read_to_string(path).expect("the table");
    let mut tests = tests_of("tests/suite", "suite");
    tests.extend(tests_of("core/src", "semel"));
    let mut wrong = Vec::new();
    let mut faults = BTreeSet::new();
    for (fault, named) in rows(&page) {
        if !faults.insert(fault) {
            wrong.push(format!("{fault:?} is listed twice"));
        }
        if named.is_empty() {
            wrong.push(format!("no test holds {fault:?}"));
        }
        for name in named {
            match tests.iter().find(|test| test.name == name) {
                None => wrong.push(format!("{name} is not there")),
                Some(test) if test.ignored => wrong.push(format!("{name} is not always run")),
                Some(_) => {}
            }
        }
    }
    let (_, later) = page.split_once("## For parts").expect("a heading");
    let later = later.lines().filter(|line| line.starts_with("| ")).skip(1);
    let listed = faults.len() + later.filter(|line| !line.starts_with("| --")).count();
    if listed < FAULTS {
        wrong.push(format!("{listed} faults are listed, and were {FAULTS}"));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_test_is_found_and_one_that_is_ignored_is_noticed() {
    let text = "#[test]\nfn one() {}\n\n#[test]\n#[ignore = \"slow\"]\nfn two() {}\nfn three() {}\n#[cfg(test)]\nmod tests {\n    proptest! {\n        #[test]\n        fn four(a in 0..1) {}\n    }\n}\n";
    let found: Vec<(String, bool)> = tests_in(text, "semel::a")
        .into_iter()
        .map(|test| (test.name, test.ignored))
        .collect();
    let expected = [
        ("semel::a::one", false),
        ("semel::a::two", true),
        ("semel::a::tests::four", false),
    ];
    assert_eq!(
        found,
        expected.map(|(name, ignored)| (name.to_owned(), ignored))
    );
}
