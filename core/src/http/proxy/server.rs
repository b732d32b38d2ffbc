//! The proxy as it runs: it takes connections, and when it is told to end it finishes what runs.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::admin::Admin;
use super::body::Body;
use super::config::{Config, Limits, Plan};
use super::fields::Peer;
use super::front::Front;
use super::listener::{Connection, Listener};
use super::place::Place;
use crate::error::{Error, Result};
use crate::http::IdempotencyLayer;
use crate::store::Store;

/// How long to wait after the system had no connection to give, because all descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Descriptors that are left for the store, the admin address and the rest of the process.
const SPARE_DESCRIPTORS: u64 = 128;
/// How often a client of HTTP/2 is asked whether it is still there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(20);
/// The most requests at a time on one connection of HTTP/2.
const MAX_STREAMS: u32 = 200;
/// The most connections at a time of those who look after the proxy.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// How a proxy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Guarded requests that were still running when their time was over. They are in doubt, or will be when their lease is over.
    pub cut_off: usize,
}

/// A proxy that listens.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use semel::http::proxy::{Config, Proxy};
///
/// let config = Config::new()
///     .listen("127.0.0.1:0")?
///     .upstream("http://127.0.0.1:5000")?
///     .store("memory:")
///     .scope("global")?;
/// let proxy = Proxy::bind(&config).await?;
/// println!("listening at {}", proxy.address().unwrap());
/// let ended = proxy.serve(async {}).await?; // told to end at once
/// assert_eq!(ended.cut_off, 0);
/// # Ok::<(), semel::Error>(())
/// # }).unwrap();
/// ```
pub struct Proxy {
    front: Front,
    admin: Option<(Listener, Admin)>,
    listener: Listener,
    layer: IdempotencyLayer,
    store: Store,
    plan: Plan,
}

/// Checks, opens, listens, and serves until `shutdown` is ready and what runs is done: [`Proxy::bind`] and
/// [`Proxy::serve`] in one. Wants a runtime of tokio with its timers and I/O.
///
/// # Errors
/// As those.
pub async fn serve(config: &Config, shutdown: impl Future<Output = ()>) -> Result<Ended> {
    Proxy::bind(config).await?.serve(shutdown).await
}

impl Proxy {
    /// Checks the configuration, opens the store, and listens. Connections wait until [`serve`](Self::serve) takes them.
    ///
    /// # Errors
    /// `InvalidInput` before anything is opened; errors of the store; `Unavailable` when it cannot listen.
    pub async fn bind(config: &Config) -> Result<Self> {
        let plan = config.plan()?;
        let builder = Store::builder(&plan.store).max_result_bytes(plan.max_result_bytes());
        let store = aside(move || builder.open()).await?;
        let layer = plan.layer(store.clone())?;
        let listener = Listener::bind(&plan.listen).await?;
        let admin = match &plan.admin {
            Some(place) => Some((
                Listener::bind(place).await?,
                Admin::new(store.clone(), plan.operations()),
            )),
            None => None,
        };
        Ok(Self {
            front: Front::new(&plan, &layer, Admin::new(store.clone(), Vec::new())),
            admin,
            listener,
            layer,
            store,
            plan,
        })
    }

    /// The address at which clients are served; `None` at a socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.address()
    }

    /// The address for those who look after the proxy; `None` without one, and at a socket.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
            .as_ref()
            .and_then(|(listener, _)| listener.address())
    }

    /// Where it listens and where it passes requests on to, in words, a line each.
    pub fn places(&self) -> Vec<String> {
        let place = |listener: &Listener, named: &Place| match listener.address() {
            Some(address) => format!("http://{address}"),
            None => named.to_string(),
        };
        let plan = &self.plan;
        let mut lines = vec![format!(
            "listening at {}, passing on to http://{}, store {}, scope {}",
            place(&self.listener, &plan.listen),
            plan.target.authority(),
            plan.store,
            plan.scope
        )];
        if let (Some((listener, _)), Some(named)) = (&self.admin, &plan.admin) {
            lines.push(format!("to be looked after at {}", place(listener, named)));
        }
        lines
    }

    /// Serves until `shutdown` is ready. Then it takes no more connections, finishes the requests that run, those whose clients
    /// have gone among them, for as long as the configuration gives them, and closes the store.
    ///
    /// # Errors
    /// Errors of the store when it is closed.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<Ended> {
        let graceful = GracefulShutdown::new();
        let clients = Doorman::new(&self.plan, room(self.plan.limits.connections), &graceful);
        let keepers = Doorman::new(&self.plan, MAX_ADMIN_CONNECTIONS, &graceful);
        let front = self.front;
        let taking = clients.take(&self.listener, move |request, peer| {
            let front = front.clone();
            async move { front.answer(request, peer).await }
        });
        let keeping = async {
            let Some((listener, admin)) = &self.admin else {
                return pending().await;
            };
            let admin = admin.clone();
            keepers
                .take(listener, move |request, _| {
                    let admin = admin.clone();
                    async move { admin.answer(request).await }
                })
                .await
        };
        tokio::select! {
            biased;
            () = shutdown => {}
            () = taking => {}
            () = keeping => {}
        }
        drop((self.listener, self.admin));
        let finished = async {
            graceful.shutdown().await;
            self.layer.idle().await;
        };
        // What takes longer is cut off, and counted.
        let _ = tokio::time::timeout(self.plan.grace, finished).await;
        let cut_off = self.layer.running();
        let store = self.store;
        aside(move || store.close()).await?;
        Ok(Ended { cut_off })
    }
}

/// Does what blocks on a thread for that.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Error::unavailable("a call of the store broke off")))
}

/// Takes connections, as many as are allowed at a time.
struct Doorman<'g> {
    http: auto::Builder<TokioExecutor>,
    room: Arc<Semaphore>,
    patience: Option<Duration>,
    graceful: &'g GracefulShutdown,
}

impl<'g> Doorman<'g> {
    fn new(plan: &Plan, connections: usize, graceful: &'g GracefulShutdown) -> Self {
        Self {
            http: http(&plan.limits, plan.timeouts.client),
            room: Arc::new(Semaphore::new(connections)),
            patience: plan.timeouts.client,
            graceful,
        }
    }

    /// Takes connections for ever.
    async fn take<A>(
        &self,
        listener: &Listener,
        answer: impl Fn(Request<Incoming>, Option<Peer>) -> A + Clone + Send + 'static,
    ) where
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        loop {
            // It is never closed.
            let Ok(place) = Arc::clone(&self.room).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((Connection::Network(stream), peer)) => {
                    self.admit(stream, peer, place, answer.clone());
                }
                Ok((Connection::Socket(stream), peer)) => {
                    self.admit(stream, peer, place, answer.clone());
                }
                // One that went away before it was taken, or no descriptor left: the next may come through.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn admit<S, A>(
        &self,
        stream: S,
        peer: Option<Peer>,
        place: OwnedSemaphorePermit,
        answer: impl Fn(Request<Incoming>, Option<Peer>) -> A + Send + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        let begun = Arc::new(AtomicBool::new(false));
        let has_begun = Arc::clone(&begun);
        let service = service_fn(move |request| {
            begun.store(true, Ordering::Relaxed);
            let answered = answer(request, peer);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        let connection = self
            .http
            .serve_connection_with_upgrades(TokioIo::new(stream), service)
            .into_owned();
        let connection = self.graceful.watch(connection);
        let patience = self.patience;
        tokio::spawn(async move {
            let _place = place;
            // hyper bounds the time of a head once it knows the version, which takes bytes that may never come.
            let silent = async {
                match patience {
                    Some(patience) => tokio::time::sleep(patience).await,
                    None => pending().await,
                }
                if has_begun.load(Ordering::Relaxed) {
                    pending::<()>().await;
                }
            };
            let (connection, silent) = (pin!(connection), pin!(silent));
            tokio::select! {
                // Its client has gone, or spoke no HTTP, and was told so.
                _ = connection => {}
                () = silent => {}
            }
        });
    }
}

/// How many connections there is room for: each takes a descriptor, and one to the service. A store that finds none left
/// would take that for a fault of its disk.
fn room(wanted: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let spare = limit
        .current
        .unwrap_or(u64::MAX)
        .saturating_sub(SPARE_DESCRIPTORS);
    let most = usize::try_from(spare / 2).unwrap_or(usize::MAX);
    wanted.min(most).max(1)
}

fn http(limits: &Limits, patience: Option<Duration>) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(limits.head)
        .max_headers(limits.fields);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(limits.head).unwrap_or(u32::MAX));
    http
}
