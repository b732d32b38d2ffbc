//! Leased lock under races: first come, first served; who leaves the line takes nothing along; nothing is renewed for ever.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use semel::{Lock, LockGuard, Result, Stopwatch, Store};

use super::{Place, on_each, stored, threads};

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waiter whose steps the test takes.
macro_rules! waiter {
    ($name:ident, $woken:ident, $request:expr) => {
        let $woken = Arc::new(Woken::default());
        let mut $name = Box::pin($request);
    };
}

fn step(
    future: &mut std::pin::Pin<Box<impl Future<Output = Result<Lock>>>>,
    woken: &Arc<Woken>,
) -> Option<LockGuard> {
    let waker = Waker::from(Arc::clone(woken));
    match future.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Pending => None,
        Poll::Ready(Ok(Lock::Held(guard))) => Some(guard),
        Poll::Ready(other) => panic!("{other:?}"),
    }
}

fn acquire(store: &Store) -> LockGuard {
    match store.lock("x").acquire().expect("answers") {
        Lock::Held(guard) => guard,
        Lock::Busy(busy) => panic!("{busy}"),
    }
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came_and_nobody_overtakes() {
    on_each(|place| {
        let store = place.open();
        let request = store.lock("x").wait(Duration::from_secs(60));
        let mut guard = acquire(&store);
        waiter!(one, woken_one, request.acquire_async());
        waiter!(two, woken_two, request.acquire_async());
        waiter!(three, woken_three, request.acquire_async());
        assert!(step(&mut one, &woken_one).is_none());
        assert!(step(&mut two, &woken_two).is_none());
        assert!(step(&mut three, &woken_three).is_none());
        let mut last = guard.fence();
        let line = [
            (&mut one, &woken_one),
            (&mut two, &woken_two),
            (&mut three, &woken_three),
        ];
        for (at, (waiter, woken)) in line.into_iter().enumerate() {
            drop(guard);
            // Exactly one was called, and who comes anew does not get in before.
            assert_eq!(woken.0.load(Ordering::SeqCst), 1, "waiter {at}");
            assert!(matches!(
                store.lock("x").acquire().expect("answers"),
                Lock::Busy(_)
            ));
            guard = step(waiter, woken).expect("its turn");
            assert!(guard.fence() > last);
            last = guard.fence();
        }
        drop(guard);
        assert_eq!(stored(&store), 0);
    });
}

#[test]
fn a_waiter_that_is_gone_does_not_hold_up_the_next() {
    on_each(|place| {
        let store = place.open();
        let request = store.lock("x").wait(Duration::from_secs(60));
        // Gone while it waits, and gone after it was called.
        for called in [false, true] {
            let guard = acquire(&store);
            waiter!(one, woken_one, request.acquire_async());
            waiter!(two, woken_two, request.acquire_async());
            assert!(step(&mut one, &woken_one).is_none());
            assert!(step(&mut two, &woken_two).is_none());
            if called {
                drop(guard);
                assert_eq!(woken_one.0.load(Ordering::SeqCst), 1);
                drop(one);
            } else {
                drop(one);
                drop(guard);
            }
            assert_eq!(
                woken_two.0.load(Ordering::SeqCst),
                1,
                "called first: {called}"
            );
            drop(step(&mut two, &woken_two).expect("its turn"));
            assert_eq!(stored(&store), 0);
        }
    });
}

#[test]
fn the_line_goes_on_when_the_holder_is_gone_without_a_word() {
    let place = Place::memory();
    let store = place.open();
    let request = store.lock("x").wait(Duration::from_secs(600));
    std::mem::forget(acquire(&store)); // leaked: renewed up to the limit of a day
    waiter!(one, woken_one, request.acquire_async());
    assert!(step(&mut one, &woken_one).is_none());
    drop(one);
    place.clock.advance(Duration::from_secs(25 * 3600));
    drop(acquire(&store));
    assert_eq!(stored(&store), 0);
}

#[test]
fn ten_thousand_races_of_acquire_cancel_and_release_leave_nothing_to_renew() {
    let place = Place::memory();
    let store = place.open();
    let held = AtomicUsize::new(0);
    threads(4, |thread| {
        for round in 0..2500usize {
            let request = store.lock("x").wait(Duration::from_secs(3600));
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(Arc::clone(&woken));
            let mut context = Context::from_waker(&waker);
            let mut future = pin!(request.acquire_async());
            // A few steps, then it is given up, or let go, or dropped.
            for _ in 0..=(thread + round) % 4 {
                if let Poll::Ready(lock) = future.as_mut().poll(&mut context) {
                    if let Lock::Held(guard) = lock.expect("answers") {
                        held.fetch_add(1, Ordering::Relaxed);
                        if round % 2 == 0 {
                            guard.release().expect("held");
                        }
                    }
                    break;
                }
                std::thread::yield_now();
            }
        }
    });
    assert!(held.into_inner() > 0);
    // Nobody holds it, nobody waits, and no renewal brings it back.
    for _ in 0..20 {
        place.clock.advance(Duration::from_secs(10));
        assert_eq!(stored(&store), 0);
    }
    acquire(&store).release().expect("free");
    // A watchdog that was just looking at it counts for a moment.
    let patience = Stopwatch::start();
    while stored(&store) > 0 {
        assert!(patience.elapsed() < Duration::from_secs(30), "it is kept");
        std::thread::yield_now();
    }
}
