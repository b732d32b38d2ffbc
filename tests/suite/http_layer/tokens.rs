//! Tokens that the layer issues, and that it takes as keys.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use semel::http::{Body, Guard, Routes};
use semel::{Clock, Store};
use tower::{Layer, Service, service_fn};

use super::fixture::{Got, Runs, Seen, Sent, ask, by_user, post, store};

const TTL: Duration = Duration::from_secs(300);

/// `/token` and `/gift-token` issue; `/orders` and `/refunds` take tokens of `/token` alone.
fn shop(
    store: &Store,
    runs: &Runs,
) -> impl Service<
    Request<Sent>,
    Response = Response<Body<Full<Bytes>>>,
    Error = Infallible,
    Future: Send,
> + Clone {
    let runs = runs.clone();
    let inner = service_fn(move |_: Seen| {
        let run = runs.next();
        async move { Ok::<_, Infallible>(Response::new(Full::from(format!("run {run}")))) }
    });
    let guard = |operation| {
        Guard::new()
            .operation(operation)
            .and_then(|guard| guard.tokens("checkout"))
    };
    let routes = Routes::new()
        .guarded("/refunds", guard("refund").expect("rules"))
        .expect("routes");
    let layer = by_user(store)
        .guard(guard("order").expect("rules"))
        .routes(routes);
    let layer = layer
        .token_route("/token", "checkout", TTL)
        .expect("a route");
    let layer = layer
        .token_route("/gift-token", "gift", TTL)
        .expect("a route");
    layer.build().expect("rules").layer(inner)
}

fn token(got: &Got) -> String {
    assert_eq!(
        (got.status, got.field("content-type")),
        (201, Some("application/json"))
    );
    assert_eq!(got.field("cache-control"), Some("no-store"));
    assert_eq!(got.json()["expires_in"], 300);
    got.json()["token"].as_str().expect("a token").to_owned()
}

fn reason(got: &Got) -> String {
    assert_eq!((got.status, got.problem().as_str()), (403, "token-refused"));
    got.json()["reason"].as_str().expect("a reason").to_owned()
}

/// Asks for a token as a client without a key does.
fn please(path: &str) -> Request<Sent> {
    let mut request = post(path, "", "");
    request.headers_mut().remove("idempotency-key");
    request
}

#[tokio::test]
async fn a_token_is_good_for_one_operation_and_all_its_repeats() {
    let (store, runs) = (store(), Runs::default());
    let service = shop(&store, &runs);
    let token = token(&ask(&service, please("/token")).await);
    assert_eq!(runs.count(), 0, "the service behind is not asked");
    assert_eq!(
        ask(&service, post("/orders", &token, "{}")).await.text(),
        "run 1"
    );
    let again = ask(&service, post("/orders", &token, "{}")).await;
    assert_eq!((again.text(), again.replayed()), ("run 1", true));
    assert_eq!(
        ask(&service, post("/orders", &token, "[]")).await.status,
        422
    );
    assert_eq!(
        reason(&ask(&service, post("/refunds", &token, "{}")).await),
        "used"
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn what_is_no_token_of_this_user_and_purpose_is_refused() {
    let (store, runs) = (store(), Runs::default());
    let service = shop(&store, &runs);
    assert_eq!(
        reason(&ask(&service, post("/orders", "made-up", "{}")).await),
        "unknown"
    );
    let long = "k".repeat(200);
    assert_eq!(
        reason(&ask(&service, post("/orders", &long, "{}")).await),
        "unknown"
    );
    let gift = token(&ask(&service, please("/gift-token")).await);
    assert_eq!(
        reason(&ask(&service, post("/orders", &gift, "{}")).await),
        "other_purpose"
    );
    let mine = token(&ask(&service, please("/token")).await);
    let mut stolen = post("/orders", &mine, "{}");
    stolen
        .headers_mut()
        .insert("x-user", "bob".parse().expect("a value"));
    assert_eq!(reason(&ask(&service, stolen).await), "unknown");
    assert_eq!(runs.count(), 0);
    assert_eq!(
        ask(&service, post("/orders", &mine, "{}")).await.text(),
        "run 1"
    );
}

#[tokio::test]
async fn a_token_expires_before_its_use_and_not_after() {
    let clock = Clock::manual(Duration::from_secs(1_800_000_000));
    let store = Store::builder("memory:")
        .clock(clock.clone())
        .open()
        .expect("opens");
    let runs = Runs::default();
    let service = shop(&store, &runs);
    let used = token(&ask(&service, please("/token")).await);
    let unused = token(&ask(&service, please("/token")).await);
    assert_eq!(
        ask(&service, post("/orders", &used, "{}")).await.text(),
        "run 1"
    );
    clock.advance(TTL + Duration::from_secs(1));
    assert_eq!(
        reason(&ask(&service, post("/orders", &unused, "{}")).await),
        "expired"
    );
    assert!(ask(&service, post("/orders", &used, "{}")).await.replayed());
}

#[tokio::test]
async fn a_token_is_for_somebody_and_its_route_takes_nothing_but_post() {
    let (store, runs) = (store(), Runs::default());
    let service = shop(&store, &runs);
    let mut nobody = please("/token");
    nobody.headers_mut().remove("x-user");
    let refused = ask(&service, nobody).await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (400, "request-malformed")
    );
    for method in [Method::GET, Method::OPTIONS] {
        let mut other = please("/token");
        *other.method_mut() = method;
        assert!(ask(&service, other).await.text().starts_with("run"));
    }
    store.close().expect("closes");
    assert_eq!(
        ask(&service, please("/token")).await.problem(),
        "store-unavailable"
    );
    let refused = ask(&service, post("/orders", "k", "{}")).await;
    assert_eq!(
        (refused.problem().as_str(), runs.count()),
        ("store-unavailable", 2)
    );
}
