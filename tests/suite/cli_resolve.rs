//! `semel resolve` and `semel unresolved`: how a doubt ends.

use crate::cli_admin::{furnished, json};
use crate::cli_process::say;

#[test]
fn a_doubt_is_resolved_in_each_way() {
    let ways: &[(&[&str], &str, i32, &str)] = &[
        (
            &["--value", "{\"a\":[1,0.5,null]}"],
            "succeeded",
            0,
            "{\"a\":[1,0.5,null]}\n",
        ),
        (&["--value", "-1"], "succeeded", 0, "-1\n"),
        (&["--value-bytes", "1"], "succeeded", 0, "1"),
        (&["--executed"], "gone", 76, ""),
        (
            &["--error", "declined", "--message", "no money"],
            "failed",
            1,
            "",
        ),
        (&["--rerun"], "released", 137, ""),
    ];
    for (way, state, status, stdout) in ways {
        let place = furnished();
        let store = place.store();
        let which = [
            "--store", &store, "--key", "doubtful", "--scope", "tenant-7",
        ];
        let resolved = say(&[&["resolve"], &which[..], *way].concat());
        assert_eq!(resolved.status, 0, "{way:?}: {}", resolved.err());
        let record = &json(&say(&[&["lookup", "--json"], &which[..]].concat()).out())[0];
        assert_eq!(record["state"].as_str(), Some(*state), "{way:?}");
        let again = say(&[&["run"], &which[..], &["--", "sh", "-c", "kill -9 $$"]].concat());
        assert_eq!(
            (again.status, again.out().as_str()),
            (*status, *stdout),
            "{way:?}: {}",
            again.err()
        );
    }
}

#[test]
fn what_is_not_in_doubt_is_not_resolved() {
    let place = furnished();
    let store = place.store();
    let done = say(&["resolve", "--store", &store, "--key", "done", "--rerun"]);
    assert!(
        done.status == 1 && done.err().contains("not in doubt") && done.err().contains("succeeded"),
        "{}",
        done.err()
    );
    let absent = say(&["resolve", "--store", &store, "--key", "none", "--rerun"]);
    assert!(
        absent.status == 1 && absent.err().contains("absent"),
        "{}",
        absent.err()
    );
    let usage: &[&[&str]] = &[
        &[],
        &["--rerun", "--executed"],
        &["--error", "x"],
        &["--message", "x"],
        &["--rerun", "--message", "x"],
        &["--value", "{"],
        &["--value", "1e999"],
    ];
    for options in usage {
        let said = say(&[&["resolve", "--store", &store, "--key", "done"], *options].concat());
        assert_eq!(said.status, 64, "{options:?}: {}", said.err());
    }
}

#[test]
fn with_a_fence_the_doubt_that_was_looked_into_is_resolved_and_no_other() {
    let place = furnished();
    let store = place.store();
    let which = [
        "--store", &store, "--key", "doubtful", "--scope", "tenant-7",
    ];
    let fence = json(&say(&[&["lookup", "--json"], &which[..]].concat()).out())[0]["fence"]
        .as_i64()
        .expect("a fence");
    let resolve = |fence: i64| {
        let fence = fence.to_string();
        say(&[&["resolve", "--executed", "--fence", &fence], &which[..]].concat())
    };
    let other = resolve(fence - 1);
    assert_eq!(other.status, 1);
    assert!(
        other.err().contains("not that attempt") && other.err().contains(&fence.to_string()),
        "{}",
        other.err()
    );
    assert_eq!(resolve(fence).status, 0);
}

#[test]
fn the_command_that_is_shown_resolves_a_key_that_looks_like_an_option() {
    let place = furnished();
    let store = place.store();
    let key = ["--store", &store, "--key=-x", "--scope=--rerun"];
    let run = [&["run"], &key[..], &["--", "sh", "-c", "kill -9 $$"]].concat();
    say(&run);
    let shown = say(&run).err();
    let (_, command) = shown.split_once("semel resolve ").expect("a command");
    let (options, _) = command.split_once(" (--value").expect("its choice");
    let words = ["resolve"].into_iter().chain(options.split(' '));
    let resolved = say(&words.chain(["--executed"]).collect::<Vec<_>>());
    assert_eq!(resolved.status, 0, "{options}: {}", resolved.err());
}

#[test]
fn the_unresolved_are_listed_and_counted() {
    let place = furnished();
    let store = place.store();
    let listed = json(&say(&["unresolved", "--store", &store, "--json"]).out());
    assert_eq!(listed.len(), 1);
    assert!(
        listed[0]["doubt"]["why"]
            .as_str()
            .is_some_and(|why| why.contains("signal 9")),
        "{}",
        listed[0]
    );
    let command = format!(
        "\nsemel resolve --store {store} --operation run --key doubtful --scope tenant-7 --fence {} (--value JSON",
        listed[0]["fence"]
    );
    let shown = say(&["unresolved", "--store", &store]).out();
    assert!(shown.contains(&command), "{shown}");
    let stats = &json(&say(&["stats", "--store", &store, "--json"]).out())[0];
    assert_eq!(
        (stats["records"].as_i64(), stats["unresolved"].as_i64()),
        (Some(3), Some(1))
    );
    assert!(stats["oldest_unresolved"].is_string());
    assert_eq!(say(&["stats", "--store", &store]).status, 0);
    assert!(
        say(&["stats", "--store", &store, "--prometheus"])
            .out()
            .contains("semel_")
    );
}
