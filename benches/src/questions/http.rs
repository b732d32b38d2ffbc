//! Repeats over HTTP: through the proxy, beside a bare server that answers the same bytes, and beside nginx before one; and
//! what the layer costs in a process, beside the calls of the store that it makes.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use semel::http::proxy::{Config, Proxy};
use semel::http::{Body, Guard, Head, IdempotencyLayer, Judged};
use semel::{Claim, GLOBAL, Scope, Stopwatch, Store};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tower::{Layer, Service, ServiceExt, service_fn as tower_service};

use crate::child::{READY, Running};
use crate::figures::{Figures, Series, in_turns, rate, time};
use crate::ground::Ground;
use crate::outcome::Outcome;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, Nginx, Wrk, free_address};
use crate::scale::Scale;
use crate::subject::Promise;

/// The jobs that serve until they are killed: the bare server, and the proxy before it.
pub const BARE: &str = "http-bare";
pub const PROXY: &str = "http-proxy";
const TURNS: usize = 15;
/// How often each server is loaded, one turn to warm up not counted.
const ROUNDS: usize = 5;
/// Connections of the load.
const CONNECTIONS: usize = 64;
const KEY: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";
const ORDER: &str =
    r#"{"item":"cup","amount":2,"note":"a note of some length, as orders have one"}"#;
const ANSWER: &str = r#"{"order":"ORDER-1","state":"created","item":"cup","amount":2,"total":"12.40","currency":"EUR"}"#;
/// A process that serves ends by itself after so long, should its parent have been killed before.
const LIFETIME: Duration = Duration::from_secs(300);
const CRASH: [&str; 2] = ["nothing acknowledged", "nothing is kept"];

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let mut section = Section::default();
    over_the_network(ground, scale, &mut section)?;
    in_process(ground, scale, &mut section)?;
    Ok(section)
}

fn over_the_network(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let seconds = scale.of(3, 1);
    let bare_at = free_address()?;
    let mut bare = Running::start(BARE, &[&bare_at.to_string()])?;
    bare.ready()?;
    let proxy_at = free_address()?;
    let store = ground.spot("proxy");
    let arguments = [
        &*proxy_at.to_string(),
        &bare_at.to_string(),
        &store.to_string_lossy(),
    ];
    let mut proxy = Running::start(PROXY, &arguments)?;
    proxy.ready()?;
    let Some(wrk) = Wrk::posting(&ground.spot("wrk"), KEY, ORDER, CONNECTIONS, seconds)? else {
        section
            .notes
            .push("The proxy is not measured: there is no wrk.".to_owned());
        return Ok(());
    };
    first(proxy_at)?;
    let nginx = Nginx::before(bare_at, &ground.spot("nginx"))?;
    let mut at = vec![bare_at, proxy_at];
    at.extend(nginx.as_ref().map(Nginx::address));
    let mut rates = vec![Figures::default(); at.len()];
    for turn in 0..=ROUNDS {
        for (address, of) in at.iter().zip(&mut rates) {
            let per_s = wrk.load(*address)?;
            if turn > 0 {
                of.push(per_s);
            }
        }
    }
    let (bare, proxy) = (&rates[0], &rates[1]);
    section.lines.push(Line {
        series: "a replay through the proxy, time for each".to_owned(),
        semel: rate(proxy.median()),
        rival: format!(
            "a bare hyper server with the same answer: {}",
            rate(bare.median())
        ),
        ratio: bare.ratio_to(proxy),
        target: Target::AtMost(1.5),
        crash: CRASH,
    });
    match rates.get(2) {
        Some(nginx) => section.lines.push(Line {
            series: "replays a second through the proxy".to_owned(),
            semel: rate(proxy.median()),
            rival: format!("nginx before that server: {}", rate(nginx.median())),
            ratio: proxy.ratio_to(nginx),
            target: Target::AtLeast(1.5),
            crash: CRASH,
        }),
        None => section
            .notes
            .push("There is no nginx to be measured beside.".to_owned()),
    }
    section.notes.push(format!(
        "wrk with {CONNECTIONS} connections that are kept, {ROUNDS} turns of {seconds} s for each, all of it on the same processors; nginx has two workers and keeps its connections to the service."
    ));
    Ok(())
}

/// The first call, so that all that is measured are repeats.
fn first(address: SocketAddr) -> Outcome<()> {
    let mut stream = std::net::TcpStream::connect(address)?;
    write!(
        stream,
        "POST /orders HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nIdempotency-Key: {KEY}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{ORDER}",
        ORDER.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.starts_with("HTTP/1.1 201") {
        true => Ok(()),
        false => Err(format!("the first call was answered {answer}").into()),
    }
}

fn in_process(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let replays = scale.of(20_000, 2_000);
    let firsts = scale.of(500, 100);
    let store = rivals::store(&ground.spot("layer"), Promise::Synced).open()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let layered = Layered::before(&store, &runtime)?;
    let guard = Guard::new();
    layered.call(KEY)?;
    let mut keys = (0u64..).map(|number| format!("key-{number}"));
    let mut others = (0u64..).map(|number| format!("other-{number}"));
    let mut series = [
        Series::new("the layer's replay", || each(replays, || layered.call(KEY))),
        Series::new("the store's replay", || {
            each(replays, || match store.claim(&asked(&guard, KEY)?)? {
                Claim::Replay(_) => Ok(()),
                other => Err(format!("no replay: {}", other.name()).into()),
            })
        }),
        Series::new("the layer's first call", || {
            each(firsts, || layered.call(&keys.next().unwrap_or_default()))
        }),
        Series::new("claim + complete", || {
            each(firsts, || {
                match store.claim(&asked(&guard, &others.next().unwrap_or_default())?)? {
                    Claim::Execute(ticket) => Ok(ticket.complete(ANSWER)?),
                    other => Err(format!("no first: {}", other.name()).into()),
                }
            })
        }),
    ];
    let figures = in_turns(TURNS, &mut series)?;
    drop(series);
    for (at, what, rival, limit) in [
        (
            0,
            "a replay through the layer",
            "the store's replay, fingerprint included",
            2.0,
        ),
        (
            2,
            "a first call through the layer",
            "claim + complete, synced",
            1.1,
        ),
    ] {
        section.lines.push(Line {
            series: what.to_owned(),
            semel: time(figures[at].median()),
            rival: format!("{rival}: {}", time(figures[at + 1].median())),
            ratio: figures[at].ratio_to(&figures[at + 1]),
            target: Target::AtMost(limit),
            crash: [CRASH[0], CRASH[0]],
        });
    }
    section.notes.push(format!(
        "In a process: one thread, {TURNS} turns of {replays} replays and {firsts} first calls. The store's own calls begin with the request as it came: its payload is made from method, path and body as the layer makes it."
    ));
    drop(layered);
    Ok(store.close()?)
}

/// A service with the layer before it.
struct Layered<'r> {
    runtime: &'r Runtime,
    service: tower::util::BoxCloneService<Request<Full<Bytes>>, Response<Bytes>, Infallible>,
}

impl<'r> Layered<'r> {
    fn before(store: &Store, runtime: &'r Runtime) -> Outcome<Self> {
        let layer = IdempotencyLayer::builder(store.clone())
            .scope_global()
            .build()?;
        let inner =
            tower_service(|_: Request<Body<Full<Bytes>>>| async { Ok::<_, Infallible>(created()) });
        let guarded = layer.layer(inner);
        let service = tower_service(move |request| {
            let guarded = guarded.clone();
            async move {
                let (head, body) = guarded.oneshot(request).await?.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes());
                Ok(Response::from_parts(head, body.unwrap_or_default()))
            }
        });
        Ok(Self {
            runtime,
            service: tower::util::BoxCloneService::new(service),
        })
    }

    fn call(&self, key: &str) -> Outcome<()> {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/orders")
            .header("idempotency-key", key)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from_static(ORDER.as_bytes())))?;
        let mut service = self.service.clone();
        let answer = self.runtime.block_on(service.call(request))?;
        match answer.status() == StatusCode::CREATED && answer.body() == ANSWER {
            true => Ok(()),
            false => Err(format!("answered {}", answer.status()).into()),
        }
    }
}

/// The request to the store that a request over HTTP stands for.
fn asked(guard: &Guard, key: &str) -> Outcome<semel::Request<'static>> {
    let head = Head {
        method: "POST",
        path: "/orders",
        query: "",
        content_type: Some("application/json"),
    };
    let Judged::Guarded(key) = guard.judge(&head, [key.as_bytes()]) else {
        return Err("it is not guarded".into());
    };
    let scope: Scope<'static> = GLOBAL;
    let request = guard.request(&head, key, Some(scope), ORDER.as_bytes());
    request.map_err(|_| "it is refused".into())
}

fn each(calls: u64, mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let watch = Stopwatch::start();
    for _ in 0..calls {
        call()?;
    }
    Ok(watch.elapsed().as_nanos() as f64 / calls as f64)
}

fn created() -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes())));
    *answer.status_mut() = StatusCode::CREATED;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// Serves one answer to everything.
pub fn bare(arguments: &[String]) -> Outcome<()> {
    let address: SocketAddr = arguments.first().ok_or("no address")?.parse()?;
    serving(async move {
        let listener = TcpListener::bind(address).await?;
        println!("{READY}");
        loop {
            let (stream, _) = listener.accept().await?;
            let service = service_fn(|request: Request<Incoming>| async {
                // As any service would, it takes the body in.
                let _ = request.into_body().collect().await;
                Ok::<_, Infallible>(created())
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

/// Stands before it.
pub fn proxy(arguments: &[String]) -> Outcome<()> {
    let [listen, upstream, store] = arguments else {
        return Err("where to listen, what is behind it, and the store".into());
    };
    let config = Config::new()
        .listen(listen)?
        .upstream(&format!("http://{upstream}"))?
        .store(store)
        .scope("global")?;
    serving(async move {
        let proxy = Proxy::bind(&config).await?;
        println!("{READY}");
        proxy.serve(std::future::pending()).await?;
        Ok(())
    })
}

fn serving(work: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    thread::spawn(|| {
        thread::sleep(LIFETIME);
        std::process::exit(1);
    });
    Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
