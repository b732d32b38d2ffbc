//! The service at work: many at once, clients that leave, panics, errors, a store that cannot say, a runtime that ends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use http::Response;
use http_body_util::Full;
use semel::http::{Guard, Running};
use semel::{Doubt, Identity, Policy, Store};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::fixture::{Gate, Got, Runs, Seen, ask, by_user, post, store};

const LONG: Duration = Duration::from_secs(60);

type Answer = Response<Full<bytes::Bytes>>;

fn text(text: impl Into<String>) -> Answer {
    Response::new(Full::from(text.into()))
}

/// Why the operation under a key of ann is in doubt.
fn doubt(store: &Store) -> Doubt {
    let unresolved = store.unresolved(2).expect("lists");
    assert_eq!(unresolved.len(), 1);
    unresolved[0].doubt.clone().expect("a doubt").1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_one_runs_and_the_others_get_its_answer() {
    let (store, runs) = (store(), Runs::default());
    let counted = runs.clone();
    let inner = service_fn(move |_: Seen| {
        let run = counted.next();
        async move {
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(text(format!("run {run}")))
        }
    });
    let layer = by_user(&store).guard(Guard::new().wait(LONG));
    let service = layer.build().expect("rules").layer(inner);
    let asked = (0..64).map(|_| {
        let service = service.clone();
        tokio::spawn(async move { ask(&service, post("/pay", "k", "{}")).await })
    });
    let mut replayed = 0;
    for got in asked.collect::<Vec<_>>() {
        let got = got.await.expect("no panic");
        assert_eq!((got.status, got.text()), (200, "run 1"));
        replayed += u32::from(got.replayed());
    }
    assert_eq!((runs.count(), replayed), (1, 63));
}

#[tokio::test]
async fn a_client_that_leaves_stops_nothing_and_finds_the_answer_when_it_asks_again() {
    let (store, runs, gate) = (store(), Runs::default(), Gate::shut());
    let (counted, stop) = (runs.clone(), gate.clone());
    let inner = service_fn(move |_: Seen| {
        let (run, stop) = (counted.next(), stop.clone());
        async move {
            stop.pass().await;
            Ok::<_, Infallible>(text(format!("run {run}")))
        }
    });
    let layer = by_user(&store).build().expect("rules");
    let service = layer.layer(inner);
    let client = tokio::spawn(service.clone().oneshot(post("/pay", "k", "{}")));
    gate.reached().await;
    client.abort();
    assert!(client.await.expect_err("it left").is_cancelled());
    assert_eq!(layer.running(), 1);

    let busy = ask(&service, post("/pay", "k", "{}")).await;
    assert_eq!((busy.status, busy.problem().as_str()), (409, "in-flight"));
    let seconds: u64 = busy
        .field("retry-after")
        .expect("when")
        .parse()
        .expect("seconds");
    assert!(seconds >= 1);

    gate.open();
    layer.idle().await;
    let again = ask(&service, post("/pay", "k", "{}")).await;
    assert_eq!(
        (again.text(), again.replayed(), runs.count()),
        ("run 1", true, 1)
    );
    assert_eq!(layer.running(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_leaves_nothing_behind() {
    let (store, runs, gate) = (store(), Runs::default(), Gate::shut());
    let (counted, stop) = (runs.clone(), gate.clone());
    let inner = service_fn(move |_: Seen| {
        let (run, stop) = (counted.next(), stop.clone());
        async move {
            stop.pass().await;
            let status = if run == 1 { 429 } else { 200 };
            let answer = Response::builder().status(status);
            Ok::<_, Infallible>(
                answer
                    .body(Full::<bytes::Bytes>::default())
                    .expect("an answer"),
            )
        }
    });
    let layer = by_user(&store)
        .guard(Guard::new().wait(LONG))
        .build()
        .expect("rules");
    let service = layer.layer(inner);
    let first = tokio::spawn(service.clone().oneshot(post("/pay", "k", "{}")));
    gate.reached().await;
    let mut waiting = Box::pin(service.clone().oneshot(post("/pay", "k", "{}")));
    let polled = poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_pending())).await;
    assert!(polled, "it waits");
    drop(waiting);
    gate.open();
    let released = first.await.expect("no panic").expect("an answer");
    assert_eq!(released.status(), 429);
    // The turn of whoever left is nobody's: the next one runs.
    gate.open();
    assert_eq!(ask(&service, post("/pay", "k", "{}")).await.status, 200);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_panic_leaves_a_doubt_and_the_client_is_told() {
    let store = store();
    let inner = service_fn(|request: Seen| async move {
        assert!(
            request.uri().path() != "/pay",
            "the handler of this test panics"
        );
        Ok::<_, Infallible>(text("fine"))
    });
    let service = by_user(&store).build().expect("rules").layer(inner);
    let first = ask(&service, post("/pay", "k", "{}")).await;
    assert_eq!(
        (first.status, first.problem().as_str()),
        (500, "broken-off")
    );
    assert!(!first.text().contains("handler of this test"));
    let again = ask(&service, post("/pay", "k", "{}")).await;
    assert_eq!((again.status, again.problem().as_str()), (409, "in-doubt"));
    assert_eq!(doubt(&store), Doubt::Panicked);
    assert_eq!(
        ask(&service, post("/other", "l", "{}")).await.text(),
        "fine"
    );
}

#[tokio::test]
async fn under_rerun_an_attempt_in_doubt_runs_again_and_is_told_so() {
    let store = store();
    let inner = service_fn(|request: Seen| async move {
        let running = request
            .extensions()
            .get::<Running>()
            .expect("guarded")
            .clone();
        assert!(running.attempt() > 1, "the first attempt panics");
        Ok::<_, Infallible>(text(format!(
            "attempt {} {}",
            running.attempt(),
            running.is_takeover()
        )))
    });
    let guard = Guard::new().in_doubt(Policy::Rerun);
    let service = by_user(&store)
        .guard(guard)
        .build()
        .expect("rules")
        .layer(inner);
    assert_eq!(ask(&service, post("/pay", "k", "{}")).await.status, 500);
    assert_eq!(
        ask(&service, post("/pay", "k", "{}")).await.text(),
        "attempt 2 true"
    );
    assert!(ask(&service, post("/pay", "k", "{}")).await.replayed());
}

#[tokio::test]
async fn an_error_of_the_service_goes_to_the_caller_and_leaves_a_doubt() {
    let store = store();
    let inner = service_fn(|_: Seen| async { Err::<Answer, _>(io::Error::other("no route")) });
    let service = by_user(&store).build().expect("rules").layer(inner);
    let error = service
        .clone()
        .oneshot(post("/pay", "k", "{}"))
        .await
        .expect_err("an error");
    assert_eq!(error.to_string(), "no route");
    assert_eq!(
        ask(&service, post("/pay", "k", "{}")).await.problem(),
        "in-doubt"
    );
    assert!(matches!(doubt(&store), Doubt::Stated(_)));
}

#[tokio::test]
async fn a_store_that_cannot_say_lets_nothing_through() {
    let (store, runs) = (store(), Runs::default());
    let counted = runs.clone();
    let inner = service_fn(move |_: Seen| {
        let run = counted.next();
        async move { Ok::<_, Infallible>(text(format!("run {run}"))) }
    });
    let service = by_user(&store).build().expect("rules").layer(inner);
    store.close().expect("closes");
    let refused = ask(&service, post("/pay", "k", "{}")).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "store-unavailable")
    );
    assert_eq!(refused.field("retry-after"), Some("1"));
    for told in ["closed", "memory"] {
        assert!(
            !refused.text().contains(told),
            "what the store says is for its operator"
        );
    }
    assert_eq!(runs.count(), 0);
    let mut unguarded = post("/pay", "k", "{}");
    *unguarded.method_mut() = http::Method::GET;
    assert_eq!(ask(&service, unguarded).await.text(), "run 1");
}

#[tokio::test]
async fn an_answer_that_cannot_be_recorded_is_not_shown() {
    let store = store();
    let closing = store.clone();
    let inner = service_fn(move |_: Seen| {
        closing.close().expect("closes");
        async { Ok::<_, Infallible>(text("secret")) }
    });
    let layer = by_user(&store).build().expect("rules");
    let got = ask(&layer.layer(inner), post("/pay", "k", "{}")).await;
    assert_eq!((got.status, got.problem().as_str()), (503, "not-recorded"));
    assert!(got.field("retry-after").is_some() && !got.text().contains("secret"));
    layer.idle().await;
}

#[tokio::test]
async fn what_is_not_kept_is_shown_even_if_that_cannot_be_recorded() {
    let store = store();
    let closing = store.clone();
    let inner = service_fn(move |_: Seen| {
        closing.close().expect("closes");
        let answer = Response::builder()
            .status(429)
            .body(Full::<bytes::Bytes>::from("slowly"));
        async { Ok::<_, Infallible>(answer.expect("an answer")) }
    });
    let layer = by_user(&store).build().expect("rules");
    let got = ask(&layer.layer(inner), post("/pay", "k", "{}")).await;
    assert_eq!((got.status, got.text()), (429, "slowly"));
}

#[test]
fn a_runtime_that_ends_in_mid_work_leaves_a_doubt() {
    let (store, gate) = (store(), Gate::shut());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stop = gate.clone();
    let inner = service_fn(move |_: Seen| {
        let stop = stop.clone();
        async move {
            stop.pass().await;
            Ok::<_, Infallible>(text("never"))
        }
    });
    let service = by_user(&store).build().expect("rules").layer(inner);
    runtime.block_on(async {
        let _client = tokio::spawn(service.oneshot(post("/pay", "k", "{}")));
        gate.reached().await;
    });
    drop(runtime);
    assert_eq!(doubt(&store), Doubt::Cancelled);
    let known = store.lookup(&Identity::new("http", "k").scope("ann"));
    assert!(known.expect("looks").is_some());
}

#[tokio::test]
async fn a_full_service_says_so_before_anything_is_read_or_claimed() {
    let (store, gate) = (store(), Gate::shut());
    let stop = gate.clone();
    let inner = service_fn(move |_: Seen| {
        let stop = stop.clone();
        async move {
            stop.pass().await;
            Ok::<_, Infallible>(text("done"))
        }
    });
    let layer = by_user(&store).build().expect("rules");
    // It panics when it is called without having been ready.
    let service = layer.layer(ConcurrencyLimit::new(inner, 1));
    let first = tokio::spawn(service.clone().oneshot(post("/pay", "a", "{}")));
    gate.reached().await;
    let mut second = service.clone();
    let full = poll_fn(|context| {
        let ready =
            Service::<http::Request<super::fixture::Sent>>::poll_ready(&mut second, context);
        Poll::Ready(ready.is_pending())
    });
    assert!(full.await, "the first is at work");
    // Also when its client has gone.
    first.abort();
    let _ = first.await;
    let second = tokio::spawn(second.oneshot(post("/pay", "b", "{}")));
    gate.open();
    gate.reached().await;
    gate.open();
    let got = Got::of(second.await.expect("no panic").expect("an answer")).await;
    assert_eq!(got.text(), "done");
    assert_eq!(ask(&service, post("/pay", "a", "{}")).await.text(), "done");
}

#[tokio::test]
async fn a_request_that_comes_back_to_its_own_handler_is_told_that_it_is_under_way() {
    let store = store();
    let claiming = store.clone();
    let inner = service_fn(move |_: Seen| {
        let store = claiming.clone();
        async move {
            let request = semel::Request::new("http", "k").scope("ann").wait(LONG);
            let claim = store.claim(&request).expect("claims");
            Ok::<_, Infallible>(text(claim.name()))
        }
    });
    let service = by_user(&store).build().expect("rules").layer(inner);
    assert_eq!(ask(&service, post("/pay", "k", "{}")).await.text(), "busy");
}
