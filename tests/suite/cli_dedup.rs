//! `semel dedup`: the first line of each key passes, byte for byte; its repeats do not.

use std::io::Write;
use std::process::{Child, Stdio};
use std::thread;

use crate::cli_process::{Place, Said, semel};

pub(crate) fn dedup(place: &Place, options: &[&str], input: &[u8]) -> Said {
    let mut child = begin(place, options);
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // A run that stops early closes its input, which is no failure of the one who feeds it.
    let feeder = thread::spawn(move || stdin.write_all(&input));
    let said = Said::of(child.wait_with_output().expect("ends"));
    let _ = feeder.join();
    said
}

pub(crate) fn begin(place: &Place, options: &[&str]) -> Child {
    let store = place.store();
    let args = [&["dedup", "--store", &store], options].concat();
    semel(&args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("semel starts")
}

#[test]
fn first_lines_pass_byte_for_byte_and_repeats_do_not() {
    let cases: &[(&str, &[&str], &str, &str)] = &[
        (
            "plain",
            &["--key", ".id"],
            "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n",
            "{\"id\":1}\n{\"id\":2}\n",
        ),
        (
            "as it came",
            &["--key", ".id"],
            " {\"id\" : \"\\u0061\"}\r\n\r\n\n{\"id\":\"a\"}",
            " {\"id\" : \"\\u0061\"}\r\n",
        ),
        (
            "no last end",
            &["--key", ".id"],
            "{\"id\":1}\n{\"id\":2}",
            "{\"id\":1}\n{\"id\":2}",
        ),
        (
            "numbers",
            &["--key", ".id"],
            "{\"id\":1,\"a\":10}\n{\"a\":1e1,\"id\":1.0}\n{\"id\":1e0,\"a\":10.00}\n",
            "{\"id\":1,\"a\":10}\n",
        ),
        (
            "exact",
            &["--key", ".id"],
            "{\"id\":9007199254740993}\n{\"id\":9007199254740992}\n",
            "{\"id\":9007199254740993}\n{\"id\":9007199254740992}\n",
        ),
        (
            "text and number",
            &["--key", ".id"],
            "{\"id\":\"1\"}\n{\"id\":1}\n{\"id\":\"1\"}\n",
            "{\"id\":\"1\"}\n{\"id\":1}\n",
        ),
        (
            "deep",
            &["--key", ".a[1].\"odd name\""],
            "{\"a\":[0,{\"odd name\":7}]}\n{\"a\":[0,{\"odd name\":7}]}\n",
            "{\"a\":[0,{\"odd name\":7}]}\n",
        ),
        (
            "whole",
            &["--key", "."],
            "\"a\"\n5\n\"a\"\n5.0\n",
            "\"a\"\n5\n",
        ),
        (
            "part",
            &["--key", ".id", "--payload", ".body"],
            "{\"id\":1,\"body\":[1],\"t\":1}\n{\"id\":1,\"body\":[1.0],\"t\":2}\n",
            "{\"id\":1,\"body\":[1],\"t\":1}\n",
        ),
        (
            "key alone",
            &["--key", ".id", "--no-payload"],
            "{\"id\":1,\"t\":1}\n{\"id\":1,\"t\":2}\n",
            "{\"id\":1,\"t\":1}\n",
        ),
        ("nothing", &["--key", ".id"], "", ""),
    ];
    let place = Place::new();
    for (name, options, input, output) in cases {
        let options = [*options, &["--operation", name]].concat();
        let said = dedup(&place, &options, input.as_bytes());
        assert_eq!(
            (said.status, said.out().as_str()),
            (0, *output),
            "{name}: {}",
            said.err()
        );
        let again = dedup(&place, &options, input.as_bytes());
        assert_eq!(
            (again.status, again.out().as_str()),
            (0, ""),
            "{name}, in a later run: {}",
            again.err()
        );
    }
}

#[test]
fn a_repeat_with_another_payload_is_left_out_named_and_counted() {
    let place = Place::new();
    let input = "{\"id\":\"A\",\"amount\":1}\n{\"id\":\"A\",\"amount\":2}\n{\"id\":\"B\"}\n{\"id\":\"A\",\"amount\":1.0}\n";
    for later in [false, true] {
        let said = dedup(&place, &["--key", ".id"], input.as_bytes());
        assert_eq!(said.status, 65, "{}", said.err());
        let expect = if later {
            ""
        } else {
            "{\"id\":\"A\",\"amount\":1}\n{\"id\":\"B\"}\n"
        };
        assert_eq!(said.out(), expect);
        let named = "line 2: key \"A\" was first seen with another payload (other amount)";
        assert!(said.err().contains(named), "{}", said.err());
        let counts = if later {
            "4 lines: 0 first, 3 repeats, 1 mismatches, 0 in doubt, 0 skipped"
        } else {
            "4 lines: 2 first, 1 repeats, 1 mismatches, 0 in doubt, 0 skipped"
        };
        assert!(
            said.err().contains(counts) && said.err().contains("per second"),
            "{}",
            said.err()
        );
    }
}

#[test]
fn a_broken_line_is_named_by_its_number_and_stops_or_is_skipped() {
    let long = format!("{{\"id\":\"{}\"}}", "x".repeat(300));
    let deep = format!(
        "{{\"id\":3,\"d\":{}{}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let over_long = format!("{{\"id\":3,\"d\":\"{}\"}}", "x".repeat(16 * 1024 * 1024));
    let faults: &[(&[u8], &str)] = &[
        (b"{\"id\":3", "no JSON"),
        (b"{\"id\":3}}", "no JSON"),
        (b"nonsense", "no JSON"),
        (b"{\"id\":\"\xff\"}", "not UTF-8"),
        (b"{\"ID\":3}", "there is no .id"),
        (b"[3]", "there is no .id"),
        (b"{\"id\":null}", "key .id is null"),
        (b"{\"id\":true}", "key .id is a truth value"),
        (b"{\"id\":{\"id\":3}}", "key .id is an object"),
        (b"{\"id\":[3]}", "key .id is an array"),
        (b"{\"id\":\"\"}", "key .id is blank"),
        (b"{\"id\":\"a\\nb\"}", "control character"),
        (b"{\"id\":\"\\ud800\"}", ""),
        (b"{\"id\":3,\"id\":3}", "twice"),
        (b"{\"id\":3,\"x\":{\"a\":1,\"a\":1}}", ""),
        (b"{\"id\":1e999999999}", ""),
        (b"{\"id\":NaN}", "no JSON"),
        (long.as_bytes(), "at most 255"),
        (deep.as_bytes(), ""),
        (over_long.as_bytes(), "bytes long"),
    ];
    for (line, fault) in faults {
        let place = Place::new();
        let input = [b"{\"id\":1}\n\n", *line, b"\n{\"id\":2}\n"].concat();
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        let stopped = dedup(&place, &["--key", ".id"], &input);
        assert_eq!(
            (stopped.status, stopped.out().as_str()),
            (65, "{\"id\":1}\n"),
            "{shown}: {}",
            stopped.err()
        );
        assert!(
            stopped.last_line().starts_with("semel: line 3: ") && stopped.err().contains(fault),
            "{shown}: {}",
            stopped.err()
        );
        let skipped = dedup(&place, &["--key", ".id", "--on-error", "skip"], &input);
        assert_eq!(
            (skipped.status, skipped.out().as_str()),
            (0, "{\"id\":2}\n"),
            "{shown}: {}",
            skipped.err()
        );
        assert!(
            skipped
                .err()
                .contains("1 first, 1 repeats, 0 mismatches, 0 in doubt, 1 skipped"),
            "{shown}: {}",
            skipped.err()
        );
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_the_first_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["--key", "id"], "begins with a dot"),
        (&["--key", ".a["], "no `]`"),
        (&["--key", ".id", "--payload", ".a..b"], "name is missing"),
        (&["--key", ".id", "--operation", ""], "operation is blank"),
        (&["--key", ".id", "--scope", " "], "scope is blank"),
        (&["--key", ".id", "--retain", "0s"], "no time at all"),
        (
            &["--key", ".id", "--payload", ".a", "--no-payload"],
            "cannot be used with",
        ),
        (&["--key", ".id", "--on-error", "ignore"], "ignore"),
        (&[], "--key"),
    ];
    let place = Place::new();
    for (options, fault) in cases {
        let said = dedup(&place, options, b"{\"id\":1}\n");
        assert_eq!(
            (said.status, said.out().as_str()),
            (64, ""),
            "{options:?}: {}",
            said.err()
        );
        assert!(said.err().contains(fault), "{options:?}: {}", said.err());
    }
}
