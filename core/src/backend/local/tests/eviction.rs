//! Eviction between any two steps: a key that was executed is never executed again, and memory stays within its bound.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn tiny() -> Options {
    Options {
        cache_bytes: 1024, // next to nothing may stay in memory
        ..eager()
    }
}

#[test]
fn a_key_is_executed_once_whatever_is_put_out_of_memory_between() {
    const KEYS: usize = 300;
    let place = Place::new();
    for life in 0..3 {
        let local = place.open_with(tiny());
        let executed: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (local, executed) = (&local, &executed);
                scope.spawn(move || {
                    let mut dice = thread + 1;
                    for _ in 0..3_000 {
                        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let at = (dice >> 33) as usize % KEYS;
                        let id = format!("{life}-{at}");
                        let told = claim_with(local, &id, terms(), Durability::Relaxed);
                        let told = told.expect("answers");
                        match told.answer {
                            Answer::Execute { .. } => {
                                executed[at].fetch_add(1, Ordering::Relaxed);
                                let fence = told.record.expect("a record").fence;
                                if dice & 1 == 0 {
                                    std::thread::yield_now();
                                }
                                complete(local, &id, fence, id.as_bytes(), Durability::Relaxed);
                            }
                            Answer::Replay(value) => assert_eq!(value.as_bytes(), id.as_bytes()),
                            Answer::Busy { .. } => {}
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        assert!(
            executed
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 1)
        );
        assert_sound(&local);
    }
}

#[test]
fn reading_cold_records_keeps_memory_within_its_bound() {
    let place = Place::new();
    {
        let local = place.open();
        for at in 0..3_000 {
            put(&local, &format!("k{at}"), &[5; 2_000]);
        }
    }
    let local = place.open_with(Options {
        cache_bytes: 1 << 20,
        ..options()
    });
    for at in 0..3_000 {
        assert!(
            load(&local, &[key(&format!("k{at}"))])[0]
                .record()
                .is_some()
        );
    }
    let bytes = local.shared.index.hot_bytes();
    assert!(bytes < 1 << 20, "{bytes} bytes are in memory");
}

#[test]
fn claims_of_new_keys_do_not_read_the_log() {
    let place = Place::new();
    let local = place.open_with(tiny());
    for at in 0..2_000 {
        put(&local, &format!("old-{at}"), &[1; 100]);
    }
    local.barrier().wait().expect("on disk");
    let before = local.facts().cold_reads;
    for at in 0..2_000 {
        claim(&local, &format!("new-{at}"));
    }
    assert_eq!(local.facts().cold_reads, before);
}

#[test]
fn a_reader_that_kept_the_cell_of_a_forgotten_key_lets_it_go_himself() {
    let place = Place::new();
    let local = place.open();
    let (a, b) = (key("a"), key("b"));
    for id in ["a", "b"] {
        put(&local, id, b"x");
        let hash = local.shared.hash(key(id).as_bytes());
        let held = local.shared.index.find(&hash);
        tell(&local, id, Verb::Forget { fence: 0 }, Durability::Sync).expect("forgets");
        local.barrier().wait().expect("on disk");
        drop(held);
    }
    // The committer has come by while the cells were in use, and left them.
    assert!(load(&local, &[a])[0].record().is_none());
    let hash = local.shared.hash(b.as_bytes());
    assert!(local.shared.peek(&hash).expect("looks").is_none());
    assert_eq!(local.facts().entries, 0);
}

#[test]
fn one_key_that_comes_and_goes_for_ever_leaves_nothing_behind() {
    let index = super::super::index::Index::new(1 << 20);
    let hash = [1, 1];
    for round in 0..50_000 {
        let cell = index.find_or_make(&hash, u64::MAX);
        if round % 2 == 0 {
            index.evict(0); // while it is in use
        }
        drop(cell);
        index.discard_if_vacant(&hash);
        index.evict(0);
    }
    assert_eq!(index.len(), 0);
    let listed = index.listed();
    assert!(
        listed < 10_000,
        "{listed} are kept of one key that is absent"
    );
}
