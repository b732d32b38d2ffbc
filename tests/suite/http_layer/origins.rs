//! What pages of other origins are told.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use semel::http::{Body, Guard, KeySource, LayerBuilder};
use tower::{Layer, Service, service_fn};

use super::fixture::{Seen, Sent, ask, by_user, post, store};

/// A service that lets pages of one origin in.
fn service(
    layer: LayerBuilder,
) -> impl Service<
    Request<Sent>,
    Response = Response<Body<Full<Bytes>>>,
    Error = Infallible,
    Future: Send,
> + Clone {
    let inner = service_fn(|request: Seen| async move {
        let origin = request.headers().get("origin").cloned();
        let mut answer = Response::new(Full::default());
        if let Some(origin) = origin.filter(|origin| origin == "https://shop.example") {
            let fields = answer.headers_mut();
            fields.insert("access-control-allow-origin", origin);
            fields.insert(
                "access-control-allow-headers",
                http::HeaderValue::from_static("content-type"),
            );
            fields.insert(
                "access-control-expose-headers",
                http::HeaderValue::from_static("ETag, Retry-After"),
            );
        }
        Ok::<_, Infallible>(answer)
    });
    layer.build().expect("rules").layer(inner)
}

fn preflight(origin: &str) -> Request<Sent> {
    let mut request = post("/", "", "");
    *request.method_mut() = Method::OPTIONS;
    let fields = request.headers_mut();
    fields.clear();
    fields.insert("origin", origin.parse().expect("a value"));
    fields.insert(
        "access-control-request-method",
        "POST".parse().expect("a value"),
    );
    request
}

fn list(fields: &HeaderMap, name: &str) -> Vec<String> {
    let values = fields.get_all(name).iter();
    values
        .map(|value| value.to_str().expect("ASCII").to_owned())
        .collect()
}

const ALLOW: &str = "access-control-allow-headers";
const EXPOSE: &str = "access-control-expose-headers";

#[tokio::test]
async fn a_page_that_is_let_in_may_send_keys() {
    let store = store();
    let layer = || by_user(&store).cors();
    let got = ask(&service(layer()), preflight("https://shop.example")).await;
    assert_eq!(
        list(&got.fields, ALLOW),
        ["content-type", "idempotency-key"]
    );
    let guard = Guard::new().key(KeySource::field("X-Order-No").expect("a name"));
    let got = ask(
        &service(layer().guard(guard)),
        preflight("https://shop.example"),
    )
    .await;
    assert_eq!(
        list(&got.fields, ALLOW),
        ["content-type", "x-order-no, idempotency-key"]
    );
    let got = ask(&service(layer()), preflight("https://other.example")).await;
    assert_eq!(
        list(&got.fields, ALLOW),
        [""; 0],
        "who is not let in is told nothing"
    );
}

#[tokio::test]
async fn a_page_may_see_what_became_of_its_request() {
    let store = store();
    let service = service(by_user(&store).cors());
    let from_page = || {
        let mut request = post("/", "k", "");
        request
            .headers_mut()
            .insert("origin", "https://shop.example".parse().expect("a value"));
        request
    };
    let first = ask(&service, from_page()).await;
    assert_eq!(
        list(&first.fields, EXPOSE),
        ["ETag, Retry-After", "idempotent-replayed"]
    );
    let whole = ["idempotent-replayed, retry-after"];
    assert_eq!(
        list(&ask(&service, from_page()).await.fields, EXPOSE),
        whole,
        "a replay"
    );
    let refused = ask(&service, post("/", "", "")).await;
    assert_eq!(
        (refused.status, list(&refused.fields, EXPOSE)),
        (400, whole.map(str::to_owned).to_vec())
    );
}

#[tokio::test]
async fn unless_asked_for_nothing_is_said_to_other_origins() {
    let store = store();
    let service = service(by_user(&store));
    let got = ask(&service, preflight("https://shop.example")).await;
    assert_eq!(list(&got.fields, ALLOW), ["content-type"]);
    assert_eq!(
        list(&ask(&service, post("/", "k", "")).await.fields, EXPOSE),
        [""; 0]
    );
}
