//! The HTTP layer over a store whose owner falls silent: an answer that cannot be recorded is not shown, and is recorded later.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use semel::http::IdempotencyLayer;
use semel::{Shared, Store};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt, service_fn};

use super::{Place, signal, stop};

type Text = Full<bytes::Bytes>;

fn asked() -> Request<Text> {
    let request = Request::post("/pay").header("idempotency-key", "k");
    request.body(Text::default()).expect("a request")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_could_not_be_recorded_is_recorded_when_the_owner_is_back() {
    let place = Place::new();
    let owner = place.guest(&[]);
    let store = Store::builder(&place.name)
        .shared(Shared::Only)
        .owner_silence(Duration::from_millis(300))
        .open()
        .expect("attaches");
    let layer = IdempotencyLayer::builder(store).scope_global();
    let layer = layer.build().expect("rules");
    let (at_work, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let gates = (Arc::clone(&at_work), Arc::clone(&go_on));
    let service = layer.layer(service_fn(move |_| {
        let (at_work, go_on) = gates.clone();
        async move {
            at_work.add_permits(1);
            go_on.acquire().await.expect("a gate").forget();
            Ok::<_, Infallible>(Response::new(Text::from("paid")))
        }
    }));
    let first = tokio::spawn(service.clone().oneshot(asked()));
    at_work.acquire().await.expect("a gate").forget();
    stop(owner.0.id());
    go_on.add_permits(1);
    let first = first.await.expect("no panic").expect("an answer");
    assert_eq!(first.status(), 503);
    let told = first
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let told = String::from_utf8_lossy(&told);
    assert!(
        told.contains("not-recorded") && !told.contains("paid"),
        "{told}"
    );
    assert_eq!(layer.running(), 1, "it is tried again");
    signal(owner.0.id(), libc::SIGCONT);
    layer.idle().await;
    let again = service.oneshot(asked()).await.expect("an answer");
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    let paid = again
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert_eq!(paid, "paid");
}
