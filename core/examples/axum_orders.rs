//! A shop in axum whose orders are made once, however often they are sent.
//!
//! ```text
//! axum_orders DIR [ADDRESS]
//!
//! curl -i localhost:3000/orders -H 'x-user: ann' -H 'idempotency-key: cart-7' --json '{"item": "cup"}'
//! ```
//!
//! Sent again, it answers the same order, with `idempotent-replayed: true`. `POST /token` gives a key to clients that have no
//! number of their own. Ctrl-C waits for orders that are being made, also for clients that have gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use semel::http::{Guard, IdempotencyLayer, Routes, Running};
use semel::{Scope, Store};
use serde_json::{Value, json};

const TOKEN_TTL: Duration = Duration::from_secs(1800);

type Orders = Arc<AtomicU64>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("usage: axum_orders DIR [ADDRESS]")?;
    let address = args.next().unwrap_or("127.0.0.1:3000".to_owned());

    let store = Store::open(dir)?;
    let layer = IdempotencyLayer::builder(store.clone())
        // A real shop takes the user from what it has verified, which stands in the request's extensions.
        .scope(|request| {
            let user = request.headers.get("x-user")?.to_str().ok()?;
            Some(Scope::from(user.to_owned()))
        })
        .guard(
            Guard::new()
                .operation("order.create")?
                .wait(Duration::from_secs(5)),
        )
        .routes(Routes::new().unguarded("/search")?)
        .token_route("/token", "order", TOKEN_TTL)?
        .build()?;
    let router = Router::new()
        .route("/orders", post(create))
        .route("/search", post(search))
        .with_state(Orders::default())
        .layer(layer.clone());

    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, router)
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    layer.idle().await;
    Ok(store.close()?)
}

async fn create(
    State(orders): State<Orders>,
    Extension(running): Extension<Running>,
    Json(order): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let number = orders.fetch_add(1, Ordering::SeqCst) + 1;
    let key_for_the_bank = running.derive_key("charge"); // the same in every attempt
    let made = json!({"order": number, "item": order["item"], "charged_under": key_for_the_bank});
    (StatusCode::CREATED, Json(made))
}

async fn search(Json(query): Json<Value>) -> Json<Value> {
    Json(json!({"found": [], "query": query}))
}
