//! Two live processes at one store: the same verbs, answers, waiting and errors.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use semel::{
    Claim, ErrorKind, Identity, Lease, OnTwin, Policy, Request, Resolution, Shared, Stopwatch,
    Store,
};

use super::Place;

#[test]
fn what_one_process_does_the_other_sees() {
    let place = Place::new();
    let mut other = place.guest(&[]);
    assert_eq!(place.owner(), Some(other.0.id()));
    let store = Store::open(&place.name).expect("attaches");
    let request = Request::new("guest", "K");
    assert_eq!(other.does("claim K"), "execute");
    let Claim::Busy(busy) = store.claim(&request).expect("claims") else {
        panic!("the other runs it")
    };
    assert!(busy.retry_after > Duration::ZERO);
    assert_eq!(other.does("complete K"), "ended");
    let Claim::Replay(replay) = store.claim(&request).expect("claims") else {
        panic!("the other did it")
    };
    assert_eq!(replay.decode::<String>().expect("decodes"), "K");
    // And the other way round.
    let Claim::Execute(ticket) = store.claim(&Request::new("guest", "L")).expect("claims") else {
        panic!("first")
    };
    assert_eq!(other.does("claim L"), "busy");
    ticket.complete("L").expect("completes");
    assert_eq!(other.does("claim L"), "replay");
    assert_eq!(store.len(), 2);
    assert_eq!(store.list().filter_map(Result::ok).count(), 2);
    assert!(store.stats().commits > 0);
    assert!(store.verify().expect("verifies").problems.is_empty());
    let copy = place.dir.path().join("copy");
    assert!(store.backup(&copy).expect("is copied").blocks > 0 && copy.exists());
    store.sync().expect("syncs");
}

#[test]
fn a_payload_is_compared_whoever_made_the_record() {
    let place = Place::new();
    let owner = Store::open(&place.name).expect("opens");
    let guest = Store::open(&place.name).expect("attaches");
    let request = |amount: u32| {
        Request::new("pay", "P")
            .payload(&serde_json::json!({"amount": amount}))
            .expect("a payload")
    };
    let Claim::Execute(ticket) = guest.claim(&request(1)).expect("claims") else {
        panic!("first")
    };
    ticket.complete(&1).expect("completes");
    assert!(matches!(owner.claim(&request(1)), Ok(Claim::Replay(_))));
    let Ok(Claim::Mismatch(mismatch)) = owner.claim(&request(2)) else {
        panic!("another amount")
    };
    assert_eq!(mismatch.fields, ["amount"]);
}

#[test]
fn who_waits_at_another_process_is_woken_by_the_end() {
    let place = Place::new();
    let mut other = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let Claim::Execute(ticket) = store.claim(&Request::new("guest", "K")).expect("claims") else {
        panic!("first")
    };
    // The owner waits for a guest, and a guest for the owner.
    assert_eq!(other.does("await K 20000"), "awaiting");
    std::thread::sleep(Duration::from_millis(50));
    ticket.complete("done").expect("completes");
    assert_eq!(other.0.line(), "awaited K replay");
    assert_eq!(other.does("claim L"), "execute");
    let waiting = Stopwatch::start();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let request = Request::new("guest", "L").wait(Duration::from_secs(20));
            store.claim(&request).expect("claims").name()
        });
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(other.does("release L"), "ended");
        assert_eq!(waiter.join().expect("ends"), "execute");
    });
    assert!(waiting.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_killed_waiter_holds_nobody_up() {
    let place = Place::new();
    let store = Store::open(&place.name).expect("opens");
    let mut quickest = Duration::MAX;
    for round in 0..5 {
        let key = format!("K{round}");
        let mut first = place.guest(&[]);
        let mut second = place.guest(&[]);
        let claim = store.claim(&Request::new("guest", &*key));
        let Claim::Execute(ticket) = claim.expect("claims") else {
            panic!("first")
        };
        for waiter in [&mut first, &mut second] {
            assert_eq!(waiter.does(&format!("await {key} 20000")), "awaiting");
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(first);
        std::thread::sleep(Duration::from_millis(50));
        let passing = Stopwatch::start();
        ticket.release().expect("releases");
        assert_eq!(second.0.line(), format!("awaited {key} execute"));
        quickest = quickest.min(passing.elapsed());
        if quickest < Duration::from_millis(90) {
            break;
        }
    }
    // A turn that is given to the dead lasts 100 ms.
    assert!(quickest < Duration::from_millis(90), "{quickest:?}");
}

#[test]
fn callers_that_await_are_served_too_and_do_not_stand_in_each_others_way() {
    let place = Place::new();
    let _owner = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let runtime = crate::attach::together::block::runtime();
    runtime.run(async {
        let request = Request::new("await", "K").wait(Duration::from_secs(20));
        let Claim::Execute(ticket) = store.claim_async(&request).await.expect("claims") else {
            panic!("first")
        };
        // On one thread: who waits must let go of it, or the other would never end.
        let waiter = store.claim_async(&request);
        let ender = async {
            block::yield_a_while().await;
            ticket.complete_async("done").await.expect("completes");
        };
        let (claimed, ()) = block::both(waiter, ender).await;
        assert_eq!(claimed.expect("claims").name(), "replay");
    });
    // A claim that is given up before its answer came is taken back.
    runtime.run(async {
        for n in 0..50 {
            let request = Request::new("await", format!("given up {n}"));
            drop(block::poll_once(store.claim_async(&request)).await);
        }
    });
    let settled = Stopwatch::start();
    while store
        .list()
        .filter_map(Result::ok)
        .any(|info| info.state == "running")
    {
        assert!(
            settled.elapsed() < Duration::from_secs(5),
            "a claim that nobody holds stays"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_doubt_at_one_process_is_resolved_at_another() {
    let place = Place::new();
    let store = Store::open(&place.name).expect("opens");
    let mut other = place.guest(&[]);
    assert_eq!(other.does("claim K lease 100"), "execute");
    drop(other);
    std::thread::sleep(Duration::from_millis(150));
    let request = Request::new("guest", "K");
    assert_eq!(store.claim(&request).expect("claims").name(), "in_doubt");
    let guest = Store::open(&place.name).expect("attaches");
    assert_eq!(guest.unresolved(10).expect("lists").len(), 1);
    guest
        .resolve(&Identity::new("guest", "K"), Resolution::Rerun)
        .expect("resolves");
    assert_eq!(store.claim(&request).expect("claims").name(), "execute");
}

#[test]
fn a_lease_without_end_ends_with_its_process() {
    let place = Place::new();
    let mut other = place.guest(&[]);
    let store = Store::open(&place.name).expect("attaches");
    let mut third = place.guest(&[]);
    assert_eq!(third.does("endless K"), "execute");
    let request = Request::new("guest", "K").lease(Lease::Never);
    assert_eq!(store.claim(&request).expect("claims").name(), "busy");
    assert_eq!(store.unresolved(9).expect("lists").len(), 0);
    // It outlives the owner.
    assert_eq!(other.does("close"), "closed");
    assert_eq!(store.claim(&request).expect("claims").name(), "busy");
    drop(third);
    assert_eq!(store.claim(&request).expect("claims").name(), "in_doubt");
    assert_eq!(store.unresolved(9).expect("lists").len(), 1);
}

#[test]
fn who_does_not_share_is_refused_and_refuses() {
    let place = Place::new();
    let refused = Store::builder(&place.name).shared(Shared::Only).open();
    assert_eq!(
        refused.expect_err("nobody is there").kind(),
        ErrorKind::Unavailable
    );
    let holder = place.guest(&["never"]);
    let refused = Store::open(&place.name).expect_err("held by one that does not share");
    assert_eq!(refused.kind(), ErrorKind::StoreLocked);
    drop(holder);
    let shares = place.guest(&[]);
    let refused = Store::builder(&place.name).shared(Shared::Never).open();
    assert_eq!(refused.expect_err("held").kind(), ErrorKind::StoreLocked);
    let only = Store::builder(&place.name).shared(Shared::Only).open();
    let only = only.expect("attaches");
    drop(shares);
    // It never holds the store itself.
    let told = only.claim(&Request::new("guest", "K").in_doubt(Policy::Rerun));
    assert_eq!(
        told.expect_err("nobody holds it").kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(place.owner().filter(|pid| *pid == std::process::id()), None);
}

/// The least that runs a future on this thread.
pub(super) mod block {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::Thread;

    pub(crate) struct Runtime(Waker);

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    pub(crate) fn runtime() -> Runtime {
        Runtime(Waker::from(Arc::new(Unpark(std::thread::current()))))
    }

    impl Runtime {
        pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
            let mut future = pin!(future);
            loop {
                match future.as_mut().poll(&mut Context::from_waker(&self.0)) {
                    Poll::Ready(value) => return value,
                    Poll::Pending => std::thread::park(),
                }
            }
        }
    }

    /// Lets the others have their turn a few times.
    pub(crate) async fn yield_a_while() {
        for _ in 0..3 {
            let mut yielded = false;
            std::future::poll_fn(|context| {
                if std::mem::replace(&mut yielded, true) {
                    return Poll::Ready(());
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    pub(crate) async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
        let mut future = Box::pin(future);
        std::future::poll_fn(|context| {
            Poll::Ready(match future.as_mut().poll(context) {
                Poll::Ready(value) => Some(value),
                Poll::Pending => None,
            })
        })
        .await
    }

    pub(crate) async fn both<A: Future, B: Future>(one: A, two: B) -> (A::Output, B::Output) {
        let (mut one, mut two) = (Box::pin(one), Box::pin(two));
        let (mut of_one, mut of_two) = (None, None);
        fn look<F: Future>(
            future: &mut Pin<Box<F>>,
            into: &mut Option<F::Output>,
            context: &mut Context<'_>,
        ) {
            if into.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *into = Some(value);
            }
        }
        std::future::poll_fn(|context| {
            look(&mut one, &mut of_one, context);
            look(&mut two, &mut of_two, context);
            match (of_one.take(), of_two.take()) {
                (Some(one), Some(two)) => Poll::Ready((one, two)),
                (one, two) => {
                    (of_one, of_two) = (one, two);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

#[test]
fn nobody_is_the_twin_of_a_claim_that_was_dropped_on_its_way_to_another_process() {
    let place = Place::new();
    let owner = Store::open(&place.name).expect("opens");
    let guest = Store::open(&place.name).expect("attaches");
    let refusing = |id| {
        Request::new("pay", id)
            .payload(&1)
            .expect("a payload")
            .twin_window(Duration::from_secs(60))
            .on_twin(OnTwin::Refuse)
    };
    for _ in 0..20 {
        let request = refusing("first");
        let mut claim = Box::pin(guest.claim_async(&request));
        let mut polls = Context::from_waker(Waker::noop());
        if claim.as_mut().poll(&mut polls).is_ready() {
            panic!("another process decides: it cannot be there at once")
        }
        drop(claim);
    }
    let patience = Stopwatch::start();
    loop {
        match owner.claim(&refusing("second")).expect("claims") {
            Claim::Execute(ticket) => break ticket.complete("done").expect("completes"),
            Claim::Twin(_) if patience.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => panic!("{} after {:?}", other.name(), patience.elapsed()),
        }
    }
    let twin = owner.claim(&refusing("third")).expect("claims");
    assert!(matches!(twin, Claim::Twin(twin) if twin.first_id == "second"));
}
