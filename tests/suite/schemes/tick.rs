//! Periodic work: once in its period, on whichever node, whatever the clock does.

use std::time::Duration;

use semel::ErrorKind;

use super::{Place, SECOND, START_S, TICK, kind, on_each, threads};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn periods_are_days_of_utc_and_each_fires_once() {
    on_each(|place| {
        let store = place.open(); // midnight
        let tick = || store.tick("report", DAY).expect("answers");
        assert_eq!((tick(), tick()), (true, false));
        place.clock.advance(DAY - TICK);
        assert!(!tick());
        place.clock.advance(TICK);
        assert_eq!((tick(), tick()), (true, false));
        // A day that nobody asked in is not made up for.
        place.clock.advance(DAY * 3);
        assert_eq!((tick(), tick()), (true, false));
        // Another name is other work.
        assert!(store.tick("cleanup", DAY).expect("answers"));
    });
}

#[test]
fn a_second_firing_within_a_tenth_of_the_period_is_refused() {
    on_each(|place| {
        let store = place.open();
        let tick = || store.tick("report", DAY).expect("answers");
        place.clock.advance(DAY - SECOND); // late in the day
        assert!(tick());
        place.clock.advance(SECOND); // a new day
        assert!(!tick());
        place.clock.advance(DAY / 10 - SECOND - TICK);
        assert!(!tick());
        place.clock.advance(TICK);
        assert_eq!((tick(), tick()), (true, false));
    });
}

#[test]
fn a_clock_that_was_set_back_fires_nothing_again() {
    for back in [SECOND, DAY, DAY * 400] {
        let place = Place::directory();
        place.clock.advance(DAY * 500);
        let now = Duration::from_secs(START_S) + DAY * 500;
        assert!(place.open().tick("report", DAY).expect("answers"));
        place.clock.step_wall(now - back);
        let store = place.open();
        assert!(
            !store.tick("report", DAY).expect("answers"),
            "{back:?} back"
        );
        place.clock.advance(DAY);
        assert!(
            store.tick("report", DAY).expect("answers"),
            "the next day fires"
        );
    }
}

#[test]
fn nodes_that_disagree_on_the_period_do_not_fire_by_turns() {
    on_each(|place| {
        let store = place.open();
        let mut fired = 0;
        for _ in 0..24 * 6 {
            for every in [DAY, DAY / 2] {
                fired += u32::from(store.tick("report", every).expect("answers"));
            }
            place.clock.advance(DAY / 24 / 6);
        }
        assert_eq!(fired, 2, "as often as the shorter period");
    });
}

#[test]
fn of_sixty_four_who_ask_at_once_one_is_told_to_run() {
    on_each(|place| {
        let store = place.open();
        for _ in 0..4 {
            let told = threads(64, |_| store.tick("report", SECOND).expect("answers"));
            assert_eq!(told.iter().filter(|told| **told).count(), 1);
            place.clock.advance(SECOND);
        }
    });
}

#[test]
fn what_is_no_period_is_refused() {
    let store = Place::memory().open();
    for every in [Duration::ZERO, Duration::from_millis(10) - TICK] {
        assert_eq!(kind(store.tick("report", every)), ErrorKind::InvalidInput);
    }
    assert_eq!(kind(store.tick("", DAY)), ErrorKind::InvalidInput);
    assert!(store.tick("report", Duration::MAX).expect("answers"));
    assert!(!store.tick("report", Duration::MAX).expect("answers"));
}
