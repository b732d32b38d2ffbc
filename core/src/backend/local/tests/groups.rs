//! Commits of many keys: all or nothing, also when they take many batches and the power fails between two of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::error::Error;

/// Lets so many batches through, then fails every one: the log on disk is as a power cut would have left it.
fn fail_after(local: &Local, batches: usize) {
    let mut left = batches;
    *log(local).disk.before_write.lock() = Some(Box::new(move |_| match left {
        0 => Err(Error::unavailable("the power is out")),
        _ => {
            left -= 1;
            Ok(())
        }
    }));
}

fn keys(count: usize) -> Vec<Key> {
    (0..count).map(|at| key(&format!("row-{at}"))).collect()
}

/// Rows of which some take many blocks each and most share one; 2 MB in all.
fn bytes(at: usize, fill: u8) -> Vec<u8> {
    vec![
        fill;
        match at % 100 {
            7 => 60_000,
            _ => 200 + at % 500,
        }
    ]
}

fn assert_all(local: &Local, keys: &[Key], fill: u8, when: &str) {
    for (at, found) in read_rows(local, keys).into_iter().enumerate() {
        assert_eq!(
            found.as_deref(),
            Some(&bytes(at, fill)[..]),
            "{when}, row {at}"
        );
    }
}

#[test]
fn a_commit_cut_at_any_batch_leaves_what_was_there_before() {
    let place = Place::new();
    let keys = keys(2_000);
    {
        let local = place.open_with(eager());
        write_rows(&local, &keys, |at| bytes(at, 1)).expect("commits");
    }
    for cut in [0, 1, 2, 5, 9, 14, 20, 30] {
        {
            let local = place.open_with(eager());
            assert_all(&local, &keys, 1, "opened");
            // So much is dead that every batch cleans, and looks at what the commit is about to replace.
            for round in 0..3 {
                for at in 0..200 {
                    put(&local, &format!("churn-{cut}-{round}-{at}"), &[7; 2_000]);
                }
                local.barrier().wait().expect("on disk");
                for at in 0..200 {
                    let id = format!("churn-{cut}-{round}-{at}");
                    tell(&local, &id, Verb::Forget { fence: 0 }, Durability::Relaxed)
                        .expect("forgets");
                }
            }
            local.barrier().wait().expect("on disk");
            assert_all(&local, &keys, 1, "before the cut");
            fail_after(&local, cut);
            let told = write_rows(&local, &keys, |at| bytes(at, 2));
            assert!(told.is_err(), "{cut} batches cannot have been enough");
        }
        let local = place.open_with(eager());
        assert_all(&local, &keys, 1, &format!("cut after {cut} batches"));
        assert_sound(&local);
        // What comes later does not bring the unfinished end back.
        for at in 0..50 {
            put(&local, &format!("later-{cut}-{at}"), &[3; 300]);
        }
        assert_all(&local, &keys, 1, "with later writes");
        drop(local);
        assert_all(&place.open_with(eager()), &keys, 1, "reopened");
    }
    let local = place.open_with(eager());
    write_rows(&local, &keys, |at| bytes(at, 2)).expect("commits");
    drop(local);
    assert_all(&place.open_with(eager()), &keys, 2, "whole");
}

#[test]
fn a_claim_that_was_acknowledged_survives_a_commit_that_was_cut() {
    for cut in 1..12 {
        let place = Place::new();
        let keys = keys(2_000);
        let fence = {
            let local = place.open();
            let held = AtomicBool::new(true);
            // The first batch waits, so that the claim and the commit meet in the next.
            let (go, gone) = std::sync::mpsc::channel::<()>();
            let mut batches = 0;
            *log(&local).disk.before_write.lock() = Some(Box::new(move |_| {
                batches += 1;
                if batches == 1 {
                    let _ = gone.recv();
                }
                match batches > cut + 1 {
                    true => Err(Error::unavailable("the power is out")),
                    false => Ok(()),
                }
            }));
            std::thread::scope(|scope| {
                claim(&local, "first");
                let local = &local;
                let keys = &keys;
                while local.shared.queue.bytes() == 0 {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(5));
                let claiming =
                    scope.spawn(|| claim_with(local, "row-0", terms(), Durability::Sync));
                while local.shared.index.len() < 2 {
                    std::thread::yield_now();
                }
                let committing = scope.spawn(move || {
                    let reads: Vec<(&Key, u64)> = keys
                        .iter()
                        .enumerate()
                        .map(|(at, key)| (key, version_now(local, at, key)))
                        .collect();
                    let writes = keys
                        .iter()
                        .enumerate()
                        .map(|(at, key)| (key, row(bytes(at, 2))))
                        .collect();
                    let commit = commit_of(reads, writes, Durability::Sync, Admission::Claim);
                    local.commit(&commit).wait()
                });
                std::thread::sleep(Duration::from_millis(20));
                drop(go);
                let claimed = claiming.join().expect("no panic");
                assert!(committing.join().expect("no panic").is_err());
                held.store(claimed.is_ok(), Ordering::Relaxed);
                claimed
                    .ok()
                    .and_then(|decided| decided.record)
                    .map(|record| record.fence)
            })
        };
        let local = place.open();
        let seen = load(&local, &keys[..1]);
        match fence {
            Some(fence) => assert_eq!(seen[0].record().map(|record| record.fence), Some(fence)),
            None => assert!(cut < 2, "the claim was in the second batch"),
        }
    }
}

/// The version of a key as memory has it, durable or not.
fn version_now(local: &Local, at: usize, key: &Key) -> u64 {
    if at != 0 {
        return 0;
    }
    let hash = local.shared.hash(key.as_bytes());
    let cell = local.shared.index.find(&hash).expect("claimed");
    let state = cell.lock();
    state.held().content().map_or(0, Content::version)
}

#[test]
fn no_reader_sees_half_of_a_commit() {
    let place = Place::new();
    let local = place.open();
    let pair = [key("a"), key("b")];
    write_rows(&local, &pair, |_| vec![0]).expect("commits");
    let (stop, looks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (local, stop, looks) = (&local, &stop, &looks);
            let keys = if reader == 0 {
                [key("a"), key("b")]
            } else {
                [key("b"), key("a")]
            };
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seen = load(local, &keys);
                    let commit = commit_of(
                        vec![(&keys[0], seen[0].version()), (&keys[1], seen[1].version())],
                        Vec::new(),
                        Durability::Sync,
                        Admission::Finish,
                    );
                    if let Committed::Written(_) = local.commit(&commit).wait().expect("reads") {
                        let bytes = |at: usize| seen[at].row().map(|row| row.bytes.clone());
                        assert_eq!(bytes(0), bytes(1));
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 1..150u8 {
            write_rows(&local, &pair, |_| vec![round]).expect("commits");
        }
        while looks.load(Ordering::Relaxed) < 50 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn commits_that_name_the_same_keys_in_either_order_do_not_stall() {
    let place = Place::new();
    let local = place.open();
    let names: Vec<String> = (0..64).map(|at| format!("k{at}")).collect();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (local, names) = (&local, &names);
            scope.spawn(move || {
                for round in 0..200usize {
                    let (a, b) = (&names[round % 64], &names[(round * 7 + 1) % 64]);
                    if a == b {
                        continue;
                    }
                    let pair = if thread % 2 == 0 {
                        [key(a), key(b)]
                    } else {
                        [key(b), key(a)]
                    };
                    let seen = load(local, &pair);
                    let commit = commit_of(
                        vec![(&pair[0], seen[0].version()), (&pair[1], seen[1].version())],
                        vec![
                            (&pair[0], row(vec![thread as u8])),
                            (&pair[1], row(vec![thread as u8])),
                        ],
                        Durability::Relaxed,
                        Admission::Finish,
                    );
                    local.commit(&commit).wait().expect("commits or conflicts");
                }
            });
        }
    });
    assert_sound(&local);
}

#[test]
fn a_commit_that_is_sent_again_answers_as_the_first_time() {
    let place = Place::new();
    let local = place.open();
    let keys = [key("a"), key("b")];
    let commit = commit_of(
        vec![(&keys[0], 0), (&keys[1], 0)],
        vec![(&keys[0], row(vec![1])), (&keys[1], row(vec![2]))],
        Durability::Sync,
        Admission::Claim,
    );
    assert!(matches!(
        local.commit(&commit).wait(),
        Ok(Committed::Written(_))
    ));
    assert!(matches!(
        local.commit(&commit).wait(),
        Ok(Committed::Written(_))
    ));
    assert_eq!(
        load(&local, &keys)[0].row().map(|row| row.nonce),
        Some(commit.nonce)
    );
    // Another commit of the same reads is another one.
    let other = commit_of(
        vec![(&keys[0], 0), (&keys[1], 0)],
        vec![(&keys[0], row(vec![3]))],
        Durability::Sync,
        Admission::Claim,
    );
    assert!(matches!(
        local.commit(&other).wait(),
        Ok(Committed::Conflict(_))
    ));
}

#[test]
fn a_commit_that_is_refused_leaves_no_cells_behind() {
    let place = Place::new();
    let local = place.open_with(Options {
        max_records: 5,
        ..options()
    });
    let keys = keys(10);
    let told = write_rows(&local, &keys, |_| vec![1]);
    assert!(told.is_err());
    assert_eq!(local.facts().entries, 0);
}
