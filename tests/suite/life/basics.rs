//! The main path on a durable store: once, replayed ever after, held when nobody knows.

use std::time::Duration;

use semel::{Claim, Policy, Request, Resolution, RunError, Store};

use super::fixture::directory as dir;

#[test]
fn a_result_is_replayed_also_after_reopening() {
    let (_dir, path) = dir();
    let request = Request::new("order.create", "ORDER_1")
        .payload(&("cup", 2))
        .expect("payload");
    {
        let store = Store::open(&path).expect("opens");
        let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
            panic!("first")
        };
        ticket.complete("created").expect("completes");
        let Claim::Replay(replay) = store.claim(&request).expect("claims") else {
            panic!("second")
        };
        assert_eq!(replay.decode::<String>().expect("decodes"), "created");
    }
    let store = Store::open(&path).expect("reopens");
    let Claim::Replay(replay) = store.claim(&request).expect("claims") else {
        panic!("third")
    };
    assert_eq!(replay.decode::<String>().expect("decodes"), "created");
    let other = Request::new("order.create", "ORDER_1")
        .payload(&("cup", 3))
        .expect("payload");
    assert_eq!(store.claim(&other).expect("claims").name(), "mismatch");
    assert!(store.verify().expect("verifies").problems.is_empty());
}

#[test]
fn sixty_four_threads_on_one_key_run_it_once() {
    let (_dir, path) = dir();
    let store = Store::open(&path).expect("opens");
    let ran = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let request = Request::new("pay", "P-1").wait(Duration::from_secs(20));
                let value = store.run(&request, |_| {
                    std::thread::sleep(Duration::from_millis(20));
                    Ok::<_, std::io::Error>(ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
                });
                assert_eq!(value.expect("runs or replays"), 0);
            });
        }
    });
    assert_eq!(ran.into_inner(), 1);
    assert_eq!(store.stats().totals().replayed, 63);
}

#[test]
fn what_ends_with_unknown_effect_is_held_until_resolved() {
    let (_dir, path) = dir();
    let store = Store::open(&path).expect("opens");
    let request = Request::new("pay", "P-2");
    let failed = store.run(&request, |_| {
        Err::<(), _>(std::io::Error::other("connection reset"))
    });
    assert!(matches!(failed, Err(RunError::Work(_))));
    let Claim::InDoubt(doubt) = store.claim(&request).expect("claims") else {
        panic!("held")
    };
    assert!(
        doubt.message.contains("connection reset") && doubt.message.contains("semel resolve"),
        "{}",
        doubt.message
    );
    assert_eq!(store.unresolved(10).expect("lists").len(), 1);
    store
        .resolve(&(&request).into(), Resolution::Rerun)
        .expect("resolves");
    let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
        panic!("rerun")
    };
    assert_eq!(ticket.attempt(), 2);
    drop(ticket);
    assert_eq!(store.stats().unresolved, 1);
    let rerun = Request::new("pay", "P-3").in_doubt(Policy::Rerun);
    drop(store.claim(&rerun));
    let Claim::Execute(ticket) = store.claim(&rerun).expect("claims") else {
        panic!("rerun")
    };
    assert!(ticket.is_takeover());
}
