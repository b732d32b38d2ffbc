//! Bodies of requests: read whole, refused, or passed on untouched; nothing is claimed before they came.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Body as _;
use semel::Store;
use semel::http::{Body, Guard};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::fixture::{Fed, Got, Runs, by_user, fed, store};

const LIMIT_BYTES: usize = 10;

/// A service that answers with the body that it got, and its trailer; a layer that reads ten bytes.
fn echo<B>(
    store: &Store,
    runs: &Runs,
) -> impl Service<
    Request<B>,
    Response = Response<Body<Full<Bytes>>>,
    Error = Infallible,
    Future: Send + 'static,
> + Clone
+ Send
+ 'static
where
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<semel::http::BoxError> + Send,
{
    let runs = runs.clone();
    let inner = service_fn(move |request: Request<Body<B>>| {
        runs.next();
        async move {
            let body = request.into_body();
            let said = body.size_hint().exact();
            let read = body.collect().await.expect("a body");
            let trailers = read.trailers().cloned().unwrap_or_default();
            let bytes = read.to_bytes();
            assert!(said.is_none_or(|said| said == bytes.len() as u64));
            let mut answer = Response::new(Full::from(bytes));
            answer.headers_mut().extend(trailers);
            Ok::<_, Infallible>(answer)
        }
    });
    let guard = Guard::new().max_body_bytes(LIMIT_BYTES);
    by_user(store)
        .guard(guard)
        .build()
        .expect("rules")
        .layer(inner)
}

fn posted<B>(body: B) -> Request<B> {
    let request = Request::post("/")
        .header("x-user", "ann")
        .header("idempotency-key", "k");
    request.body(body).expect("a request")
}

async fn got<S, B>(service: &S, request: Request<B>) -> Got
where
    S: Service<Request<B>, Response = Response<Body<Full<Bytes>>>, Error = Infallible> + Clone,
{
    Got::of(service.clone().oneshot(request).await.expect("an answer")).await
}

#[tokio::test]
async fn a_guarded_body_is_given_on_whole_with_the_same_bytes() {
    let (store, runs) = (store(), Runs::default());
    let service = echo(&store, &runs);
    let (feeder, body) = fed();
    tokio::spawn(async move {
        for piece in ["01", "", "234", "56789"] {
            feeder.data(piece).await;
        }
        feeder.trailer("etag", "sum").await;
    });
    let first = got(&service, posted(body)).await;
    assert_eq!(
        (first.text(), first.field("etag")),
        ("0123456789", Some("sum"))
    );
    let (feeder, body) = fed();
    tokio::spawn(async move { feeder.data("0123456789").await });
    let again = got(&service, posted(body)).await;
    assert!(again.replayed(), "however it was cut into pieces");
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whatever_it_says() {
    let (store, runs) = (store(), Runs::default());
    let service = echo(&store, &runs);
    let (feeder, body) = fed();
    let asked = tokio::spawn({
        let service = service.clone();
        async move { got(&service, posted(body)).await }
    });
    feeder.data("0123456789").await;
    feeder.data("a").await; // and it never ends
    let refused = asked.await.expect("no panic");
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (413, "body-too-large")
    );

    let (_feeder, body) = fed();
    let mut said = posted(body);
    said.headers_mut().insert("content-length", 11.into());
    let refused = got(&service, said).await;
    assert_eq!(refused.status, 413, "without a byte of it");
    assert_eq!((runs.count(), store.len()), (0, 0));
}

#[tokio::test]
async fn a_body_that_does_not_come_whole_is_refused_before_anything_is_claimed() {
    let (store, runs) = (store(), Runs::default());
    let service = echo::<Fed>(&store, &runs);
    let (feeder, body) = fed();
    tokio::spawn(async move {
        feeder.data("01").await;
        feeder.breaks().await;
    });
    let refused = got(&service, posted(body)).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (400, "request-malformed")
    );
    let service = echo(&store, &runs);
    for said in ["3", "1", "2, 2", "x"] {
        let mut request = posted(Full::<Bytes>::from("01"));
        let said = said.parse().expect("a value");
        request.headers_mut().insert("content-length", said);
        let refused = got(&service, request).await;
        assert_eq!(
            (refused.status, refused.problem().as_str()),
            (400, "request-malformed")
        );
    }
    assert_eq!((runs.count(), store.len()), (0, 0));
}

#[tokio::test]
async fn the_limit_of_somebody_in_front_is_told_as_one() {
    let (store, runs) = (store(), Runs::default());
    let service = echo(&store, &runs);
    let limited = |bytes| posted(Limited::new(Full::<Bytes>::from("01234"), bytes));
    let refused = got(&service, limited(4)).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (413, "body-too-large")
    );
    assert_eq!(got(&service, limited(5)).await.text(), "01234");
}

#[tokio::test]
async fn an_unguarded_body_passes_as_it_comes() {
    let store = store();
    let inner = service_fn(|request: Request<Body<Fed>>| async {
        let first = request.into_body().frame().await.expect("a frame");
        let first = first.expect("no error").into_data().expect("data");
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(first)))
    });
    let service = by_user(&store).build().expect("rules").layer(inner);
    let (feeder, body) = fed();
    let mut request = posted(body);
    *request.method_mut() = http::Method::PUT;
    let asked = tokio::spawn(service.oneshot(request));
    feeder.data("first").await;
    let answer = asked.await.expect("no panic").expect("an answer");
    assert_eq!(
        Got::of(answer).await.text(),
        "first",
        "the rest has not come yet"
    );
    assert!(store.is_empty());
}
