//! Behind real servers: axum over TCP, hyper's connections, HTTP/2, and what only a raw socket can say.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::extract::Extension;
use axum::routing::{get, post as posting};
use axum::{Json, Router};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use semel::http::{Body, IdempotencyLayer, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, service_fn};

use super::fixture::{Gate, Got, Runs, by_user, store};

/// What the handlers of the shop share.
#[derive(Clone)]
struct Shop {
    runs: Runs,
    gate: Gate,
}

async fn order(
    Extension(shop): Extension<Shop>,
    running: Option<Extension<Running>>,
    Json(order): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let attempt = running.expect("guarded").attempt();
    let number = shop.runs.next();
    if order["waits"] == true {
        shop.gate.pass().await;
    }
    (
        StatusCode::CREATED,
        Json(json!({"order": number, "attempt": attempt, "item": order["item"]})),
    )
}

/// An axum server with the layer; where it listens.
async fn serve(layer: IdempotencyLayer, shop: Shop) -> SocketAddr {
    let router = Router::new()
        .route("/orders", posting(order))
        .route("/health", get(|| async { "well" }))
        .layer(layer)
        .layer(Extension(shop));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn shop() -> Shop {
    Shop {
        runs: Runs::default(),
        gate: Gate::shut(),
    }
}

fn order_at(address: SocketAddr, key: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://{address}/orders"))
        .header("x-user", "ann")
        .header("idempotency-key", key)
        .header("content-type", "application/json");
    request
        .body(Full::from(body.to_owned()))
        .expect("a request")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn around_axum_of_many_clients_at_once_one_orders() {
    let (store, shop) = (store(), shop());
    let address = serve(by_user(&store).build().expect("rules"), shop.clone()).await;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let asked = (0..64).map(|_| {
        let request = order_at(address, "k", r#"{"item":"cup"}"#);
        let client = client.clone();
        tokio::spawn(
            async move { Got::of(client.request(request).await.expect("an answer")).await },
        )
    });
    let mut made = 0;
    for got in asked.collect::<Vec<_>>() {
        let got = got.await.expect("no panic");
        match got.status {
            201 => {
                made += 1;
                assert_eq!(got.json(), json!({"order": 1, "attempt": 1, "item": "cup"}));
            }
            _ => assert_eq!((got.status, got.problem().as_str()), (409, "in-flight")),
        }
    }
    assert!(made >= 1);
    assert_eq!(shop.runs.count(), 1);
    let again = client
        .request(order_at(address, "k", r#"{"item":"cup"}"#))
        .await;
    let again = Got::of(again.expect("an answer")).await;
    assert_eq!((again.status, again.replayed()), (201, true));
    assert_eq!(again.field("content-type"), Some("application/json"));
    let health = Request::get(format!("http://{address}/health")).body(Full::default());
    let health = client
        .request(health.expect("a request"))
        .await
        .expect("an answer");
    assert_eq!(Got::of(health).await.text(), "well");
}

/// Sends bytes, and reads until what came ends with `until`, or to the end.
async fn exchange(stream: &mut TcpStream, bytes: &str, until: &str) -> String {
    stream.write_all(bytes.as_bytes()).await.expect("writes");
    let mut came = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let read = stream.read(&mut piece).await.unwrap_or(0);
        came.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&came);
        if read == 0 || (!until.is_empty() && text.contains(until)) {
            return text.into_owned();
        }
    }
}

fn head(more: &str) -> String {
    format!(
        "POST /orders HTTP/1.1\r\nhost: a\r\nx-user: ann\r\ncontent-type: application/json\r\n{more}\r\n"
    )
}

#[tokio::test]
async fn a_connection_that_is_cut_in_mid_work_stops_nothing() {
    let (store, shop) = (store(), shop());
    let layer = by_user(&store).build().expect("rules");
    let address = serve(layer.clone(), shop.clone()).await;
    let body = r#"{"item":"cup","waits":true}"#;
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let asked = format!(
        "{}{body}",
        head(&format!(
            "idempotency-key: k\r\ncontent-length: {}\r\n",
            body.len()
        ))
    );
    stream.write_all(asked.as_bytes()).await.expect("writes");
    shop.gate.reached().await;
    drop(stream);
    shop.gate.open();
    layer.idle().await;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let again = client
        .request(order_at(address, "k", body))
        .await
        .expect("an answer");
    let again = Got::of(again).await;
    assert_eq!(
        (again.status, again.replayed(), shop.runs.count()),
        (201, true, 1)
    );
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on_or_is_refused_at_once() {
    let (store, shop) = (store(), shop());
    let address = serve(by_user(&store).build().expect("rules"), shop.clone()).await;
    let expecting = "expect: 100-continue\r\ncontent-length: 14\r\n";
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let asked = head(&format!("idempotency-key: k\r\n{expecting}"));
    let go_on = exchange(&mut stream, &asked, "\r\n\r\n").await;
    assert!(go_on.starts_with("HTTP/1.1 100 "), "{go_on}");
    let made = exchange(&mut stream, r#"{"item":"cup"}"#, "}").await;
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");

    let mut stream = TcpStream::connect(address).await.expect("connects");
    let refused = exchange(&mut stream, &head(expecting), "}").await;
    assert!(
        refused.starts_with("HTTP/1.1 400 ") && refused.contains("key-missing"),
        "{refused}"
    );
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let long = "idempotency-key: l\r\nexpect: 100-continue\r\ncontent-length: 2000000\r\n";
    let refused = exchange(&mut stream, &head(long), "}").await;
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    assert_eq!(shop.runs.count(), 1);
}

#[tokio::test]
async fn a_request_that_is_cut_short_or_contradicts_itself_claims_nothing() {
    let (store, shop) = (store(), shop());
    let address = serve(by_user(&store).build().expect("rules"), shop.clone()).await;
    for (more, body) in [
        (
            "idempotency-key: k\r\ncontent-length: 14\r\n",
            r#"{"item":"#,
        ),
        (
            "idempotency-key: k\r\ntransfer-encoding: chunked\r\n",
            "5\r\n{\"a\":",
        ),
        (
            "idempotency-key: k\r\ncontent-length: 2\r\ncontent-length: 3\r\n",
            "{}",
        ),
        (
            "Idempotency-Key: k\r\nIDEMPOTENCY-KEY: k\r\ncontent-length: 2\r\n",
            "{}",
        ),
        (
            "idempotency-key: k\r\nidempotency-key: l\r\ncontent-length: 2\r\n",
            "{}",
        ),
    ] {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let asked = format!("{}{body}", head(&format!("connection: close\r\n{more}")));
        stream.write_all(asked.as_bytes()).await.expect("writes");
        stream.shutdown().await.expect("shuts");
        let answer = exchange(&mut stream, "", "").await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400 "),
            "{more}: {answer}"
        );
    }
    assert_eq!((shop.runs.count(), store.len()), (0, 0));
}

#[tokio::test]
async fn a_plain_service_of_hyper_has_the_layer_over_both_versions() {
    let store = store();
    let runs = Runs::default();
    let counted = runs.clone();
    let inner = service_fn(move |request: Request<Body<hyper::body::Incoming>>| {
        let counted = counted.clone();
        async move {
            let body = request
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            let text = format!("run {} of {} bytes", counted.next(), body.len());
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
        }
    });
    let service = TowerToHyperService::new(by_user(&store).build().expect("rules").layer(inner));
    let connect = || {
        let (near, far) = tokio::io::duplex(64 << 10);
        let service = service.clone();
        tokio::spawn(async move {
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(far), service).await;
        });
        TokioIo::new(near)
    };
    let asked = |key: &str| {
        let request = Request::post("http://shop.example/orders").header("x-user", "ann");
        let request = request.header("idempotency-key", key);
        request.body(Full::<Bytes>::from("cup")).expect("a request")
    };

    let (mut first, line) = hyper::client::conn::http1::handshake(connect())
        .await
        .expect("HTTP/1");
    tokio::spawn(line);
    let got = Got::of(first.send_request(asked("k")).await.expect("an answer")).await;
    assert_eq!((got.text(), got.replayed()), ("run 1 of 3 bytes", false));

    let executor = TokioExecutor::new();
    let (second, line) = hyper::client::conn::http2::handshake(executor, connect())
        .await
        .expect("HTTP/2");
    tokio::spawn(line);
    let mut streams = tokio::task::JoinSet::new();
    for number in 0..32 {
        let mut second = second.clone();
        let request = asked(if number % 2 == 0 { "k" } else { "l" });
        streams.spawn(async move {
            Got::of(second.send_request(request).await.expect("an answer")).await
        });
    }
    while let Some(got) = streams.join_next().await {
        let got = got.expect("no panic");
        match got.status {
            200 => assert!(matches!(
                got.text(),
                "run 1 of 3 bytes" | "run 2 of 3 bytes"
            )),
            _ => assert_eq!(got.problem(), "in-flight"),
        }
    }
    assert_eq!(runs.count(), 2);
}
