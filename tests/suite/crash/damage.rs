//! A store whose files were damaged: either all is there, or it refuses and says what to do; nothing is lost in silence.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use semel::{Claim, ErrorKind, Request, Store};
use semel_tests::image::Tree;
use semel_tests::scratch::{in_memory, say};
use semel_tests::victim::goods::{Dice, result_of};

const SEED: u64 = 77;
/// How many keys the store has.
const KEYS: u64 = 240;
/// How many bits of the log are flipped, one at a time, in its head, middle and tail.
const FLIPS_IN_LOG: usize = 200;
const FLIPS_ELSEWHERE: usize = 24;
const CUTS: usize = 50;

/// What became of a damaged store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Refused,
}

/// A store that was closed, as a tree.
fn sound() -> &'static Tree {
    static SOUND: OnceLock<Tree> = OnceLock::new();
    SOUND.get_or_init(|| {
        let dir = in_memory();
        let store = dir.path().join("store");
        // Two lives: the first leaves a snapshot of sled behind.
        for life in 0..2 {
            let store = Store::open(store.to_str().expect("a path of text")).expect("opens");
            for index in (0..KEYS).filter(|index| index % 2 == life) {
                let key = format!("k-{index}");
                let Claim::Execute(ticket) =
                    store.claim(&Request::new("damage", &*key)).expect("claims")
                else {
                    panic!("a new key");
                };
                ticket.complete_value(result_of(&key)).expect("completes");
            }
            store.close().expect("closes");
        }
        Tree::read(&store).expect("read")
    })
}

/// Writes the store with one file changed, and opens it.
fn open_changed(
    home: &Path,
    file: &Path,
    change: impl FnOnce(&mut Vec<u8>),
) -> Result<End, String> {
    let place = home.join("store");
    let mut tree = sound().clone();
    change(
        tree.0
            .get_mut(file)
            .and_then(Option::as_mut)
            .expect("the store has the file"),
    );
    tree.write(&place).map_err(|e| e.to_string())?;
    let end = catch_unwind(AssertUnwindSafe(|| {
        judge(place.to_str().expect("a path of text"))
    }));
    fs::remove_dir_all(&place).map_err(|e| e.to_string())?;
    end.unwrap_or_else(|_| Err("panicked".into()))
}

fn judge(place: &str) -> Result<End, String> {
    let store = match Store::open(place) {
        Ok(store) => store,
        Err(error) => {
            let says_what_to_do = ["restore", "accept_rollback", "put back", "use the semel"]
                .iter()
                .any(|advice| error.message().contains(advice));
            return match error.kind() == ErrorKind::Corrupt && says_what_to_do {
                true => Ok(End::Refused),
                false => Err(format!("refused with {error:?}")),
            };
        }
    };
    for index in 0..KEYS {
        let key = format!("k-{index}");
        match store.claim(&Request::new("damage", &*key)) {
            Ok(Claim::Replay(replay)) if replay.value == result_of(&key) => {}
            Ok(other) => return Err(format!("{key} was answered {}", other.name())),
            Err(error) => return Err(format!("{key} failed after a sound opening: {error:?}")),
        }
    }
    Ok(End::Whole)
}

/// Judges many changes of one file, two at a time; gives how many were refused.
fn judge_all(
    what: &str,
    file: &Path,
    changes: &[usize],
    change: impl Fn(&mut Vec<u8>, usize) + Sync,
) -> usize {
    let lanes: Vec<Vec<(usize, Result<End, String>)>> = thread::scope(|scope| {
        let change = &change;
        let lanes: Vec<_> = (0..2)
            .map(|lane| {
                let mine = changes.iter().skip(lane).step_by(2);
                scope.spawn(move || {
                    let home = in_memory();
                    mine.map(|&at| {
                        (
                            at,
                            open_changed(home.path(), file, |bytes| change(bytes, at)),
                        )
                    })
                    .collect()
                })
            })
            .collect();
        lanes
            .into_iter()
            .map(|lane| lane.join().expect("judged"))
            .collect()
    });
    let ends: Vec<_> = lanes.into_iter().flatten().collect();
    let wrong: Vec<_> = ends
        .iter()
        .filter_map(|(at, end)| Some((at, end.as_ref().err()?)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} {what}: {} of {} went wrong: {:#?}",
        file.display(),
        wrong.len(),
        ends.len(),
        &wrong[..wrong.len().min(8)]
    );
    let refused = ends
        .iter()
        .filter(|(_, end)| *end == Ok(End::Refused))
        .count();
    say(&format!(
        "{} {what}: {refused} of {} refused, the others whole",
        file.display(),
        ends.len()
    ));
    refused
}

fn length(file: &Path) -> usize {
    sound().0[file].as_ref().map_or(0, Vec::len)
}

/// Everything beside the log's own file.
fn other_files() -> Vec<PathBuf> {
    let is_other = |(path, bytes): (&PathBuf, &Option<Vec<u8>>)| {
        (bytes.is_some() && !path.ends_with("db")).then(|| path.clone())
    };
    sound().0.iter().filter_map(is_other).collect()
}

fn flip(bytes: &mut [u8], at: usize) {
    bytes[at / 8] ^= 1 << (at % 8);
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_or_harmless() {
    let log = Path::new("log/db");
    let mut dice = Dice(SEED);
    let bytes = length(log) as u64;
    let part = bytes / 8;
    let starts = [0, bytes / 2 - part / 2, bytes - part];
    let flips: Vec<usize> = (0..FLIPS_IN_LOG)
        .map(|index| ((starts[index % 3] + dice.below(part)) * 8 + dice.below(8)) as usize)
        .collect();
    let refused = judge_all("bit flips", log, &flips, |bytes, at| flip(bytes, at));
    assert!(refused > FLIPS_IN_LOG / 10, "the flips met nothing");
}

#[test]
fn a_flipped_bit_elsewhere_is_refused_or_harmless() {
    assert!(
        other_files()
            .iter()
            .any(|path| path.to_string_lossy().contains("snap.")),
        "{:?}",
        other_files()
    );
    for file in other_files() {
        let mut dice = Dice(SEED);
        // The first bytes of a file say most.
        let bits = length(&file).min(8192) as u64 * 8;
        let flips: Vec<usize> = (0..FLIPS_ELSEWHERE)
            .map(|index| dice.below(if index % 2 == 0 { bits } else { bits.min(512) }) as usize)
            .collect();
        judge_all("bit flips", &file, &flips, |bytes, at| flip(bytes, at));
    }
}

#[test]
fn a_file_that_was_cut_short_is_refused_or_harmless() {
    for file in other_files()
        .iter()
        .map(PathBuf::as_path)
        .chain([Path::new("log/db")])
    {
        let mut dice = Dice(SEED);
        let whole = length(file) as u64;
        let mut cuts: Vec<usize> = (0..CUTS).map(|_| dice.below(whole) as usize).collect();
        cuts[0] = 0;
        cuts[1] = whole as usize - 1;
        judge_all("cuts", file, &cuts, |bytes, at| bytes.truncate(at));
    }
}

/// The store with some files changed or taken away, in a directory that stays.
fn changed(change: impl FnOnce(&mut Tree)) -> (tempfile::TempDir, String) {
    let dir = in_memory();
    let mut tree = sound().clone();
    change(&mut tree);
    let place = dir.path().join("store");
    tree.write(&place).expect("written");
    let place = place.to_str().expect("a path of text").to_owned();
    (dir, place)
}

fn refusal(place: &str) -> String {
    let error = Store::open(place).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    error.message().to_owned()
}

#[test]
fn what_is_missing_is_told() {
    let (_dir, place) = changed(|tree| drop(tree.0.remove(Path::new("identity"))));
    let told = refusal(&place);
    assert!(
        told.contains("identity is missing") && told.contains("restore"),
        "{told}"
    );
    let (_dir, place) = changed(|tree| tree.0.retain(|path, _| !path.starts_with("log")));
    let told = refusal(&place);
    assert!(
        told.contains("restore") && told.contains("accept_rollback"),
        "{told}"
    );
    let (_dir, place) = changed(|tree| drop(tree.0.remove(Path::new("watermark"))));
    let told = refusal(&place);
    assert!(
        told.contains("watermark") && told.contains("accept_rollback"),
        "{told}"
    );
    let accepted = Store::builder(&place).accept_rollback().open();
    assert_eq!(accepted.expect("opens when it is accepted").len(), KEYS);
    let (_dir, place) = changed(|tree| drop(tree.0.remove(Path::new("log/db"))));
    let told = refusal(&place);
    assert!(told.contains("restore"), "{told}");
}

#[test]
fn another_format_is_told_by_its_number() {
    let (_dir, place) = changed(|tree| {
        let identity = tree
            .0
            .get_mut(Path::new("identity"))
            .and_then(Option::as_mut)
            .expect("an identity");
        let text = String::from_utf8(identity.clone()).expect("text");
        *identity = text.replace("format 1", "format 2").into_bytes();
    });
    let told = refusal(&place);
    assert!(
        told.contains("format 2") && told.contains("format 1"),
        "{told}"
    );
}

#[test]
fn the_log_of_another_store_is_refused() {
    let other = in_memory();
    let path = other.path().join("other");
    let store = Store::open(path.to_str().expect("a path of text")).expect("opens");
    let Claim::Execute(ticket) = store
        .claim(&Request::new("damage", "other"))
        .expect("claims")
    else {
        panic!("a new key");
    };
    ticket.complete("other").expect("completes");
    store.close().expect("closes");
    let foreign = Tree::read(&path).expect("read");
    let (_dir, place) = changed(|tree| {
        tree.0.retain(|path, _| !path.starts_with("log"));
        tree.0.extend(
            foreign
                .0
                .into_iter()
                .filter(|(path, _)| path.starts_with("log")),
        );
    });
    let told = refusal(&place);
    assert!(
        told.contains("another store") || told.contains("restore"),
        "{told}"
    );
}

#[test]
fn a_rollback_that_is_accepted_opens_with_what_is_left() {
    // The log as it was after its first half, the watermark as it is.
    let dir = in_memory();
    let place = dir.path().join("store");
    let text = place.to_str().expect("a path of text");
    let run = |key: &str| {
        let store = Store::open(text).expect("opens");
        let Claim::Execute(ticket) = store.claim(&Request::new("damage", key)).expect("claims")
        else {
            panic!("a new key");
        };
        ticket.complete(key).expect("completes");
        store.close().expect("closes");
    };
    run("early");
    let log = Tree::read(&place.join("log")).expect("read");
    run("late");
    fs::remove_dir_all(place.join("log")).expect("removed");
    log.write(&place.join("log")).expect("written");
    let told = refusal(text);
    assert!(
        told.contains("accept_rollback") && told.contains("would run again"),
        "{told}"
    );
    let store = Store::builder(text)
        .accept_rollback()
        .open()
        .expect("opens when it is accepted");
    assert!(matches!(
        store.claim(&Request::new("damage", "early")),
        Ok(Claim::Replay(_))
    ));
    assert!(matches!(
        store.claim(&Request::new("damage", "late")),
        Ok(Claim::Execute(_))
    ));
    assert_eq!(store.len(), 2);
    drop(store);
    // Accepted once, it is the store from now on.
    let store = Store::open(text).expect("opens without being told again");
    assert!(matches!(
        store.claim(&Request::new("damage", "early")),
        Ok(Claim::Replay(_))
    ));
}
