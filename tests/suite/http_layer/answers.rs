//! Bodies of answers: kept, too long, streamed, broken.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use semel::Store;
use semel::http::{Body, Guard, IdempotencyLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::fixture::{Fed, Got, Seen, Sent, ask, by_user, fed, post, store};

const KEPT_BYTES: usize = 4;

/// A service that gives the answers in their order, and a layer that keeps four bytes.
fn service(
    store: &Store,
    answers: impl IntoIterator<Item = Response<Fed>>,
) -> (
    IdempotencyLayer,
    impl Service<
        Request<Sent>,
        Response = Response<Body<Fed>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static,
) {
    let mut answers: Vec<_> = answers.into_iter().collect();
    answers.reverse();
    let answers = Arc::new(Mutex::new(answers));
    let inner = service_fn(move |_: Seen| {
        let answer = answers
            .lock()
            .expect("no panic")
            .pop()
            .expect("another answer");
        async { Ok::<_, Infallible>(answer) }
    });
    let guard = Guard::new().max_kept_bytes(KEPT_BYTES);
    let layer = by_user(store).guard(guard).build().expect("rules");
    let service = layer.layer(inner);
    (layer, service)
}

async fn frame(body: &mut Body<Fed>) -> Option<Bytes> {
    let frame = body.frame().await?.expect("a frame");
    Some(frame.into_data().expect("data"))
}

#[tokio::test]
async fn an_answer_in_pieces_is_kept_in_one() {
    let store = store();
    let (feeder, body) = fed();
    let (_, service) = service(&store, [Response::new(body)]);
    tokio::spawn(async move {
        for piece in ["a", "bc", "", "d"] {
            feeder.data(piece).await;
        }
        feeder.trailer("x-sum", "7").await;
    });
    let response = service
        .clone()
        .oneshot(post("/", "k", ""))
        .await
        .expect("an answer");
    let read = response.into_body().collect().await.expect("a body");
    assert_eq!(
        read.trailers().expect("trailers")["x-sum"],
        "7",
        "for the first client"
    );
    assert_eq!(read.to_bytes(), "abcd");
    let again = ask(&service, post("/", "k", "")).await;
    assert_eq!((again.text(), again.replayed()), ("abcd", true));
}

#[tokio::test]
async fn an_answer_over_the_limit_goes_out_as_it_comes_and_is_gone_for_repeats() {
    let store = store();
    let (feeder, body) = fed();
    let (layer, service) = service(&store, [Response::new(body)]);
    let client = tokio::spawn(service.clone().oneshot(post("/", "k", "")));
    feeder.data("abc").await;
    feeder.data("de").await;
    let mut body = client
        .await
        .expect("no panic")
        .expect("an answer")
        .into_body();
    assert_eq!(
        frame(&mut body).await.expect("data"),
        "abcde",
        "before its end"
    );
    assert_eq!(
        ask(&service, post("/", "k", "")).await.problem(),
        "in-flight"
    );
    feeder.data("f").await;
    assert_eq!(frame(&mut body).await.expect("data"), "f");
    drop(feeder);
    assert!(frame(&mut body).await.is_none());
    // The end is shown when it is recorded.
    let again = ask(&service, post("/", "k", "")).await;
    assert_eq!(
        (again.status, again.problem().as_str()),
        (410, "answer-gone")
    );
    layer.idle().await;
}

#[tokio::test]
async fn an_answer_that_says_that_it_is_too_long_is_not_held() {
    let store = store();
    let inner = service_fn(|_: Seen| async {
        let body = http_body_util::Full::<Bytes>::from("abcde");
        Ok::<_, Infallible>(Response::new(body))
    });
    let guard = Guard::new().max_kept_bytes(KEPT_BYTES);
    let service = by_user(&store)
        .guard(guard)
        .build()
        .expect("rules")
        .layer(inner);
    assert_eq!(ask(&service, post("/", "k", "")).await.text(), "abcde");
    assert_eq!(ask(&service, post("/", "k", "")).await.status, 410);
}

#[tokio::test]
async fn a_stream_is_never_held_back() {
    let store = store();
    let (feeder, body) = fed();
    let answer = Response::builder()
        .header("content-type", "text/event-stream")
        .body(body);
    let (_, service) = service(&store, [answer.expect("an answer")]);
    let response = service
        .clone()
        .oneshot(post("/", "k", ""))
        .await
        .expect("its head");
    let mut body = response.into_body();
    feeder.data("1").await;
    assert_eq!(frame(&mut body).await.expect("data"), "1");
    feeder.data("2").await;
    assert_eq!(frame(&mut body).await.expect("data"), "2");
    drop(feeder);
    assert!(frame(&mut body).await.is_none());
    assert_eq!(
        ask(&service, post("/", "k", "")).await.problem(),
        "answer-gone"
    );
}

#[tokio::test]
async fn a_stream_whose_client_has_gone_is_read_to_its_end() {
    let store = store();
    let (feeder, body) = fed();
    let answer = Response::builder()
        .header("x-accel-buffering", "no")
        .body(body);
    let (layer, service) = service(&store, [answer.expect("an answer")]);
    let response = service
        .clone()
        .oneshot(post("/", "k", ""))
        .await
        .expect("its head");
    drop(response);
    for _ in 0..64 {
        feeder.data("more").await; // somebody reads on
    }
    assert_eq!(
        ask(&service, post("/", "k", "")).await.problem(),
        "in-flight"
    );
    drop(feeder);
    layer.idle().await;
    assert_eq!(
        ask(&service, post("/", "k", "")).await.problem(),
        "answer-gone"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_a_doubt() {
    let store = store();
    let (feeder, body) = fed();
    let (_, service) = service(&store, [Response::new(body)]);
    tokio::spawn(async move {
        feeder.data("ab").await;
        feeder.breaks().await;
    });
    let first = ask(&service, post("/", "k", "")).await;
    assert_eq!(
        (first.status, first.problem().as_str()),
        (500, "broken-off")
    );
    assert!(!first.text().contains("the line is cut"));
    assert_eq!(
        ask(&service, post("/", "k", "")).await.problem(),
        "in-doubt"
    );
    let unresolved = store.unresolved(1).expect("lists");
    let (_, doubt) = unresolved[0].doubt.as_ref().expect("a doubt");
    let why = doubt.to_string();
    assert!(
        why.contains("the line is cut"),
        "the operator is told: {why}"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_beyond_the_limit_does_so_for_the_client_and_leaves_a_doubt() {
    let store = store();
    let (feeder, body) = fed();
    let (_, service) = service(&store, [Response::new(body)]);
    let client = tokio::spawn(service.clone().oneshot(post("/", "k", "")));
    feeder.data("abcde").await;
    feeder.breaks().await;
    let body = client
        .await
        .expect("no panic")
        .expect("its head")
        .into_body();
    let error = body.collect().await.expect_err("it broke off");
    assert_eq!(error.to_string(), "the line is cut");
    assert!(error.downcast_ref::<io::Error>().is_some());
    assert_eq!(
        ask(&service, post("/", "k", "")).await.problem(),
        "in-doubt"
    );
}

#[tokio::test]
async fn an_answer_that_is_not_kept_passes_as_it_comes() {
    let store = store();
    let bodies = [fed(), fed()];
    let [(feeder, first), (_, second)] = bodies;
    let busy = |body| {
        Response::builder()
            .status(429)
            .body(body)
            .expect("an answer")
    };
    let (_, service) = service(&store, [busy(first), busy(second)]);
    let response = service
        .clone()
        .oneshot(post("/", "k", ""))
        .await
        .expect("its head");
    let mut body = response.into_body();
    feeder.data("slo").await;
    assert_eq!(frame(&mut body).await.expect("data"), "slo");
    // The key is free before the body has ended.
    let again = service
        .clone()
        .oneshot(post("/", "k", ""))
        .await
        .expect("its head");
    assert_eq!(again.status(), 429);
    feeder.data("wly").await;
    drop(feeder);
    let rest = Got::of(Response::new(body)).await;
    assert_eq!(rest.text(), "wly");
}
