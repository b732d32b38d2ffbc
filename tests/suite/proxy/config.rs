//! What `semel proxy` is told, and how it says what is wrong with that.

use std::fs;

use crate::cli_process::{Place, Said, say};

/// All that is needed.
const ENOUGH: &str = "listen = \"127.0.0.1:0\"\nupstream = \"http://127.0.0.1:1\"\nscope = \"global\"\nstore = \"unused\"\n";

fn check(text: &str, flags: &[&str]) -> (Said, String) {
    let place = Place::new();
    let file = place.path("p.toml");
    fs::write(&file, text).expect("a file");
    let said = say(&[&["proxy", "--check", "--config", &file], flags].concat());
    let err = said.err().replace(&file, "p.toml");
    (said, err)
}

#[test]
fn faults_of_the_file_are_told_with_their_place_before_anything_is_opened() {
    let cases = [
        (
            "listen = 8080\n",
            "p.toml:1:10: listen: it is a number, and a text is wanted",
        ),
        (
            "listen = \"8080\"\n",
            "p.toml:1:10: listen: \"8080\" is no address",
        ),
        (
            "listn = \"a:1\"\n",
            "p.toml:1:1: listn is unknown here; did you mean listen?",
        ),
        ("a = \n", "p.toml:1:"),
        (
            "store = \"a\"\nstore = \"b\"\n",
            "p.toml:2:1: duplicate key",
        ),
        (
            "upstream = \"https://a\"\n",
            "p.toml:1:12: upstream: \"https://a\": the proxy speaks no TLS",
        ),
        ("upstream = \"http://a/b\"\n", "it has a path"),
        (
            "scope = \"header:Authorization\"\n",
            "p.toml:1:9: scope: authorization is a credential",
        ),
        ("scope = \"header:Cookie\"\n", "cookie is a credential"),
        (
            "key = \"X-Key\"\n",
            "p.toml:1:7: key: \"X-Key\" is no place of a key",
        ),
        ("admin = \"unix:\"\n", "unix: lacks the path"),
        (
            "grace = 30\n",
            "grace: it is a number, and a text is wanted; for instance grace = \"30s\"",
        ),
        ("grace = \"30\"\n", "grace: `30` has no unit"),
        ("host = \"mine\"\n", "host: \"mine\" is no rule"),
        (
            "cors = \"yes\"\n",
            "cors: it is a text, and true or false, without quotes, is wanted",
        ),
        (
            "timeouts = \"5s\"\n",
            "timeouts: it is a text; write a table, [timeouts]",
        ),
        (
            "[timeouts]\nconnect = \"0\"\n",
            "p.toml:2:11: connect: it is zero",
        ),
        ("[timeouts]\nanswer = \"0s\"\n", "answer: it is zero"),
        (
            "[timeouts]\nidl = \"1s\"\n",
            "p.toml:2:1: idl is unknown here; did you mean idle?",
        ),
        (
            "[limits]\nhead = 100\n",
            "head: it is 100, and from 8192 to 1048576 are allowed",
        ),
        ("[limits]\nconnections = -1\n", "connections: it is -1"),
        ("[token]\nttl = \"1ms\"\n", "ttl is below a second"),
        ("tokens = true\n", "add a table [token]"),
        ("retain = \"0s\"\n", "retain: kept for no time at all"),
        ("lease = \"0s\"\n", "lease is zero"),
        (
            "lease = \"never\"\nin_doubt = \"rerun\"\n",
            "a lease without end goes with in_doubt = hold alone",
        ),
        ("in_doubt = \"ask\"\n", "nobody can be asked here"),
        ("policy = \"kind\"\n", "there is no status policy \"kind\""),
        ("query = \"some\"\n", "query: \"some\" is no rule"),
        (
            "query = [1]\n",
            "query: it is a number, and a text is wanted",
        ),
        ("keep = [\"Set-Cookie\"]\n", "never kept for another"),
        ("methods = [\"post\"]\n", "methods: \"post\" is no method"),
        ("methods = []\n", "guarded = false instead"),
        (
            "max_body = \"1M\"\n",
            "max_body: it is a text, and a whole number is wanted",
        ),
        ("max_answer = 4194304\n", "max_answer: it is 4194304"),
        ("operation = \" \"\n", "operation: "),
        ("route = 1\n", "route: it is a number; write [[route]]"),
        (
            "[[route]]\nguarded = false\n",
            "p.toml:1:1: the route lacks its pattern",
        ),
        (
            "[[route]]\npattern = \"orders\"\n",
            "does not begin with a slash",
        ),
        (
            "[[route]]\npattern = \"/a\"\n[[route]]\npattern = \"/a\"\n",
            "p.toml:3:1: the route /a would never be used",
        ),
        (
            "[[route]]\npattern = \"DELETE /a\"\n",
            "do not guard DELETE",
        ),
        (
            "[[route]]\npattern = \"/a\"\npattrn = 1\n",
            "p.toml:3:1: pattrn is unknown here",
        ),
        (
            "[[route]]\npattern = \"/a\"\nlease = \"never\"\nin_doubt = \"rerun\"\n",
            "p.toml:1:1: a lease without end",
        ),
    ];
    for (text, words) in cases {
        let (said, err) = check(text, &[]);
        assert_eq!(said.status, 64, "{text}: {err}");
        assert!(err.contains(words), "{text}: {err}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let (said, err) = check("listen = 1\n\nuptsream = 2\n[limits]\nfields = true\n", &[]);
    assert_eq!(said.status, 64);
    for place in ["p.toml:1:10: ", "p.toml:3:1: ", "p.toml:5:10: "] {
        assert!(err.contains(place), "{place}: {err}");
    }
}

#[test]
fn what_is_missing_is_named_and_flags_go_before_the_file() {
    let needed = [
        ("--listen", "127.0.0.1:0", "(listen)"),
        ("--upstream", "http://127.0.0.1:1", "(upstream)"),
        ("--store", "unused", "(store)"),
        ("--scope", "global", "(scope)"),
    ];
    for (left_out, _, words) in needed {
        let given = needed.iter().filter(|(flag, ..)| *flag != left_out);
        let flags: Vec<&str> = given.flat_map(|(flag, value, _)| [*flag, *value]).collect();
        let said = say(&[&["proxy", "--check"], &flags[..]].concat());
        assert_eq!(said.status, 64, "{left_out}");
        assert!(said.err().contains(words), "{left_out}: {}", said.err());
    }
    let (said, err) = check(ENOUGH, &[]);
    assert_eq!((said.status, err.as_str()), (0, ""));
    let flags: &[(&str, &str, &str)] = &[
        ("--listen", "nowhere", "--listen \"nowhere\" is no address"),
        ("--upstream", "ftp://a", "--upstream"),
        ("--scope", "header:cookie", "--scope cookie is a credential"),
        ("--key", "body", "--key \"body\" is no place of a key"),
        ("--admin", "x", "--admin \"x\" is no address"),
        ("--grace", "1", "`1` has no unit"),
    ];
    for (flag, value, words) in flags {
        let (said, err) = check(ENOUGH, &[flag, value]);
        assert_eq!(said.status, 64, "{flag}");
        assert!(err.contains(words), "{flag}: {err}");
    }
    let (said, err) = check(
        ENOUGH,
        &["--scope", "header:X-User", "--key", "header:x-user"],
    );
    assert_eq!(said.status, 64);
    assert!(err.contains("stand in one field, x-user"), "{err}");
    let said = say(&["proxy", "--config", "/nowhere/p.toml"]);
    assert!(
        said.status == 64 && said.err().contains("cannot be read"),
        "{}",
        said.err()
    );
}

#[test]
fn what_may_be_a_mistake_is_a_warning() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["--key", "header:X-Request-Id"],
            "make anew for every attempt",
        ),
        (
            &["--store", "memory:"],
            "forgets everything when the proxy ends",
        ),
        (&["--admin", "0.0.0.0:9000"], "open to the network"),
    ];
    for (flags, words) in cases {
        let (said, err) = check(ENOUGH, flags);
        assert_eq!(said.status, 0, "{flags:?}: {err}");
        assert!(
            err.contains("semel: warning: ") && err.contains(words),
            "{err}"
        );
    }
}

#[test]
fn where_it_cannot_listen_it_says_so_and_ends() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let file = place.path("a-file");
    fs::write(&file, "").expect("a file");
    let socket = format!("unix:{file}");
    for (listen, words) in [(&address, "in use"), (&socket, "no socket")] {
        let said = say(&[
            "proxy",
            "--listen",
            listen,
            "--upstream",
            "http://127.0.0.1:1",
            "--scope",
            "global",
            "--store",
            &place.store(),
        ]);
        assert_eq!(said.status, 69, "{}", said.err());
        assert!(said.err().contains(words), "{}", said.err());
    }
}
