//! The local backend from within: what no caller can see, but must be so.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Local, Options, Tuning};
use crate::backend::{
    Admission, Backend, Commit, Committed, Decided, Durability, Seen, Touched, Write,
};
use crate::codec::{Content, Row};
use crate::error::Result;
use crate::key::{GLOBAL, Key};
use crate::lifecycle::{Answer, Claiming, Event, Verb};
use crate::record::{Holder, Policy, Terms};
use crate::time::{Clock, NEVER_US};
use crate::value::Value;

mod batches;
mod cleaning;
mod durability;
mod eviction;
mod groups;
mod model;
mod opening;
mod sweeping;
mod waiting;

/// A directory for one store, gone at the end.
struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store");
        Self { _dir: dir, path }
    }

    fn open(&self) -> Local {
        self.open_with(options())
    }

    fn open_with(&self, options: Options) -> Local {
        open_at(&self.path, options, Clock::system())
    }
}

fn open_at(path: &Path, options: Options, clock: Clock) -> Local {
    Local::open(path, options, clock, super::Tenancy::alone()).expect("opens")
}

fn options() -> Options {
    Options {
        commit_interval: Duration::from_millis(1),
        cache_bytes: 8 << 20,
        max_records: u64::MAX,
        max_result_bytes: 1 << 20,
        sweep_interval: None,
        archive: None,
        accept_rollback: false,
        accept_clock: false,
        lock_timeout: Some(Duration::from_secs(5)),
        tuning: Tuning::default(),
    }
}

/// Cleaning begins as soon as half of the log is dead.
fn eager() -> Options {
    Options {
        tuning: Tuning {
            slack_bytes: 0,
            ..Tuning::default()
        },
        ..options()
    }
}

fn key(id: &str) -> Key {
    Key::claim(&GLOBAL, "test", id).expect("a valid key")
}

fn terms() -> Terms {
    Terms {
        in_doubt: Policy::Rerun,
        max_attempts: 0,
        lease_us: 30_000_000,
        retain_us: 3600 * 1_000_000,
        remember_us: 0,
    }
}

fn claim_of(local: &Local, terms: Terms) -> Event {
    Event {
        nonce: crate::nonce::fresh(),
        verb: Verb::Claim(Claiming {
            terms,
            fingerprint: None,
            holder: Holder {
                session: local.session(),
                ..Holder::default()
            },
            can_confirm: false,
        }),
    }
}

fn tell(local: &Local, id: &str, verb: Verb, durability: Durability) -> Result<Decided> {
    let event = Event {
        nonce: crate::nonce::fresh(),
        verb,
    };
    local.update(&key(id), &event, None, durability).wait()
}

fn claim_with(local: &Local, id: &str, terms: Terms, durability: Durability) -> Result<Decided> {
    let event = claim_of(local, terms);
    local.update(&key(id), &event, None, durability).wait()
}

/// Claims a key that is free; the fence.
fn claim(local: &Local, id: &str) -> u64 {
    let decided = claim_with(local, id, terms(), Durability::Relaxed).expect("claims");
    assert!(matches!(decided.answer, Answer::Execute { .. }), "{id}");
    decided.record.expect("a record").fence
}

fn complete(local: &Local, id: &str, fence: u64, bytes: &[u8], durability: Durability) {
    let value = Some(Value::bytes(bytes));
    let decided = tell(local, id, Verb::Complete { fence, value }, durability).expect("completes");
    assert_eq!(decided.answer, Answer::Done { late: false }, "{id}");
}

/// Claims and completes.
fn put(local: &Local, id: &str, bytes: &[u8]) {
    let fence = claim(local, id);
    complete(local, id, fence, bytes, Durability::Relaxed);
}

fn replay(local: &Local, id: &str) -> Vec<u8> {
    let decided = claim_with(local, id, terms(), Durability::Relaxed).expect("claims");
    match decided.answer {
        Answer::Replay(value) => value.as_bytes().to_vec(),
        other => panic!("{id}: {other:?}"),
    }
}

fn row(bytes: Vec<u8>) -> Write {
    Write::Row(Row {
        version: 0,
        nonce: crate::nonce::fresh(),
        forgotten_at_us: NEVER_US,
        order: 0,
        bytes,
    })
}

fn load(local: &Local, keys: &[Key]) -> Vec<Seen> {
    let keys: Vec<&Key> = keys.iter().collect();
    local.load(&keys).wait().expect("loads")
}

/// A commit of what was read and what is written.
fn commit_of<'a>(
    reads: Vec<(&'a Key, u64)>,
    mut writes: Vec<(&'a Key, Write)>,
    durability: Durability,
    admission: Admission,
) -> Commit<'a> {
    let mut touched = |(key, version): (&'a Key, u64)| {
        let at = writes
            .iter()
            .position(|(written, _)| written.as_bytes() == key.as_bytes());
        Touched {
            key,
            version,
            write: at.map(|at| writes.swap_remove(at).1),
        }
    };
    Commit {
        keys: reads.into_iter().map(&mut touched).collect(),
        nonce: crate::nonce::fresh(),
        durability,
        admission,
    }
}

/// Writes these rows, whatever they were.
fn write_rows(local: &Local, keys: &[Key], bytes: impl Fn(usize) -> Vec<u8>) -> Result<Committed> {
    let seen = load(local, keys);
    let commit = commit_of(
        keys.iter()
            .zip(&seen)
            .map(|(key, seen)| (key, seen.version()))
            .collect(),
        keys.iter()
            .enumerate()
            .map(|(at, key)| (key, row(bytes(at))))
            .collect(),
        Durability::Sync,
        Admission::Claim,
    );
    local.commit(&commit).wait()
}

fn read_rows(local: &Local, keys: &[Key]) -> Vec<Option<Vec<u8>>> {
    let seen = load(local, keys);
    seen.iter()
        .map(|seen| seen.row().map(|row| row.bytes.clone()))
        .collect()
}

/// What is live, counted anew.
fn live_bytes(local: &Local) -> u64 {
    let index = &local.shared.index;
    (0..)
        .map_while(|shard| index.shard_hashes(shard))
        .flatten()
        .filter_map(|hash| index.home(&hash))
        .map(super::loc::Loc::entry_bytes)
        .sum()
}

fn assert_sound(local: &Local) {
    local.barrier().wait().expect("on disk");
    let found = local.verify().expect("verifies");
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    // The committer lets go of forgotten keys just after it has told that they are on disk.
    let settled = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(u64::from(
            local.facts().entries != found.live,
        )));
        local.facts().entries == found.live
    });
    assert!(
        settled,
        "{} live, {} stored",
        found.live,
        local.facts().entries
    );
    assert_eq!(local.facts().live_bytes, live_bytes(local));
}

fn log(local: &Local) -> &Arc<super::log::Log> {
    local.shared.log.as_ref().expect("a store with a log")
}
