//! The same request under another id: how a client looks that makes a new key for every retry.

use semel::{OnTwin, Request};

use super::fixture::{answer, answered, at, execute, frozen, given_up, memory, replayed, seconds};

fn request(id: &'static str, amount: u32) -> Request<'static> {
    Request::new("pay", id)
        .payload(&amount)
        .expect("a payload")
        .twin_window(seconds(60))
}

#[test]
fn a_twin_is_counted_and_named_and_goes_on() {
    let store = memory();
    let first = execute(&store, &request("a", 1));
    assert_eq!(first.twin(), None);
    first.complete("first").expect("completes");
    let second = execute(&store, &request("b", 1));
    assert_eq!(second.twin(), Some("a"));
    second.complete("second").expect("completes");
    let replay = answered!(Replay, store.claim(&request("b", 1)).expect("claims"));
    assert_eq!(replay.twin.as_deref(), Some("a"));
    let own = answered!(Replay, store.claim(&request("a", 1)).expect("claims"));
    assert_eq!(own.twin, None, "a repeat is no twin");
    assert_eq!(
        execute(&store, &request("c", 2)).twin(),
        None,
        "another request"
    );
    let elsewhere = request("d", 1).scope("tenant");
    assert_eq!(execute(&store, &elsewhere).twin(), None, "another scope");
    assert_eq!(store.stats().totals().twins, 2);
}

#[test]
fn a_twin_is_refused_when_asked_for_and_nothing_is_kept_of_it() {
    let (store, clock) = frozen();
    let refusing = |id| request(id, 1).on_twin(OnTwin::Refuse);
    let first = execute(&store, &refusing("a"));
    clock.advance(seconds(5));
    let twin = answered!(Twin, store.claim(&refusing("b")).expect("claims"));
    assert_eq!(
        (twin.first_id.as_str(), twin.attempt, twin.first_executed_us),
        ("a", 1, at(seconds(0)))
    );
    assert!(twin.to_string().contains("\"a\""), "{twin}");
    assert!(
        store
            .lookup(&(&refusing("b")).into())
            .expect("looks up")
            .is_none()
    );
    first.complete("done").expect("completes");
    assert_eq!(
        replayed(store.claim(&refusing("a")).expect("claims")),
        "done"
    );
    let totals = store.stats().totals();
    assert_eq!((totals.claims, totals.twins, totals.executed), (3, 1, 1));
    let got = store.run(&refusing("c"), |_| -> Result<(), std::io::Error> {
        panic!("it has run")
    });
    assert!(matches!(got, Err(semel::RunError::Twin(_))));
}

#[test]
fn after_the_window_the_same_request_is_another_one() {
    let (store, clock) = frozen();
    drop(execute(&store, &request("a", 1)));
    clock.advance(seconds(60) - std::time::Duration::from_micros(1));
    assert_eq!(
        answer(&store, &request("b", 1).on_twin(OnTwin::Refuse)),
        "twin"
    );
    clock.advance(std::time::Duration::from_micros(1));
    assert_eq!(execute(&store, &request("c", 1)).twin(), None);
    assert_eq!(
        answer(&store, &request("d", 1).on_twin(OnTwin::Refuse)),
        "twin"
    );
}

#[test]
fn of_many_twins_at_once_one_is_the_first() {
    let store = memory();
    let ids: Vec<String> = (0..16).map(|n| n.to_string()).collect();
    let executed = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for id in &ids {
            let (store, executed) = (&store, &executed);
            scope.spawn(move || {
                let request = Request::new("pay", id.as_str())
                    .payload(&1)
                    .expect("a payload")
                    .twin_window(seconds(60))
                    .on_twin(OnTwin::Refuse);
                if answer(store, &request) == "execute" {
                    executed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(executed.into_inner(), 1);
    assert_eq!(store.stats().totals().twins, 15);
}

#[test]
fn a_claim_with_a_window_that_is_given_up_is_taken_back() {
    let (_dir, path) = super::fixture::directory();
    let store = semel::Store::open(&path).expect("opens");
    let of = |id: String| {
        let payload = id.clone();
        let request = Request::new("pay", id).twin_window(seconds(60));
        request.payload(&payload).expect("a payload")
    };
    let request = of(given_up(&store, of));
    let ticket = execute(&store, &request);
    assert_eq!(ticket.attempt(), 1);
}

#[test]
fn waiters_with_a_window_wait_like_others() {
    let store = memory();
    let first = execute(&store, &request("a", 1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.claim(&request("a", 1).wait(super::fixture::LONG)));
        super::fixture::eventually("waiting", || !waiting.is_finished());
        first.complete("done").expect("completes");
        let claim = waiting.join().expect("no panic").expect("claims");
        assert_eq!(replayed(claim), "done");
    });
}

#[test]
fn who_gave_up_before_he_began_is_nobodys_twin() {
    let (_dir, path) = super::fixture::directory();
    let store = semel::Store::open(&path).expect("opens");
    let of = |id: String| {
        Request::new("pay", id)
            .payload(&"the same")
            .expect("a payload")
            .twin_window(seconds(60))
            .on_twin(OnTwin::Refuse)
    };
    // A client that lets go after a moment, and makes a new id for each of its tries.
    let polled = super::fixture::polled(store.claim_async(&of("first".to_owned())), 2);
    if let Some(claim) = polled {
        // It was quicker than its client; then there is nothing to see.
        assert_eq!(claim.expect("claims").name(), "execute");
        return;
    }
    assert_eq!(answer(&store, &of("second".to_owned())), "execute");
    assert_eq!(answer(&store, &of("third".to_owned())), "twin");
}
