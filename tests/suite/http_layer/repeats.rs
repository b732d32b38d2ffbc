//! Who runs, who gets the first answer, and who is told why not.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use semel::http::{
    Ending, FieldRules, Guard, KeySource, LayerBuilder, Routes, Running, StatusPolicy,
};
use tower::{Layer, Service, service_fn};

use super::fixture::{Got, Runs, Seen, Sent, ask, by_user, post, store};

type Answer = Response<Full<Bytes>>;

/// A service that answers with what the handler makes of the number of the run, counted in `runs`.
fn service(
    layer: LayerBuilder,
    runs: &Runs,
    handler: impl Fn(u32, &Seen) -> Answer + Clone + Send + 'static,
) -> impl Service<
    Request<Sent>,
    Response = Response<semel::http::Body<Full<Bytes>>>,
    Error = Infallible,
    Future: Send,
> + Clone {
    let runs = runs.clone();
    let inner = service_fn(move |request: Seen| {
        let answer = handler(runs.next(), &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    layer.build().expect("rules").layer(inner)
}

fn numbered(run: u32, _: &Seen) -> Answer {
    let made = Response::builder()
        .status(201)
        .header("location", format!("/orders/{run}"));
    made.body(Full::from(format!("run {run}")))
        .expect("an answer")
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, |run, _| {
        Response::builder()
            .status(201)
            .header("location", format!("/orders/{run}"))
            .header("content-type", "application/octet-stream")
            .header("link", "</a>; rel=a")
            .header("set-cookie", "who=ann")
            .header("x-order-id", "7")
            .header("link", "</b, c>; rel=b")
            .body(Full::from(vec![0, 255, b'\n', b'{']))
            .expect("an answer")
    });
    let first = ask(&service, post("/orders", "k", r#"{"amount":1}"#)).await;
    assert_eq!((first.status, first.replayed()), (201, false));
    assert_eq!(
        first.field("set-cookie"),
        Some("who=ann"),
        "the first client gets all of it"
    );
    let again = ask(&service, post("/orders", "\"k\"", r#"{"amount":1.0}"#)).await;
    assert_eq!((again.status, again.replayed()), (201, true));
    assert_eq!(again.body, first.body);
    assert_eq!(again.field("location"), Some("/orders/1"));
    assert_eq!(
        (again.field("set-cookie"), again.field("x-order-id")),
        (None, None)
    );
    let links: Vec<_> = again.fields.get_all("link").iter().collect();
    assert_eq!(
        links,
        ["</a>; rel=a", "</b, c>; rel=b"],
        "in order, and not split at commas"
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn fields_that_are_named_are_replayed_too() {
    let (store, runs) = (store(), Runs::default());
    let fields = FieldRules::default().also("X-Order-Id").expect("a name");
    let service = service(
        by_user(&store).guard(Guard::new().fields(fields)),
        &runs,
        |_, _| {
            Response::builder()
                .header("x-order-id", "7")
                .body(Full::default())
                .expect("an answer")
        },
    );
    for replayed in [false, true] {
        let got = ask(&service, post("/", "k", "")).await;
        assert_eq!(
            (got.replayed(), got.field("x-order-id")),
            (replayed, Some("7"))
        );
        assert_eq!(got.body, "", "an empty body is an answer");
    }
}

#[tokio::test]
async fn another_request_under_the_key_is_told_what_differs() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    ask(&service, post("/orders", "k", r#"{"amount":1,"to":"x"}"#)).await;
    let other = ask(&service, post("/orders", "k", r#"{"amount":2,"to":"x"}"#)).await;
    assert_eq!(
        (other.status, other.problem().as_str()),
        (422, "key-reused")
    );
    assert_eq!(other.json()["fields"], serde_json::json!(["body.amount"]));
    let elsewhere = ask(&service, post("/refunds", "k", r#"{"amount":1,"to":"x"}"#)).await;
    assert_eq!(elsewhere.json()["fields"], serde_json::json!(["path"]));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_key_of_one_scope_never_shows_the_answer_of_another() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    for (user, body) in [
        ("ann", "run 1"),
        ("bob", "run 2"),
        ("ann", "run 1"),
        ("bob", "run 2"),
    ] {
        let mut request = post("/orders", "k", "{}");
        request
            .headers_mut()
            .insert("x-user", user.parse().expect("a value"));
        assert_eq!(ask(&service, request).await.text(), body, "{user}");
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn without_a_scope_nothing_is_passed_on() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    let mut request = post("/orders", "k", "{}");
    request.headers_mut().remove("x-user");
    let refused = ask(&service, request).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (400, "request-malformed")
    );
    assert_eq!((runs.count(), store.len()), (0, 0));
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_refused_and_nothing_runs() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    let long = "k".repeat(256);
    let cases: [(&[&[u8]], &str); 9] = [
        (&[], "key-missing"),
        (&[b""], "key-malformed"),
        (&[b"\"\""], "key-malformed"),
        (&[b"a", b"a"], "key-malformed"),
        (&[b"a", b"b"], "key-malformed"),
        (&[b"a, b"], "key-malformed"),
        (&[b"\"a\", \"b\""], "key-malformed"),
        (&[b"schl\xfcssel"], "key-malformed"),
        (&[long.as_bytes()], "key-malformed"),
    ];
    for (values, kind) in cases {
        let mut request = post("/orders", "k", "{}");
        request.headers_mut().remove("idempotency-key");
        for value in values {
            let value = http::HeaderValue::from_bytes(value).expect("a value");
            request.headers_mut().append("Idempotency-Key", value);
        }
        let refused = ask(&service, request).await;
        assert_eq!(
            (refused.status, refused.problem().as_str()),
            (400, kind),
            "{values:?}"
        );
    }
    assert_eq!((runs.count(), store.len()), (0, 0));
}

#[tokio::test]
async fn another_spelling_of_the_field_is_no_key() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    let mut request = post("/orders", "k", "{}");
    request
        .headers_mut()
        .append("idempotency_key", http::HeaderValue::from_static("other"));
    assert_eq!(ask(&service, request).await.text(), "run 1");
    assert!(ask(&service, post("/orders", "k", "{}")).await.replayed());
    let mut request = post("/orders", "k", "{}");
    let key = request
        .headers_mut()
        .remove("idempotency-key")
        .expect("a key");
    request.headers_mut().insert("idempotency_key", key);
    assert_eq!(ask(&service, request).await.problem(), "key-missing");
}

#[tokio::test]
async fn compressed_bodies_are_compared_as_they_come() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    let gzip = |bytes: &'static [u8]| {
        let mut request = post("/orders", "k", "");
        *request.body_mut() = Full::from(bytes);
        request
            .headers_mut()
            .insert("content-encoding", "gzip".parse().expect("a value"));
        request
    };
    ask(&service, gzip(b"\x1f\x8b\x08one")).await;
    assert!(ask(&service, gzip(b"\x1f\x8b\x08one")).await.replayed());
    assert_eq!(ask(&service, gzip(b"\x1f\x8b\x08two")).await.status, 422);
}

#[tokio::test]
async fn where_keys_are_optional_requests_without_one_pass() {
    let (store, runs) = (store(), Runs::default());
    let service = service(
        by_user(&store).guard(Guard::new().optional()),
        &runs,
        numbered,
    );
    for run in 1..=2 {
        let mut request = post("/orders", "k", "{}");
        request.headers_mut().remove("idempotency-key");
        request.headers_mut().remove("x-user");
        let got = ask(&service, request).await;
        assert_eq!(
            (got.text(), got.replayed()),
            (&*format!("run {run}"), false)
        );
    }
    assert_eq!(
        ask(&service, post("/orders", "a b", "{}")).await.problem(),
        "key-malformed"
    );
    assert_eq!(store.len(), 0);
}

#[tokio::test]
async fn methods_that_are_not_guarded_pass() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, numbered);
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let mut request = post("/orders", "k", "{}");
        *request.method_mut() = method.parse().expect("a method");
        let got = ask(&service, request).await;
        assert_eq!((got.status, got.replayed()), (201, false), "{method}");
    }
    assert_eq!((runs.count(), store.len()), (5, 0));
}

#[tokio::test]
async fn routes_have_rules_of_their_own() {
    let (store, runs) = (store(), Runs::default());
    let pay = Guard::new()
        .operation("pay")
        .expect("a name")
        .policy(StatusPolicy::StripeV1);
    let put = Guard::new().methods(["PUT"]);
    let routes = Routes::new()
        .guarded("POST /pay/*", pay)
        .and_then(|routes| routes.unguarded("/search"))
        .and_then(|routes| routes.guarded("PUT /files/{name}", put))
        .expect("routes");
    let service = service(by_user(&store).routes(routes), &runs, |run, request| {
        let status = if request.uri().path() == "/pay/1" {
            500
        } else {
            200
        };
        let answer = Response::builder().status(status);
        answer
            .body(Full::from(format!("run {run}")))
            .expect("an answer")
    });
    for (method, path, replayed) in [
        ("POST", "/pay/1", true),
        ("POST", "/search", false),
        ("POST", "/orders", true),
        ("PUT", "/files/a", true),
        ("POST", "/files/a", false),
    ] {
        let asked = || {
            let mut request = post(path, &format!("k{}", path.len()), "{}");
            *request.method_mut() = method.parse().expect("a method");
            request
        };
        ask(&service, asked()).await;
        assert_eq!(
            ask(&service, asked()).await.replayed(),
            replayed,
            "{method} {path}"
        );
    }
    let pay = store
        .lookup(&semel::Identity::new("pay", "k6").scope("ann"))
        .expect("looks");
    assert!(pay.is_some(), "under the operation of its route");
}

#[tokio::test]
async fn the_key_may_stand_in_the_body_or_in_another_field() {
    let (store, runs) = (store(), Runs::default());
    let by_body = Guard::new().key(KeySource::body(".order_no").expect("a path"));
    let by_field = Guard::new()
        .key(KeySource::field("X-Order-No").expect("a name"))
        .optional();
    let routes = Routes::new()
        .guarded("/by-field", by_field)
        .expect("routes");
    let service = service(
        by_user(&store).guard(by_body).routes(routes),
        &runs,
        |run, request| {
            let came = request.headers().get("x-order-no").cloned();
            assert_eq!(came.is_some(), request.uri().path() == "/by-field");
            Response::new(Full::from(format!("run {run}")))
        },
    );
    let body = r#"{"order_no":"A-7"}"#;
    assert_eq!(
        ask(&service, post("/", "other", body)).await.text(),
        "run 1"
    );
    assert!(ask(&service, post("/", "another", body)).await.replayed());
    assert_eq!(
        ask(&service, post("/", "k", "{}")).await.problem(),
        "key-missing"
    );
    let by_field = || {
        let mut request = post("/by-field", "ignored", "{}");
        request
            .headers_mut()
            .insert("x-order-no", "B-1".parse().expect("a value"));
        request
    };
    assert_eq!(ask(&service, by_field()).await.text(), "run 2");
    assert!(ask(&service, by_field()).await.replayed());
}

#[tokio::test]
async fn a_key_in_the_body_that_is_optional_and_missing_lets_the_whole_body_pass() {
    let store = store();
    let guard = Guard::new()
        .key(KeySource::body(".order_no").expect("a path"))
        .optional();
    let echo = service_fn(|request: Seen| async move {
        let body = request.into_body().collect().await.expect("a body");
        Ok::<_, Infallible>(Answer::new(Full::from(body.to_bytes())))
    });
    let service = by_user(&store)
        .guard(guard)
        .build()
        .expect("rules")
        .layer(echo);
    let got: Got = ask(&service, post("/", "k", r#"{"a":1}"#)).await;
    assert_eq!((got.text(), got.replayed()), (r#"{"a":1}"#, false));
}

#[tokio::test]
async fn the_status_says_whether_the_answer_is_kept() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, |run, request| {
        let status: u16 = request.uri().path()[1..].parse().expect("a status");
        let answer = Response::builder().status(status);
        answer
            .body(Full::from(format!("run {run}")))
            .expect("an answer")
    });
    for status in [200, 303, 402, 404, 422] {
        let asked = || post(&format!("/{status}"), &format!("k{status}"), "");
        assert_eq!(ask(&service, asked()).await.status, status);
        let again = ask(&service, asked()).await;
        assert_eq!((again.status, again.replayed()), (status, true));
    }
    for status in [401, 408, 425, 429] {
        let asked = || post(&format!("/{status}"), &format!("k{status}"), "");
        let first = ask(&service, asked()).await;
        let again = ask(&service, asked()).await;
        assert_eq!((first.status, again.status), (status, status));
        assert_ne!(first.body, again.body, "it ran again");
    }
    for status in [500, 503] {
        let asked = || post(&format!("/{status}"), &format!("k{status}"), "");
        let first = ask(&service, asked()).await;
        assert_eq!(
            (first.status, first.text().starts_with("run")),
            (status, true)
        );
        let again = ask(&service, asked()).await;
        assert_eq!((again.status, again.problem().as_str()), (409, "in-doubt"));
        assert_eq!(again.field("retry-after"), None);
    }
}

#[tokio::test]
async fn a_service_may_know_more_than_its_status_tells() {
    let (store, runs) = (store(), Runs::default());
    let service = service(by_user(&store), &runs, |run, request| {
        let (status, ending) = match request.uri().path() {
            "/not-sent" => (502, Ending::NotSent),
            "/broken" => (200, Ending::Broken),
            _ => (500, Ending::Status(200)),
        };
        let answer = Response::builder().status(status).extension(ending);
        answer
            .body(Full::from(format!("run {run}")))
            .expect("an answer")
    });
    assert_eq!(
        ask(&service, post("/not-sent", "a", "")).await.text(),
        "run 1"
    );
    assert_eq!(
        ask(&service, post("/not-sent", "a", "")).await.text(),
        "run 2"
    );
    assert_eq!(
        ask(&service, post("/broken", "b", "")).await.text(),
        "run 3"
    );
    assert_eq!(
        ask(&service, post("/broken", "b", "")).await.problem(),
        "in-doubt"
    );
    assert_eq!(ask(&service, post("/known", "c", "")).await.status, 500);
    let again = ask(&service, post("/known", "c", "")).await;
    assert_eq!((again.status, again.replayed()), (500, true));
}

#[tokio::test]
async fn the_handler_knows_which_attempt_it_is() {
    let (store, runs) = (store(), Runs::default());
    let guard = Guard::new().policy(StatusPolicy::SuccessOnly);
    let service = service(by_user(&store).guard(guard), &runs, |run, request| {
        let running = request.extensions().get::<Running>();
        let told = running.map(|running| {
            assert_eq!(running.attempt(), run);
            assert!(running.fence() > 0 && running.first_executed_us() > 0);
            assert!(!running.lost() && !running.is_takeover());
            running.derive_key("charge")
        });
        let status = if run < 3 { 503 } else { 200 };
        let answer = Response::builder().status(status);
        answer
            .body(Full::from(told.unwrap_or_default()))
            .expect("an answer")
    });
    let first = ask(&service, post("/", "k", "")).await;
    assert_eq!(first.text().len(), 32);
    for _ in 2..=3 {
        let next = ask(&service, post("/", "k", "")).await;
        assert_eq!(
            next.body, first.body,
            "the same key for the bank in every attempt"
        );
    }
    let mut unguarded = post("/", "k", "");
    *unguarded.method_mut() = http::Method::GET;
    assert_eq!(ask(&service, unguarded).await.text(), "");
}

#[tokio::test]
async fn rules_that_cannot_be_kept_make_no_layer_and_doubtful_ones_are_told() {
    let store = store();
    let zero = Guard::new().retain(std::time::Duration::ZERO);
    let refused = by_user(&store)
        .guard(zero.clone())
        .build()
        .expect_err("no layer");
    assert_eq!(refused.kind(), semel::ErrorKind::InvalidInput);
    let routes = Routes::new().guarded("/pay", zero).expect("a pattern");
    assert!(by_user(&store).routes(routes).build().is_err());

    let per_attempt = Guard::new().key(KeySource::field("X-Request-Id").expect("a name"));
    let layer = by_user(&store).guard(per_attempt).build().expect("rules");
    let warnings = layer.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("x-request-id"),
        "{warnings:?}"
    );
    assert!(
        by_user(&store)
            .build()
            .expect("rules")
            .warnings()
            .is_empty()
    );
}
