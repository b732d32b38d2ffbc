//! Leased lock: one holder at a time, who shows signs of life, and hears when he has lost it.

use std::sync::mpsc;
use std::time::Duration;

use semel::{ErrorKind, Lock, LockGuard, Renew, Store};

use super::{Place, SECOND, TICK, kind, on_each, stored, threads};

const LEASE: Duration = Duration::from_secs(30);

fn held(lock: Lock) -> LockGuard {
    match lock {
        Lock::Held(guard) => guard,
        Lock::Busy(busy) => panic!("busy: {busy}"),
    }
}

fn acquire(store: &Store) -> LockGuard {
    held(store.lock("pay:1").acquire().expect("answers"))
}

fn is_busy(store: &Store) -> bool {
    matches!(
        store.lock("pay:1").acquire().expect("answers"),
        Lock::Busy(_)
    )
}

#[test]
fn one_holds_and_the_others_are_told_who_and_for_how_long() {
    on_each(|place| {
        let store = place.open();
        let guard = held(
            store
                .lock("pay:1")
                .holder("node 7")
                .acquire()
                .expect("answers"),
        );
        place.clock.advance(SECOND);
        let Lock::Busy(busy) = store.lock("pay:1").acquire().expect("answers") else {
            panic!("held")
        };
        assert_eq!(busy.holder.as_deref(), Some("node 7"));
        assert_eq!(busy.lease_remaining, Some(LEASE - SECOND));
        // Another name is another lock.
        drop(held(store.lock("pay:2").acquire().expect("answers")));
        guard.release().expect("releases");
        drop(acquire(&store));
        assert_eq!(
            stored(&store),
            0,
            "a lock that is free leaves nothing behind"
        );
    });
}

#[test]
fn the_fence_rises_from_holder_to_holder_also_after_reopening() {
    let place = Place::directory();
    let mut last = 0;
    for _ in 0..4 {
        let store = place.open();
        for _ in 0..5 {
            let guard = acquire(&store);
            assert!(guard.fence() > last);
            last = guard.fence();
        }
    }
}

#[test]
fn a_lease_that_is_not_renewed_ends_at_its_time() {
    on_each(|place| {
        let store = place.open();
        let guard = held(
            store
                .lock("pay:1")
                .renew(Renew::Off)
                .acquire()
                .expect("answers"),
        );
        place.clock.advance(LEASE - TICK);
        assert!(is_busy(&store));
        place.clock.advance(TICK);
        let next = acquire(&store);
        assert!(next.fence() > guard.fence());
        // The old holder's release and renewal change nothing for the new one.
        assert_eq!(kind(guard.renew()), ErrorKind::Lost);
        assert!(guard.lost());
        assert_eq!(kind(guard.release()), ErrorKind::Lost);
        assert!(is_busy(&store));
        drop(next);
        assert_eq!(stored(&store), 0);
    });
}

#[test]
fn the_watchdog_renews_at_a_third_whatever_the_lease() {
    for lease in [Duration::from_millis(3), SECOND, LEASE, SECOND * 86_400] {
        let place = Place::memory();
        let store = place.open();
        let request = store.lock("pay:1").lease(lease).renew_limit(lease * 1000);
        let guard = held(request.acquire().expect("answers"));
        for round in 0..12 {
            place.clock.advance(lease / 3 + TICK);
            // The watchdog works in its own time; the lease shows when it has.
            loop {
                let Lock::Busy(busy) = store.lock("pay:1").acquire().expect("answers") else {
                    panic!("{lease:?} was lost in round {round}")
                };
                if busy.lease_remaining == Some(lease) {
                    break;
                }
                std::thread::yield_now();
            }
        }
        guard.release().expect("still held");
    }
}

#[test]
fn a_holder_hears_that_he_has_lost_the_lock() {
    let place = Place::memory();
    let store = place.open();
    let (tell, told) = mpsc::channel();
    let request = store
        .lock("pay:1")
        .renew_limit(SECOND)
        .on_lost(move |why| tell.send(why.to_owned()).expect("heard"));
    let guard = held(request.acquire().expect("answers"));
    place.clock.advance(LEASE);
    let why = told.recv_timeout(Duration::from_secs(60)).expect("is told");
    assert!(why.contains("limit"), "{why}");
    assert!(guard.lost());
    assert_eq!(acquire(&store).release().map_err(|e| e.kind()), Ok(()));
}

#[test]
fn the_same_thread_is_told_at_once_that_it_holds_the_lock_itself() {
    on_each(|place| {
        let store = place.open_live();
        let _guard = acquire(&store);
        let again = store
            .lock("pay:1")
            .wait(Duration::from_secs(3600))
            .acquire();
        assert!(matches!(again, Ok(Lock::Busy(_))));
    });
}

#[test]
fn who_waits_gets_the_lock_when_it_is_let_go_or_its_lease_ends() {
    on_each(|place| {
        let store = place.open();
        let wait = |store: &Store| {
            held(
                store
                    .lock("pay:1")
                    .wait(LEASE * 10)
                    .acquire()
                    .expect("answers"),
            )
            .fence()
        };
        std::thread::scope(|scope| {
            let guard = acquire(&store);
            let waiter = scope.spawn(|| wait(&store));
            while !waiting(&store, 1) {}
            let fence = guard.fence();
            drop(guard);
            assert!(waiter.join().expect("no panic") > fence);
        });
        std::thread::scope(|scope| {
            let guard = held(
                store
                    .lock("pay:1")
                    .renew(Renew::Off)
                    .acquire()
                    .expect("answers"),
            );
            let waiter = scope.spawn(|| wait(&store));
            while !waiting(&store, 1) {}
            place.clock.advance(LEASE);
            assert!(waiter.join().expect("no panic") > guard.fence());
        });
    });
}

/// Gives those who wait time to stand in line. Nothing shows that they do: a test that is too early is merely easier.
fn waiting(_: &Store, _: usize) -> bool {
    std::thread::sleep(Duration::from_millis(20));
    true
}

#[test]
fn what_is_no_lock_is_refused() {
    let store = Place::memory().open();
    for name in ["", " ", "a\u{7}"] {
        assert_eq!(
            kind(store.lock(name).acquire().map(|_| ())),
            ErrorKind::InvalidInput,
            "{name:?}"
        );
    }
    assert_eq!(
        kind(
            store
                .lock("a")
                .lease(std::time::Duration::ZERO)
                .acquire()
                .map(|_| ())
        ),
        ErrorKind::InvalidInput
    );
    assert_eq!(stored(&store), 0);
}

#[test]
fn it_excludes_whoever_is_not_the_holder() {
    on_each(|place| {
        let store = place.open_live();
        let (inside, sum) = (
            std::sync::atomic::AtomicU32::new(0),
            std::sync::atomic::AtomicU32::new(0),
        );
        threads(8, |_| {
            for _ in 0..25 {
                let guard = held(
                    store
                        .lock("pay:1")
                        .wait(Duration::from_secs(60))
                        .acquire()
                        .expect("answers"),
                );
                use std::sync::atomic::Ordering::SeqCst;
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                sum.fetch_add(1, SeqCst);
                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                guard.release().expect("held");
            }
        });
        assert_eq!((sum.into_inner(), stored(&store)), (200, 0));
    });
}

#[test]
fn a_million_lock_names_leave_no_residue() {
    let store = Place::memory().open();
    for number in 0..1_000_000u32 {
        drop(held(
            store.lock(&number.to_string()).acquire().expect("answers"),
        ));
    }
    assert_eq!(stored(&store), 0);
}
