//! The options that are times: as texts, as words, as expressions.

use std::time::Duration;

use semel::{Identity, Info, Lease, Retain, Stopwatch, Store};

use super::fixture::{Fault, frozen, memory, no_answer};

const MINUTE: Duration = Duration::from_secs(60);

fn info(store: &Store, operation: &str) -> Info {
    let info = store.lookup(&Identity::new(operation, "1"));
    info.expect("looks up").expect("a record")
}

/// How long the lease of the running attempt is; `None` without end.
fn lease(store: &Store, operation: &str) -> Option<Duration> {
    let info = info(store, operation);
    let until_us = info.lease_until_us?;
    Some(Duration::from_micros(until_us - info.claimed_us))
}

/// How long the record outlives its end; `None` without end.
fn kept(store: &Store, operation: &str) -> Option<Duration> {
    let info = info(store, operation);
    let end_us = info.finished_us.expect("it has ended");
    Some(Duration::from_micros(info.forgotten_at_us? - end_us))
}

#[test]
fn a_lease_is_a_text_a_word_or_an_expression() {
    #[semel::idempotent(store = store, operation = "text", key = id, lease = "1m30s")]
    fn text(store: &Store, id: u32) -> Result<Option<Duration>, Fault> {
        Ok(lease(store, "text"))
    }
    #[semel::idempotent(store = store, operation = "word", key = id, lease = never)]
    fn word(store: &Store, id: u32) -> Result<Option<Duration>, Fault> {
        Ok(lease(store, "word"))
    }
    #[semel::idempotent(store = store, operation = "expression", key = id, lease = given, payload = none)]
    fn expression(store: &Store, id: u32, given: Lease) -> Result<Option<Duration>, Fault> {
        Ok(lease(store, "expression"))
    }
    #[semel::idempotent(store = store, operation = "constant", key = id, lease = MINUTE)]
    fn constant(store: &Store, id: u32) -> Result<Option<Duration>, Fault> {
        Ok(lease(store, "constant"))
    }
    let (store, _clock) = frozen();
    assert_eq!(text(&store, 1).expect("runs"), Some(MINUTE * 3 / 2));
    assert_eq!(word(&store, 1).expect("runs"), None);
    assert_eq!(
        expression(&store, 1, Lease::For(MINUTE)).expect("runs"),
        Some(MINUTE)
    );
    assert_eq!(constant(&store, 1).expect("runs"), Some(MINUTE));
}

#[test]
fn what_is_kept_is_kept_so_long() {
    #[semel::idempotent(store = store, operation = "both", key = id, retain = "10m", remember = "1h", retry_window = "70m")]
    fn both(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    #[semel::idempotent(store = store, operation = "forever", key = id, retain = "forever")]
    fn forever(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    #[semel::idempotent(store = store, operation = "expression", key = id, retain = Retain::For(MINUTE), remember = MINUTE * 2)]
    fn expression(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    let (store, clock) = frozen();
    for function in [both, forever, expression] {
        assert_eq!(function(&store, 1).expect("runs"), 1);
    }
    assert_eq!(kept(&store, "both"), Some(MINUTE * 70));
    assert_eq!(kept(&store, "forever"), None);
    assert_eq!(kept(&store, "expression"), Some(MINUTE * 3));
    clock.advance(MINUTE * 10);
    no_answer!(Gone, both(&store, 1));
    clock.advance(MINUTE * 60);
    assert_eq!(both(&store, 1).expect("runs anew"), 1);
}

#[test]
fn a_window_that_is_not_covered_is_an_error_when_it_is_computed() {
    #[semel::idempotent(store = store, operation = "window", key = id, payload = none, retain = "10m", retry_window = window)]
    fn retried(store: &Store, id: u32, window: Duration) -> Result<u32, Fault> {
        Ok(id)
    }
    let store = memory();
    let error = no_answer!(Store, retried(&store, 1, MINUTE * 11));
    assert!(error.message().contains("retry_window"), "{error}");
    assert_eq!(retried(&store, 1, MINUTE * 10).expect("runs"), 1);
}

#[test]
fn waiting_lasts_as_long_as_it_was_told_to() {
    #[semel::idempotent(store = store, operation = "wait", key = id, payload = none, wait = wait)]
    fn waiting(store: &Store, id: u32, wait: Duration, work: &dyn Fn()) -> Result<u32, Fault> {
        work();
        Ok(id)
    }
    let store = memory();
    waiting(&store, 1, Duration::ZERO, &|| {
        // From another thread: one that waited for itself would be told at once.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (wait, waited) = (Duration::from_millis(30), Stopwatch::start());
                no_answer!(Busy, waiting(&store, 1, wait, &|| ()));
                assert!(waited.elapsed() >= wait);
            });
        });
    })
    .expect("runs");
}

#[test]
fn renewal_has_a_limit_and_twins_have_a_window() {
    #[semel::idempotent(store = store, operation = "limit", key = id, payload = none, renew_limit = limit)]
    fn limited(store: &Store, id: u32, limit: Duration) -> Result<u32, Fault> {
        Ok(id)
    }
    #[semel::idempotent(store = store, operation = "twins", key = id, payload = (), twin_window = "10m", on_twin = refuse)]
    fn twins(store: &Store, id: u32) -> Result<u32, Fault> {
        Ok(id)
    }
    let (store, clock) = frozen();
    let error = no_answer!(Store, limited(&store, 1, Duration::ZERO));
    assert!(error.message().contains("renew_limit"), "{error}");
    limited(&store, 1, MINUTE).expect("runs");
    twins(&store, 1).expect("runs");
    clock.advance(MINUTE * 10 - Duration::from_micros(1));
    no_answer!(Twin, twins(&store, 2));
    clock.advance(Duration::from_micros(1));
    assert_eq!(twins(&store, 2).expect("runs"), 2);
}
