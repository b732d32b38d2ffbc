//! Ids: never the same one twice, whatever the clock does, and in order.

use std::collections::HashSet;
use std::time::Duration;

use semel::{Clock, ErrorKind, Store};

use super::{Place, START_S, TICK, kind, on_each, threads};

#[test]
fn a_clock_that_steps_back_between_openings_makes_no_snowflake_twice() {
    for back in [
        Duration::from_millis(1),
        Duration::from_secs(1),
        Duration::from_secs(3600),
    ] {
        let place = Place::directory();
        let mut seen = HashSet::new();
        let mut highest = 0;
        for life in 0..4u32 {
            let store = place.open();
            for _ in 0..3 {
                let id = store.ids().snowflake().expect("makes one");
                assert!(seen.insert(id), "{back:?} back: {id} again in life {life}");
                assert!(
                    life == 0 || id >> 22 >= highest >> 22,
                    "the time of an id does not fall"
                );
                highest = highest.max(id);
                place.clock.advance(TICK);
            }
            // Within a life a step of the wall clock moves nothing.
            place.clock.step_wall(Duration::from_secs(START_S) - back);
            assert!(seen.insert(store.ids().snowflake().expect("makes one")));
        }
    }
}

#[test]
fn snowflakes_that_are_made_faster_than_the_clock_goes_are_in_order_and_do_not_wait_for_ever() {
    on_each(|place| {
        let store = place.open(); // its clock stands still
        let ids: Vec<i64> = (0..20_000)
            .map(|_| store.ids().snowflake().expect("makes one"))
            .collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        place.clock.advance(Duration::from_secs(60));
        assert!(store.ids().snowflake().expect("makes one") > ids[ids.len() - 1]);
    });
}

#[test]
fn eight_threads_and_many_openings_share_no_snowflake() {
    let place = Place::directory();
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let store = place.open_live();
        let made = threads(8, |_| -> Vec<i64> {
            (0..500)
                .map(|_| store.ids().snowflake().expect("makes one"))
                .collect()
        });
        for id in made.into_iter().flatten() {
            assert!(id > 0 && seen.insert(id));
        }
    }
}

#[test]
fn a_clock_before_the_ids_time_or_behind_it_makes_no_id_twice() {
    let early = Store::builder("memory:")
        .clock(Clock::manual(Duration::from_secs(1)))
        .open()
        .expect("opens");
    let ids: HashSet<i64> = (0..10_000)
        .map(|_| early.ids().snowflake().expect("makes one"))
        .collect();
    assert_eq!(ids.len(), 10_000);
    for years in [70, 150, 400] {
        let late = Clock::manual(Duration::from_secs(START_S + years * 366 * 86_400));
        let store = Store::builder("memory:").clock(late).open().expect("opens");
        assert_eq!(
            kind(store.ids().snowflake()),
            ErrorKind::InvalidInput,
            "in {years} years"
        );
    }
}

#[test]
fn a_segment_counts_from_one_and_leaves_out_what_a_closed_store_had_taken() {
    let place = Place::directory();
    let take = |count: usize| -> Vec<u64> {
        let store = place.open();
        (0..count)
            .map(|_| store.ids().segment("orders").expect("takes"))
            .collect()
    };
    assert_eq!(take(3), [1, 2, 3]);
    assert_eq!(take(2), [1001, 1002]);
    let long = take(2500);
    assert_eq!(
        (long[0], long[999], long[1000], long[2499]),
        (2001, 3000, 3001, 4500)
    );
    let store = place.open();
    assert_eq!(
        store.ids().segment("invoices").expect("takes"),
        1,
        "another sequence"
    );
    assert_eq!(kind(store.ids().segment("")), ErrorKind::InvalidInput);
}

#[test]
fn eight_threads_share_no_number_of_a_segment() {
    on_each(|place| {
        let store = place.open();
        let taken = threads(8, |_| -> Vec<u64> {
            (0..700)
                .map(|_| store.ids().segment("orders").expect("takes"))
                .collect()
        });
        for own in &taken {
            assert!(own.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let all: HashSet<u64> = taken.into_iter().flatten().collect();
        assert_eq!(all, (1..=5600).collect());
    });
}

#[test]
fn a_uuid_is_of_version_7_by_time_and_in_order() {
    on_each(|place| {
        let store = place.open();
        let ids: Vec<String> = (0..2000)
            .map(|_| store.ids().uuid7().expect("makes one"))
            .collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        for id in &ids {
            let bytes = id.as_bytes();
            assert_eq!(
                (
                    id.len(),
                    bytes[8],
                    bytes[13],
                    bytes[14],
                    bytes[18],
                    bytes[23]
                ),
                (36, b'-', b'-', b'7', b'-', b'-')
            );
            assert!(
                matches!(bytes[19], b'8' | b'9' | b'a' | b'b'),
                "the variant of RFC 9562: {id}"
            );
        }
        let ms = u64::from_str_radix(&ids[0].replace('-', "")[..12], 16).expect("hex");
        assert!((START_S * 1000..START_S * 1000 + 10_000).contains(&ms));
    });
}
