//! Calls that another process has sent, perhaps for another time: the same call again answers the same.

use std::borrow::Cow;

use crate::backend::local::Local;
use crate::backend::{
    Admission, Backend, Commit, Committed, Decided, Durability, Op, Touched, Turn, Write,
};
use crate::codec::{Content, Row};
use crate::error::{Error, Result};
use crate::key::{Key, Namespace};
use crate::lifecycle::{Answer, Event, Verb};
use crate::record::{Record, State};
use crate::time::after;

use super::frame::Part;

/// How long it is remembered that a commit of another process was made: longer than any call is sent again.
const REMEMBERED_US: u64 = 120_000_000;
/// After this nobody can be sure that it is still remembered, whoever stood still meanwhile.
const ASKED_AGAIN_US: u64 = REMEMBERED_US / 2;
/// What marks the row that remembers it.
const MARK: &[u8] = b"semel: this commit was made";

/// An event for one key. Most know by their nonce that they were taken up before.
pub(super) fn update<'a>(
    local: &'a Local,
    key: &'a Key,
    event: &'a Event,
    turn: Option<Turn>,
    durability: Durability,
    again: bool,
) -> Op<'a, Result<Decided>> {
    let op = local.update(key, event, turn, durability);
    match event.verb {
        // What was let go of is not there to remember it.
        Verb::Unlock { .. } if again => Op::later(async move {
            let decided = op.await?;
            Ok(match (&decided.answer, &decided.record) {
                (Answer::Lost, None) => Decided {
                    answer: Answer::Done { late: false },
                    record: None,
                },
                _ => decided,
            })
        }),
        _ => op,
    }
}

/// A commit, with a row that remembers for a while that it was made: by the time it is sent again, others may have written
/// what it wrote. `asked_us`: when it was asked for at first.
pub(super) async fn commit(
    local: &Local,
    mut commit: Commit<'_>,
    asked_us: u64,
    again: bool,
) -> Result<Committed> {
    if commit.keys.iter().all(|touched| touched.write.is_none()) {
        return local.commit(&commit).await;
    }
    let made = Key::row(
        Namespace::Made,
        ("commit", "commit"),
        ("nonce", &format!("{:016x}", commit.nonce)),
    )?;
    if again {
        let seen = local.load(&[&made]).await?;
        if seen.iter().any(|seen| seen.row().is_some()) {
            return made_before(local, &commit).await;
        }
        if local.clock().now_us() >= after(asked_us, ASKED_AGAIN_US) {
            return Err(Error::unavailable(
                "the process that held the store ended over a commit, and this one, or the machine, stood still meanwhile: whether it was made is unknown; read what it wrote before it is made again",
            ));
        }
    }
    let at = commit.keys.len();
    let row = Row {
        version: 0,
        nonce: commit.nonce,
        forgotten_at_us: after(local.clock().now_us(), REMEMBERED_US),
        order: 0,
        bytes: MARK.to_vec(),
    };
    commit.keys.push(Touched {
        key: &made,
        version: 0,
        write: Some(Write::Row(row)),
    });
    let committed = local.commit(&commit).await?;
    commit.keys.truncate(at);
    Ok(match committed {
        Committed::Conflict(place) if place == at => return made_before(local, &commit).await,
        Committed::Conflict(place) => Committed::Conflict(place),
        Committed::Written(mut contents) => {
            contents.retain(|content| !matches!(content, Content::Row(row) if row.bytes == MARK));
            Committed::Written(contents)
        }
    })
}

/// The answer to a commit that was made before.
async fn made_before(local: &Local, commit: &Commit<'_>) -> Result<Committed> {
    let written: Vec<(usize, &Touched<'_>)> = commit
        .keys
        .iter()
        .enumerate()
        .filter(|(_, touched)| touched.write.is_some())
        .collect();
    let keys: Vec<&Key> = written.iter().map(|(_, touched)| touched.key).collect();
    let seen = local.load(&keys).await?;
    for ((place, touched), seen) in written.iter().zip(&seen) {
        // A claim that was granted, and that another holds by now, is granted no more.
        let claims = |record: &Record| {
            commit.admission == Admission::Claim
                && matches!(record.state, State::Running { .. })
                && record.claim_nonce == commit.nonce
        };
        if let Some(Write::Record(record)) = &touched.write
            && claims(record)
            && !seen.record().is_some_and(|record| claims(record))
        {
            return Ok(Committed::Conflict(*place));
        }
    }
    let contents = seen.into_iter().filter_map(|seen| seen.content);
    Ok(Committed::Written(contents.collect()))
}

/// The keys of a commit, to be sent.
pub(super) fn parts<'q>(commit: &'q Commit<'_>) -> Vec<Part<'q>> {
    let parts = commit.keys.iter().map(|touched| Part {
        key: Cow::Borrowed(touched.key.as_bytes()),
        version: touched.version,
        write: Cow::Borrowed(&touched.write),
    });
    parts.collect()
}

#[cfg(test)]
pub(super) use tests::local;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::local::{Options, Tuning};
    use crate::backend::wait;
    use crate::time::{Clock, NEVER_US};

    fn now(local: &Local) -> u64 {
        local.clock().now_us()
    }

    pub(in super::super) fn local() -> Local {
        local_by(Clock::system())
    }

    fn local_by(clock: Clock) -> Local {
        let options = Options {
            commit_interval: std::time::Duration::from_millis(5),
            cache_bytes: 1 << 20,
            max_records: u64::MAX,
            max_result_bytes: 1 << 20,
            sweep_interval: None,
            archive: None,
            accept_rollback: false,
            accept_clock: false,
            lock_timeout: None,
            tuning: Tuning::default(),
        };
        Local::in_memory(options, clock).expect("opens")
    }

    fn key(id: &str) -> Key {
        Key::row(Namespace::Table, ("table", "t"), ("row", id)).expect("a key")
    }

    fn row(text: &str) -> Option<Write> {
        Some(Write::Row(Row {
            version: 0,
            nonce: 0,
            forgotten_at_us: NEVER_US,
            order: 0,
            bytes: text.into(),
        }))
    }

    fn asked<'k>(key: &'k Key, version: u64, text: &str, nonce: u64) -> Commit<'k> {
        Commit {
            keys: vec![Touched {
                key,
                version,
                write: row(text),
            }],
            nonce,
            durability: Durability::Sync,
            admission: Admission::Claim,
        }
    }

    fn holds(local: &Local, key: &Key) -> (u64, String) {
        let seen = wait(local.load(&[key])).expect("loads").remove(0);
        let row = seen.row().expect("a row");
        (
            row.version,
            String::from_utf8(row.bytes.clone()).expect("text"),
        )
    }

    #[test]
    fn a_commit_that_is_here_again_is_not_made_again() {
        let local = local();
        let key = key("a");
        let first = || asked(&key, 0, "first", 7);
        let told = wait(commit(&local, first(), now(&local), false)).expect("commits");
        assert!(
            matches!(&told, Committed::Written(contents) if contents.len() == 1),
            "{told:?}"
        );
        // Nobody wrote since: the same answer, and no other version.
        let (version, _) = holds(&local, &key);
        let again = wait(commit(&local, first(), now(&local), true)).expect("is told");
        assert!(matches!(again, Committed::Written(_)), "{again:?}");
        assert_eq!(holds(&local, &key), (version, "first".to_owned()));
        // Somebody else wrote since: it was made all the same, and what he wrote stays.
        let other = wait(commit(
            &local,
            asked(&key, version, "second", 9),
            now(&local),
            false,
        ));
        assert!(matches!(other, Ok(Committed::Written(_))), "{other:?}");
        let again = wait(commit(&local, first(), now(&local), true)).expect("is told");
        assert!(matches!(again, Committed::Written(_)), "{again:?}");
        assert_eq!(holds(&local, &key).1, "second");
        // One that never came is made when it comes, and one that has lost is told so.
        let late = wait(commit(
            &local,
            asked(&key, holds(&local, &key).0, "third", 11),
            now(&local),
            true,
        ));
        assert!(matches!(late, Ok(Committed::Written(_))), "{late:?}");
        assert_eq!(holds(&local, &key).1, "third");
        let lost = wait(commit(
            &local,
            asked(&key, version, "fourth", 13),
            now(&local),
            true,
        ));
        assert!(matches!(lost, Ok(Committed::Conflict(0))), "{lost:?}");
        assert_eq!(holds(&local, &key).1, "third");
    }

    #[test]
    fn a_commit_that_is_here_again_too_late_to_be_remembered_is_not_made() {
        use std::time::Duration;
        let clock = Clock::manual(Duration::from_secs(1_800_000_000));
        let local = local_by(clock.clone());
        let key = key("a");
        let asked_us = now(&local);
        let first = || asked(&key, 0, "first", 7);
        wait(commit(&local, first(), asked_us, false)).expect("commits");
        clock.advance(Duration::from_micros(REMEMBERED_US));
        local.sweep().expect("sweeps");
        // It would be told of a conflict, and its caller would do it again.
        let told = wait(commit(&local, first(), asked_us, true)).expect_err("nobody knows");
        assert_eq!(told.kind(), crate::ErrorKind::Unavailable);
        assert_eq!(holds(&local, &key).1, "first");
    }
}
