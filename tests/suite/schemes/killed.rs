//! Killed at any moment: no id is given out twice, and what was told was kept.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::cli_process::{Place, semel};

/// Starts `semel id` without end, kills it after so many ids, and gives those that came out whole.
fn ids_until_killed(args: &[&str], after: usize) -> Vec<String> {
    let mut child = semel(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("semel starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut ids: Vec<String> = lines
        .by_ref()
        .take(after)
        .map(|line| line.expect("text"))
        .collect();
    child.kill().expect("SIGKILL");
    child.wait().expect("ended");
    // What the pipe still holds was given out, too; the last line may be cut.
    let mut rest: Vec<String> = lines.map_while(Result::ok).collect();
    rest.pop();
    ids.append(&mut rest);
    ids
}

#[test]
fn a_process_that_is_killed_gives_out_no_id_that_another_gives_out_after_it() {
    let place = Place::new();
    let store = place.store();
    for kind in [&["snowflake"][..], &["segment", "orders"][..]] {
        let mut seen = HashSet::new();
        for after in [1, 10, 999, 1000, 1001, 3000] {
            let mut args = vec!["id"];
            args.extend(kind);
            args.extend(["--store", &store, "--count", "1000000000"]);
            for id in ids_until_killed(&args, after) {
                let number: u64 = id.parse().expect("a number");
                assert!(seen.insert(number), "{kind:?} {number} came twice");
            }
        }
    }
}
