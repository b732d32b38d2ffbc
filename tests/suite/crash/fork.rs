//! A process that forks while its store is open.

use std::process::Command;

use semel::{Claim, Request, Store};
use semel_tests::scratch::in_memory;

use super::process::{Process, victim};

#[test]
fn a_forked_child_is_refused_hangs_nowhere_and_keeps_no_lock() {
    let dir = in_memory();
    let path = |name: &str| {
        dir.path()
            .join(name)
            .to_str()
            .expect("a path of text")
            .to_owned()
    };
    let (place, other) = (path("store"), path("other"));
    let mut parent = Process::start(&mut victim(&["fork", &place, &other]));
    let children = parent.line();
    assert!(children.starts_with("children "), "{children}");
    let orphan = parent.line();
    let orphan: u32 = orphan
        .strip_prefix("orphan ")
        .and_then(|pid| pid.parse().ok())
        .expect("a pid");
    parent.ended_well();
    // The orphan lives; the store is free all the same, and is whole.
    let store = Store::open(&place);
    let lives = std::path::Path::new(&format!("/proc/{orphan}")).exists();
    let _ = Command::new("kill")
        .arg("-9")
        .arg(orphan.to_string())
        .status();
    assert!(lives, "the orphan ended too early to prove anything");
    let store = store.expect("opens beside an orphaned child");
    for key in ["after", "held-0", "held-7"] {
        let claim = store.claim(&Request::new("fork", key)).expect("claims");
        assert!(matches!(claim, Claim::Replay(_)), "{key}: {}", claim.name());
    }
    assert!(store.verify().expect("verifies").problems.is_empty());
}
