//! What the power-cut model lets a disk hold: each case lists operations and every content that may be found.

use std::collections::BTreeSet;
use std::path::PathBuf;

use semel_tests::image::{Base, Choice, Disk, Tree};
use semel_tests::recording::{Call, Event, Found, Op, Way};

/// Enough for each outcome of the small cases below to come up.
const CHOICES: usize = 2_000;

fn op(event: Event) -> Op {
    Op { thread: 1, event }
}

fn create(handle: u64, path: &str) -> Op {
    let (path, found) = (path.into(), Found::Nothing);
    op(Event::Open {
        handle,
        path,
        found,
    })
}

fn dir(handle: u64, path: &str) -> Op {
    let (path, found) = (path.into(), Found::Directory);
    op(Event::Open {
        handle,
        path,
        found,
    })
}

fn write(handle: u64, offset: u64, data: &str) -> Op {
    let data = data.as_bytes().to_vec();
    op(Event::Write {
        handle,
        offset,
        data,
    })
}

fn truncate(handle: u64, size: u64) -> Op {
    op(Event::Truncate { handle, size })
}

fn begin(sync: u64, handle: u64) -> Op {
    let call = Call::Fsync;
    op(Event::SyncBegin { sync, handle, call })
}

fn end(sync: u64, handle: u64, errno: i32) -> Op {
    op(Event::SyncEnd {
        sync,
        handle,
        errno,
    })
}

fn rename(from: &str, to: &str) -> Op {
    let (from, to, way) = (from.into(), to.into(), Way::Replace);
    op(Event::Rename { from, to, way })
}

fn mkdir(path: &str) -> Op {
    op(Event::Mkdir { path: path.into() })
}

fn unlink(path: &str) -> Op {
    op(Event::Unlink { path: path.into() })
}

/// A tree in one line: "name=bytes" and "name/", zero bytes as dots.
fn line(tree: &Tree) -> String {
    let entry = |(path, bytes): (&PathBuf, &Option<Vec<u8>>)| match bytes {
        None => format!("{}/", path.display()),
        Some(bytes) => format!(
            "{}={}",
            path.display(),
            String::from_utf8_lossy(bytes).replace('\0', ".")
        ),
    };
    tree.0.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn check(ops: &[Op], expect: &[&str]) {
    check_from(&Base::default(), ops, expect);
}

fn check_from(base: &Base, ops: &[Op], expect: &[&str]) {
    let mut disk = Disk::new(base).unwrap();
    for op in ops {
        disk.apply(op).unwrap();
    }
    let found: BTreeSet<String> = (0..CHOICES)
        .map(|index| line(&disk.crash(&Choice::nth(7, index))))
        .collect();
    let expect: BTreeSet<String> = expect.iter().map(|line| (*line).to_string()).collect();
    assert_eq!(found, expect);
}

fn durable(files: &[(&str, &str)]) -> Base {
    let mut base = Base::default();
    for (path, bytes) in files {
        base.tree
            .0
            .insert(path.into(), Some(bytes.as_bytes().to_vec()));
    }
    base
}

const ROOT: u64 = 100;

#[test]
fn a_name_without_a_sync_of_its_directory_may_be_missing() {
    let ops = [
        create(1, "f"),
        write(1, 0, "new"),
        begin(9, 1),
        end(9, 1, 0),
    ];
    check(&ops, &["", "f=new"]);
}

#[test]
fn data_and_name_that_were_synced_stay() {
    let ops = [
        create(1, "f"),
        write(1, 0, "new"),
        begin(8, 1),
        end(8, 1, 0),
        dir(ROOT, ""),
        begin(9, ROOT),
        end(9, ROOT, 0),
    ];
    check(&ops, &["f=new"]);
}

#[test]
fn a_write_during_a_sync_is_not_covered_by_it() {
    let base = durable(&[("f", "old")]);
    let found = Found::File;
    let open = op(Event::Open {
        handle: 1,
        path: "f".into(),
        found,
    });
    let ops = [open.clone(), begin(9, 1), write(1, 0, "new"), end(9, 1, 0)];
    check_from(&base, &ops, &["f=old", "f=new"]);
    let ops = [
        open.clone(),
        write(1, 0, "one"),
        begin(9, 1),
        write(1, 0, "two"),
        end(9, 1, 0),
    ];
    check_from(&base, &ops, &["f=one", "f=two"]);
    let ops = [open, write(1, 0, "one"), begin(9, 1)];
    check_from(&base, &ops, &["f=old", "f=one"]);
}

#[test]
fn each_version_since_the_sync_may_be_found() {
    let base = durable(&[("f", "old")]);
    let open = op(Event::Open {
        handle: 1,
        path: "f".into(),
        found: Found::File,
    });
    check_from(
        &base,
        &[open, write(1, 0, "one"), write(1, 0, "two")],
        &["f=old", "f=one", "f=two"],
    );
}

#[test]
fn a_failed_sync_is_not_made_up_for_by_the_next() {
    let base = durable(&[("f", "old")]);
    let open = op(Event::Open {
        handle: 1,
        path: "f".into(),
        found: Found::File,
    });
    let failed = [
        open,
        write(1, 0, "one"),
        begin(8, 1),
        end(8, 1, libc::EIO),
        begin(9, 1),
        end(9, 1, 0),
    ];
    check_from(&base, &failed, &["f=old", "f=one"]);
    let again = [
        &failed[..],
        &[write(1, 0, "two"), begin(10, 1), end(10, 1, 0)],
    ]
    .concat();
    check_from(&base, &again, &["f=two"]);
}

#[test]
fn sizes_are_old_or_new_and_missing_pages_are_zero() {
    let base = durable(&[("f", "ab")]);
    let open = op(Event::Open {
        handle: 1,
        path: "f".into(),
        found: Found::File,
    });
    check_from(
        &base,
        &[open.clone(), write(1, 2, "cd")],
        &["f=ab", "f=ab..", "f=abcd"],
    );
    check_from(&base, &[open.clone(), truncate(1, 4)], &["f=ab", "f=ab.."]);
    check_from(&base, &[open.clone(), truncate(1, 0)], &["f=ab", "f="]);
    // What was cut off does not come back under a later extension.
    check_from(
        &base,
        &[open.clone(), truncate(1, 0), write(1, 0, "xy")],
        &["f=ab", "f=", "f=..", "f=xy"],
    );
    let synced = [
        open,
        truncate(1, 0),
        begin(9, 1),
        end(9, 1, 0),
        truncate(1, 2),
    ];
    check_from(&base, &synced, &["f=", "f=.."]);
}

#[test]
fn a_rename_gives_the_old_or_the_new_file_whole() {
    let base = durable(&[("f", "old")]);
    let unsynced = [create(1, "g"), write(1, 0, "new"), rename("g", "f")];
    check_from(
        &base,
        &unsynced,
        &[
            "f=old",
            "f=old g=",
            "f=old g=...",
            "f=old g=new",
            "f=",
            "f=...",
            "f=new",
        ],
    );
    let synced = [
        create(1, "g"),
        write(1, 0, "new"),
        begin(9, 1),
        end(9, 1, 0),
        rename("g", "f"),
    ];
    check_from(&base, &synced, &["f=old", "f=old g=new", "f=new"]);
}

#[test]
fn names_survive_as_a_prefix() {
    let base = durable(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let ops = [unlink("a"), unlink("b"), unlink("c")];
    check_from(&base, &ops, &["a=1 b=2 c=3", "b=2 c=3", "c=3", ""]);
    let ops = [
        unlink("a"),
        dir(ROOT, ""),
        begin(9, ROOT),
        unlink("b"),
        end(9, ROOT, 0),
        unlink("c"),
    ];
    check_from(&base, &ops, &["b=2 c=3", "c=3", ""]);
}

#[test]
fn a_directory_needs_the_sync_of_its_parent() {
    let ops = [
        mkdir("d"),
        create(1, "d/f"),
        write(1, 0, "new"),
        begin(8, 1),
        end(8, 1, 0),
        dir(2, "d"),
        begin(9, 2),
        end(9, 2, 0),
    ];
    check(&ops, &["", "d/ d/f=new"]);
    let with_parent = [
        &ops[..],
        &[dir(ROOT, ""), begin(10, ROOT), end(10, ROOT, 0)],
    ]
    .concat();
    check(&with_parent, &["d/ d/f=new"]);
}

#[test]
fn a_move_between_directories_is_whole() {
    let mut base = durable(&[("p/f", "x")]);
    base.tree.0.insert("p".into(), None);
    base.tree.0.insert("q".into(), None);
    let ops = [rename("p/f", "q/f")];
    check_from(&base, &ops, &["p/ p/f=x q/", "p/ q/ q/f=x"]);
    let synced = [&ops[..], &[dir(1, "q"), begin(9, 1), end(9, 1, 0)]].concat();
    check_from(&base, &synced, &["p/ q/ q/f=x"]);
}

#[test]
fn torn_pages_break_at_sectors() {
    let base = durable(&[("f", &"a".repeat(1024))]);
    let open = op(Event::Open {
        handle: 1,
        path: "f".into(),
        found: Found::File,
    });
    let (a, b) = ("a".repeat(512), "b".repeat(512));
    let all = [
        format!("f={a}{a}"),
        format!("f={a}{b}"),
        format!("f={b}{a}"),
        format!("f={b}{b}"),
    ];
    let expect: Vec<&str> = all.iter().map(String::as_str).collect();
    check_from(&base, &[open, write(1, 0, &"b".repeat(1024))], &expect);
}
