//! What may be a store's directory, and what is said of the rest.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use semel::{Claim, Error, ErrorKind, Request, Store};
use semel_tests::scratch::{cannot, is_root, on_disk, skip};

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn refusal(path: &Path) -> Error {
    Store::open(text(path)).expect_err("no place for a store")
}

/// Asserts that a place is refused as bad input, with these words.
fn check(path: &Path, words: &[&str]) {
    let error = refusal(path);
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    for word in words {
        assert!(error.message().contains(word), "{error}");
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_new_directory_belongs_to_its_user_alone() {
    let dir = on_disk();
    let path = dir.path().join("deep/er/store");
    Store::open(text(&path))
        .expect("opens")
        .close()
        .expect("closes");
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("identity")), 0o600);
}

#[test]
fn an_empty_directory_is_taken_as_it_is() {
    let dir = on_disk();
    let path = dir.path().join("store");
    fs::create_dir(&path).expect("made");
    Store::open(text(&path)).expect("opens");
}

#[test]
fn a_symbolic_link_is_refused() {
    let dir = on_disk();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).expect("made");
    symlink(&real, &link).expect("linked");
    check(&link, &["symbolic link", "folder inside"]);
    symlink(dir.path().join("nowhere"), dir.path().join("dangling")).expect("linked");
    check(&dir.path().join("dangling"), &["symbolic link"]);
    // A folder inside it is fine, as the message says.
    Store::open(text(&link.join("semel"))).expect("opens");
}

#[test]
fn a_directory_that_everybody_can_write_is_refused() {
    let dir = on_disk();
    let path = dir.path().join("open");
    fs::create_dir(&path).expect("made");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("opened to all");
    check(&path, &["every user", "/semel"]);
    Store::open(text(&path.join("semel"))).expect("opens inside");
}

#[test]
fn a_file_is_no_directory() {
    let dir = on_disk();
    let file = dir.path().join("file");
    fs::write(&file, "mine").expect("written");
    check(&file, &["is a file"]);
    check(&file.join("store"), &["part of the path is a file"]);
    check(&file.join("deep/store"), &["part of the path is a file"]);
    assert_eq!(fs::read(&file).expect("there"), b"mine");
}

#[test]
fn a_directory_with_other_files_is_refused_untouched() {
    let dir = on_disk();
    fs::write(dir.path().join("thesis.txt"), "mine").expect("written");
    check(dir.path(), &["thesis.txt", "/semel"]);
    let names: Vec<PathBuf> = fs::read_dir(dir.path())
        .expect("read")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(names, [dir.path().join("thesis.txt")]);
}

/// A store with one result, closed.
fn closed_store(path: &Path) {
    let store = Store::open(text(path)).expect("opens");
    let Claim::Execute(ticket) = store.claim(&Request::new("place", "p")).expect("claims") else {
        panic!("a new key");
    };
    ticket.complete("p").expect("completes");
    store.close().expect("closes");
}

fn mount(args: &[&str]) -> bool {
    Command::new("mount")
        .args(args)
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn a_read_only_file_system_is_told() {
    let test = "a_read_only_file_system_is_told";
    if !is_root() {
        return skip(test, "only root can mount a file system");
    }
    let dir = on_disk();
    if !mount(&["-t", "tmpfs", "-o", "size=32m", "tmpfs", text(dir.path())]) {
        return cannot(test, "this root cannot mount a file system");
    }
    let unmount = Unmount(dir.path());
    let path = dir.path().join("store");
    closed_store(&path);
    assert!(mount(&["-o", "remount,ro", text(unmount.0)]));
    for path in [path.clone(), dir.path().join("other")] {
        let error = refusal(&path);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.message().contains("mounted writable"), "{error}");
    }
    assert!(mount(&["-o", "remount,rw", text(unmount.0)]));
    let store = Store::open(text(&path)).expect("opens when it can be written");
    assert!(matches!(
        store.claim(&Request::new("place", "p")),
        Ok(Claim::Replay(_))
    ));
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_directory_that_may_not_be_written_is_told() {
    let test = "a_directory_that_may_not_be_written_is_told";
    if is_root() {
        return skip(
            test,
            "root may write everywhere; the read-only file system stands in",
        );
    }
    let dir = on_disk();
    let path = dir.path().join("store");
    closed_store(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).expect("closed to writing");
    fs::set_permissions(path.join("owner"), fs::Permissions::from_mode(0o400))
        .expect("closed to writing");
    let error = refusal(&path);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(
        error.message().contains("right to read and write"),
        "{error}"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("opened again");
}

#[test]
fn a_symbolic_link_is_one_however_its_name_ends() {
    let dir = on_disk();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).expect("made");
    symlink(&real, &link).expect("linked");
    for end in ["/", "//", "/.", "/./"] {
        check(
            Path::new(&format!("{}{end}", text(&link))),
            &["symbolic link"],
        );
        closed_store(Path::new(&format!("{}{end}", text(&real))));
        fs::remove_dir_all(&real).expect("removed");
        fs::create_dir(&real).expect("made");
    }
    let file = dir.path().join("backup");
    let store = Store::open(text(&real)).expect("opens");
    store.backup(&file).expect("backs up");
    let refused = semel::restore(&file, format!("{}/", text(&link))).expect_err("a link");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused:?}");
}
