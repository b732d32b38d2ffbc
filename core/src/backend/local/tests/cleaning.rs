//! Cleaning: the log stays bounded, whatever is written, and nothing that is live is lost by it.

use super::*;

fn options_with(slack_bytes: u64) -> Options {
    Options {
        tuning: Tuning {
            slack_bytes,
            ..Tuning::default()
        },
        ..options()
    }
}

/// Bytes that tell which key they belong to.
fn marked(at: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![at as u8; length];
    bytes[..8].copy_from_slice(&(at as u64).to_le_bytes());
    bytes
}

const SURVIVOR_BYTES: [usize; 8] = [20, 200, 3_000, 3_880, 5_000, 100_000, 300, 400_000];

fn survivor(at: usize) -> Vec<u8> {
    marked(at, SURVIVOR_BYTES[at % SURVIVOR_BYTES.len()])
}

fn assert_survivors(local: &Local, count: usize) {
    for at in 0..count {
        assert!(
            replay(local, &format!("kept-{at}")) == survivor(at),
            "kept-{at}"
        );
    }
}

#[test]
fn churn_among_survivors_of_all_lengths_keeps_the_log_bounded() {
    const SLACK: u64 = 2 << 20;
    let place = Place::new();
    let survivors = 64;
    {
        let local = place.open_with(options_with(SLACK));
        let mut most = 0;
        for round in 0..40 {
            for at in
                (0..survivors).filter(|at| round == 0 && at % 2 == 0 || round == 20 && at % 2 == 1)
            {
                put(&local, &format!("kept-{at}"), &survivor(at));
            }
            for at in 0..150 {
                let id = format!("churn-{at}");
                let length = if at % 30 == 0 { 50_000 } else { 700 };
                put(&local, &id, &marked(at, length));
                tell(&local, &id, Verb::Forget { fence: 0 }, Durability::Relaxed).expect("forgets");
            }
            local.barrier().wait().expect("on disk");
            let facts = local.facts();
            most = most.max(facts.log_bytes.saturating_sub(2 * facts.live_bytes));
        }
        assert!(most < 3 * SLACK, "the log got {most} bytes over its bound");
        assert_survivors(&local, survivors);
        assert_sound(&local);
    }
    let local = place.open_with(options_with(SLACK));
    assert_survivors(&local, survivors);
    assert_eq!(local.facts().entries, survivors as u64);
    assert_sound(&local);
}

#[test]
fn long_values_alone_keep_the_log_bounded() {
    const SLACK: u64 = 2 << 20;
    let place = Place::new();
    let local = place.open_with(options_with(SLACK));
    put(&local, "kept-5", &survivor(5));
    for round in 0..60 {
        let id = format!("long-{round}");
        put(&local, &id, &marked(round, 700_000));
        tell(&local, &id, Verb::Forget { fence: 0 }, Durability::Sync).expect("forgets");
    }
    let facts = local.facts();
    assert!(
        facts.log_bytes < 2 * facts.live_bytes + 4 * SLACK,
        "{facts:?}"
    );
    assert!(replay(&local, "kept-5") == survivor(5));
    assert_sound(&local);
}

#[test]
fn a_result_whose_time_is_over_is_dropped_when_it_is_copied() {
    for length in [500, 200_000] {
        let place = Place::new();
        let clock = Clock::manual(Duration::from_secs(1_800_000_000));
        let local = open_at(&place.path, eager(), clock.clone());
        let remembered = Terms {
            retain_us: 60_000_000,
            remember_us: NEVER_US,
            ..terms()
        };
        let decided = claim_with(&local, "old", remembered, Durability::Relaxed).expect("claims");
        let fence = decided.record.expect("a record").fence;
        complete(&local, "old", fence, &vec![1; length], Durability::Sync);
        let first_home = local
            .shared
            .index
            .home(&local.shared.hash(key("old").as_bytes()));
        clock.advance(Duration::from_secs(61));
        let home = || {
            local
                .shared
                .index
                .home(&local.shared.hash(key("old").as_bytes()))
        };
        for round in 0.. {
            assert!(round < 10_000, "never copied");
            put(&local, &format!("churn-{round}"), &[1; 3_000]);
            tell(
                &local,
                &format!("churn-{round}"),
                Verb::Forget { fence: 0 },
                Durability::Sync,
            )
            .expect("forgets");
            if home() != first_home {
                break;
            }
        }
        assert!(
            home().expect("stored").entry_bytes() < 300,
            "{home:?}",
            home = home()
        );
        let decided = claim_with(&local, "old", terms(), Durability::Relaxed).expect("claims");
        assert_eq!(decided.answer, Answer::Gone);
        drop(local);
        let local = open_at(&place.path, eager(), clock);
        let decided = claim_with(&local, "old", terms(), Durability::Relaxed).expect("claims");
        assert_eq!(decided.answer, Answer::Gone);
        assert_sound(&local);
    }
}

#[test]
fn what_was_forgotten_does_not_come_back_while_its_marker_is_cleaned() {
    let place = Place::new();
    for life in 0..6 {
        let local = place.open_with(eager());
        for at in 0..300 {
            let id = format!("gone-{at}");
            let decided = claim_with(&local, &id, terms(), Durability::Relaxed).expect("claims");
            assert!(
                matches!(decided.answer, Answer::Execute { .. }),
                "life {life}: {id} came back: {:?}",
                decided.answer
            );
            let fence = decided.record.expect("a record").fence;
            complete(&local, &id, fence, &[2; 600], Durability::Relaxed);
        }
        local.barrier().wait().expect("on disk");
        for at in 0..300 {
            let id = format!("gone-{at}");
            tell(&local, &id, Verb::Forget { fence: 0 }, Durability::Relaxed).expect("forgets");
        }
        assert_sound(&local);
        assert_eq!(local.facts().entries, 0, "life {life}");
    }
}

#[test]
fn verifying_a_store_that_cleans_meanwhile_finds_nothing_wrong() {
    let place = Place::new();
    let local = place.open_with(eager());
    for at in 0..400 {
        put(&local, &format!("kept-{at}"), &marked(at, 900));
    }
    // What a batch removes is off the disk a moment before the store knows where its log begins.
    *log(&local).disk.after_write.lock() = Some(Box::new(|| {
        std::thread::sleep(Duration::from_millis(2));
    }));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for at in 0..100 {
                    let id = format!("churn-{at}");
                    put(&local, &id, &marked(at, 900));
                    tell(&local, &id, Verb::Forget { fence: 0 }, Durability::Relaxed)
                        .expect("forgets");
                }
            }
        });
        let found: Vec<String> = (0..200)
            .flat_map(|_| local.verify().expect("verifies").problems)
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(found.is_empty(), "{found:?}");
    });
    assert_sound(&local);
}
