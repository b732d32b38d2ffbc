//! How long what is known: the result, then the bare fact, then nothing; and how it is swept.

use std::time::Duration;

use semel::{Policy, Renew, Request, Retain};

use super::fixture::{answer, answered, eventually, execute, frozen, seconds};

const INSTANT: Duration = Duration::from_micros(1);

fn request() -> Request<'static> {
    Request::new("pay", "P-1").renew(Renew::Off)
}

#[test]
fn a_result_is_kept_then_the_fact_then_nothing() {
    let (store, clock) = frozen();
    let request = request().retain(seconds(60)).remember(seconds(30));
    let ticket = execute(&store, &request);
    clock.advance(seconds(20));
    ticket.complete("done").expect("completes");
    clock.advance(seconds(60) - INSTANT);
    assert_eq!(
        answer(&store, &request),
        "replay",
        "it counts from completion"
    );
    clock.advance(INSTANT);
    let gone = answered!(Gone, store.claim(&request).expect("claims"));
    assert!(gone.to_string().contains("executed"));
    let info = store
        .lookup(&(&request).into())
        .expect("looks up")
        .expect("a record");
    assert_eq!((info.state, info.value), ("gone", None));
    clock.advance(seconds(30) - INSTANT);
    assert_eq!(answer(&store, &request), "gone");
    clock.advance(INSTANT);
    assert!(
        store
            .lookup(&(&request).into())
            .expect("looks up")
            .is_none()
    );
    assert_eq!(execute(&store, &request).attempt(), 1);
}

#[test]
fn an_expired_record_that_is_not_swept_yet_blocks_nobody_and_a_swept_one_runs_no_earlier() {
    let (store, clock) = frozen();
    let request = request().retain(seconds(60));
    execute(&store, &request)
        .complete("first")
        .expect("completes");
    clock.advance(seconds(60) - INSTANT);
    assert_eq!(store.sweep().expect("sweeps"), 0);
    assert_eq!(answer(&store, &request), "replay");
    clock.advance(INSTANT);
    let second = execute(&store, &request);
    assert_eq!(
        store.sweep().expect("sweeps"),
        0,
        "a live lease is not touched"
    );
    second.complete("second").expect("completes");
    clock.advance(seconds(60));
    assert_eq!((store.sweep().expect("sweeps"), store.len()), (1, 0));
    assert_eq!(store.stats().operations["pay"].swept, 1);
}

#[test]
fn retain_can_be_for_ever_and_the_default_is_a_day() {
    let (store, clock) = frozen();
    let ever = Request::new("pay", "ever").retain(Retain::Forever);
    let day = Request::new("pay", "day");
    for request in [&ever, &day] {
        execute(&store, request)
            .complete("done")
            .expect("completes");
    }
    clock.advance(semel::DEFAULT_RETAIN - INSTANT);
    assert_eq!(answer(&store, &day), "replay");
    clock.advance(seconds(100 * 366 * 24 * 3600));
    store.sweep().expect("sweeps");
    assert_eq!(
        (answer(&store, &ever), answer(&store, &day)),
        ("replay", "execute")
    );
    assert_eq!(semel::DEFAULT_RETAIN, seconds(24 * 3600));
}

#[test]
fn what_may_run_again_is_forgotten_when_nobody_asks_for_it() {
    for policy in [Policy::Hold, Policy::Rerun] {
        let (store, clock) = frozen();
        let request = request()
            .in_doubt(policy)
            .lease(seconds(30))
            .retain(seconds(60));
        execute(&store, &request).release().expect("releases");
        clock.advance(seconds(60) - INSTANT);
        assert_eq!(execute(&store, &request).attempt(), 2);
        clock.advance(seconds(60));
        store.sweep().expect("sweeps");
        let held = policy == Policy::Hold;
        assert_eq!(store.len(), u64::from(held), "{policy:?}");
        assert_eq!(
            answer(&store, &request),
            if held { "in_doubt" } else { "execute" }
        );
    }
}

#[test]
fn a_lapsed_rerun_is_forgotten_its_retention_after_its_lease() {
    let (store, clock) = frozen();
    let request = request()
        .in_doubt(Policy::Rerun)
        .lease(seconds(30))
        .retain(seconds(60));
    let ticket = execute(&store, &request);
    clock.advance(seconds(90) - INSTANT);
    assert_eq!(store.sweep().expect("sweeps"), 0);
    clock.advance(INSTANT);
    assert_eq!(store.sweep().expect("sweeps"), 1);
    let lost = ticket.complete("late").expect_err("it is forgotten");
    assert_eq!(lost.kind(), semel::ErrorKind::Lost);
    assert_eq!(store.stats().totals().possible_double_effects, 1);
}

#[test]
fn a_retention_that_ends_before_the_client_gives_up_is_refused() {
    let (store, _clock) = frozen();
    let window = |retain: u64, remember: u64| {
        request()
            .retain(seconds(retain))
            .remember(seconds(remember))
            .retry_window(seconds(100))
    };
    for (retain, remember) in [(99, 0), (60, 39)] {
        let error = store.claim(&window(retain, remember)).expect_err("refused");
        assert_eq!(error.kind(), semel::ErrorKind::InvalidInput);
        assert!(
            error.message().contains("retry_window") && error.message().contains("remember"),
            "{error}"
        );
    }
    assert!(store.is_empty());
    for (retain, remember) in [(100, 0), (60, 40)] {
        assert_ne!(answer(&store, &window(retain, remember)), "busy");
    }
    assert_eq!(
        answer(
            &store,
            &request()
                .retain(Retain::Forever)
                .retry_window(Duration::MAX)
        ),
        "in_doubt"
    );
}

#[test]
fn what_is_forgotten_is_swept_in_the_background_also_in_memory() {
    let (_dir, path) = super::fixture::directory();
    for place in ["memory:", path.as_str()] {
        let store = semel::Store::builder(place)
            .sweep_interval(Duration::from_millis(10))
            .open()
            .expect("opens");
        let request = request().retain(Duration::from_millis(1));
        execute(&store, &request)
            .complete("done")
            .expect("completes");
        eventually("a sweep", || store.is_empty());
        assert_eq!(store.stats().swept, 1, "{place}");
    }
}

#[test]
fn what_is_swept_goes_to_the_archive_first() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("archive.ndjson");
    let clock = semel::Clock::manual(super::fixture::START);
    let store = semel::Store::builder("memory:")
        .clock(clock.clone())
        .sweep_by_hand()
        .archive(&file)
        .open()
        .expect("opens");
    for id in ["a", "b"] {
        let request = Request::new("pay", id).scope("t").retain(seconds(1));
        execute(&store, &request).complete(id).expect("completes");
    }
    clock.advance(seconds(1));
    assert_eq!(store.sweep().expect("sweeps"), 2);
    let text = std::fs::read_to_string(&file).expect("an archive");
    let mut ids: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON"))
        .map(|line| line["id"].as_str().expect("an id").to_owned())
        .collect();
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
}
