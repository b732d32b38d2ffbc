//! Opening: what was on disk is there, the clock is what it was, and fences only rise.

use super::*;

#[test]
fn opening_again_and_again_does_not_move_the_clock() {
    let place = Place::new();
    let clock = Clock::manual(Duration::from_secs(1_800_000_000));
    for life in 0..20 {
        let local = open_at(&place.path, options(), clock.clone());
        assert_eq!(local.clock().now_us(), 1_800_000_000_000_000, "life {life}");
        put(&local, &format!("k{life}"), b"x");
    }
}

#[test]
fn fences_rise_over_every_opening_also_when_the_clock_is_an_hour_back() {
    let place = Place::new();
    let mut last = 0;
    for wall in [1_800_000_000, 1_799_996_400, 1_799_990_000, 1_800_000_000] {
        let local = open_at(
            &place.path,
            options(),
            Clock::manual(Duration::from_secs(wall)),
        );
        for _ in 0..3 {
            let fence = claim(&local, "a");
            assert!(fence > last, "{fence} after {last}");
            last = fence;
            tell(&local, "a", Verb::Forget { fence: 0 }, Durability::Sync).expect("busy or gone");
            tell(&local, "a", Verb::Release { fence }, Durability::Sync).expect("releases");
            tell(&local, "a", Verb::Forget { fence: 0 }, Durability::Sync).expect("forgets");
        }
    }
}

#[test]
fn leases_that_ran_at_the_end_are_watched_after_opening() {
    let place = Place::new();
    {
        let local = place.open_with(eager());
        for at in 0..500 {
            let fence = claim(&local, &format!("k{at}"));
            match at % 3 {
                0 => complete(&local, &format!("k{at}"), fence, b"x", Durability::Relaxed),
                1 => {
                    let verb = Verb::Release { fence };
                    tell(&local, &format!("k{at}"), verb, Durability::Relaxed).expect("releases");
                }
                _ => {}
            }
        }
    }
    let local = place.open();
    let open = local.open_records(NEVER_US, 1_000).expect("lists");
    assert_eq!(open.len(), 333);
    let before = local.facts().cold_reads;
    drop(local);
    // The scan alone tells which they are: no record is read for it.
    let local = place.open();
    assert!(before > 0);
    assert_eq!(local.facts().cold_reads, 0);
}
