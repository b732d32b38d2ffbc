//! The layer, and how it is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio::sync::watch;
use tower_layer::Layer;

use super::super::guard::Guard;
use super::super::routes::Routes;
use super::super::token::TokenRoute;
use super::service::Idempotency;
use crate::error::Result;
use crate::key::Scope;
use crate::store::Store;

type ScopeOf = dyn Fn(&Parts) -> Option<Scope<'static>> + Send + Sync;

/// A tower layer that makes each guarded request take effect once, and gives every repeat the first answer.
///
/// For services whose requests and answers are those of the crate `http`, on a runtime of tokio with its timers: axum, hyper
/// 1, tonic. `docs/http.md` tells which requests are guarded, which answers are kept, and how every other answer reads; here
/// is what the layer does besides.
///
/// - A guarded request is read whole, up to [`Guard::max_body_bytes`], before anything is claimed, and given to the service
///   behind with the same bytes. Any other passes through untouched.
/// - The service runs in a task of its own: a client that goes away does not stop it, and finds the answer when it asks
///   again. [`idle`](Self::idle) waits for such tasks before a process ends.
/// - An answer is sent when it is recorded. One that is longer than [`Guard::max_kept_bytes`], or is a
///   [stream](super::is_stream), goes out as it comes, and its end when it is recorded that there was one; repeats get 410,
///   and while it runs 409.
/// - A panic of the service, and an answer whose body ends with an error, leave a doubt; the client gets a problem with
///   status 500. An error of the service leaves a doubt as well, and goes to the caller as it is.
/// - When the answer cannot be recorded, the client gets a problem with status 503, and not the answer, since repeats might
///   get another. The key stays held while recording is tried again, for ten minutes.
/// - A service that knows more than its status tells puts an [`Ending`](super::Ending) into the extensions of its answer.
/// - Behind the layer a request has a [`Running`] among its extensions.
///
/// Put whatever finds out who calls before the layer, and whatever changes the path of requests (axum's `nest`) behind it.
///
/// ```
/// use semel::http::IdempotencyLayer;
/// use semel::{Scope, Store};
///
/// #[derive(Clone)]
/// struct User(String); // put into the extensions by whatever verifies credentials
///
/// let layer = IdempotencyLayer::builder(Store::open("memory:")?)
///     .scope(|request| request.extensions.get::<User>().map(|user| Scope::from(user.0.clone())))
///     .build()?;
/// // axum::Router::new().route("/orders", post(create)).layer(layer)
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone)]
pub struct IdempotencyLayer(Arc<Shared>);

/// What all clones of a layer share.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) scope: Box<ScopeOf>,
    pub(super) guard: Arc<Guard>,
    pub(super) routes: Routes,
    pub(super) token_routes: Vec<TokenRoute>,
    pub(super) cors: Cors,
    /// How many requests are being answered by the service behind.
    pub(super) running: watch::Sender<usize>,
}

/// Whether answers tell other origins what they may send and see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cors {
    Off,
    On,
}

/// A layer that does not know yet whose requests it gets.
#[derive(Debug)]
pub struct Unscoped {
    store: Store,
}

/// A layer that is being set up.
pub struct LayerBuilder {
    store: Store,
    scope: Box<ScopeOf>,
    guard: Guard,
    routes: Routes,
    token_routes: Vec<TokenRoute>,
    cors: Cors,
}

impl IdempotencyLayer {
    /// A layer over a store. Whose requests it gets has to be said first.
    pub fn builder(store: Store) -> Unscoped {
        Unscoped { store }
    }

    /// Waits until no request is being answered behind this layer, among them those whose clients have gone. Call it after the
    /// server has stopped taking requests, and before the store is closed: what still runs when the runtime ends is left in
    /// doubt.
    ///
    /// ```
    /// # let store = semel::Store::open("memory:")?;
    /// let layer = semel::http::IdempotencyLayer::builder(store).scope_global().build()?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// layer.idle().await; // after axum::serve(..).with_graceful_shutdown(..).await
    /// # });
    /// # Ok::<(), semel::Error>(())
    /// ```
    pub async fn idle(&self) {
        // It fails when the sender is gone, which is here.
        let _ = self
            .0
            .running
            .subscribe()
            .wait_for(|running| *running == 0)
            .await;
    }

    /// How many requests are being answered behind this layer.
    pub fn running(&self) -> usize {
        *self.0.running.borrow()
    }

    /// What somebody should know who has set this up, in words; empty when all is well.
    pub fn warnings(&self) -> Vec<String> {
        let guards = std::iter::once(&self.0.guard).chain(self.0.routes.guards());
        let mut warnings: Vec<String> = guards.flat_map(|guard| guard.warnings()).collect();
        warnings.dedup();
        warnings
    }
}

impl Unscoped {
    /// Whose a request is: a function of its head that gives the principal as it was verified, [`GLOBAL`](crate::GLOBAL) by
    /// name, or `None`, which is answered 400. Never give the raw credential: a refreshed token would be another person.
    pub fn scope(
        self,
        of: impl Fn(&Parts) -> Option<Scope<'static>> + Send + Sync + 'static,
    ) -> LayerBuilder {
        LayerBuilder {
            store: self.store,
            scope: Box::new(of),
            guard: Guard::new(),
            routes: Routes::new(),
            token_routes: Vec::new(),
            cors: Cors::Off,
        }
    }

    /// All requests share one scope: whoever sends a key that was used gets its answer. For services with one client, or whose
    /// keys nobody can guess.
    pub fn scope_global(self) -> LayerBuilder {
        self.scope(|_| Some(Scope::Global))
    }
}

impl LayerBuilder {
    /// The rules for all requests that no route has rules for: [`Guard::new`] by default.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// Rules of their own for some routes.
    pub fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Answers a POST at this path with a token of a purpose, good for `ttl`, in the scope of the request; it takes no key and
    /// never reaches the service behind. See [`TokenRoute`] and [`Guard::tokens`].
    ///
    /// # Errors
    /// As [`TokenRoute::new`].
    pub fn token_route(mut self, path: &str, purpose: &str, ttl: Duration) -> Result<Self> {
        self.token_routes.push(TokenRoute::new(path, purpose, ttl)?);
        Ok(self)
    }

    /// Tells pages of other origins that they may send keys, and see `Idempotent-Replayed` and `Retry-After`: adds to what the
    /// service behind answers to a preflight that it allows, and to all answers. Who may come is still its affair, or that of
    /// a layer in front, which then has to be given the names itself ([`CORS_EXPOSED`](super::CORS_EXPOSED)); only one in front
    /// lets pages see replays and problems. Off by default.
    pub fn cors(mut self) -> Self {
        self.cors = Cors::On;
        self
    }

    /// The layer.
    ///
    /// # Errors
    /// `InvalidInput` when rules cannot be kept.
    pub fn build(self) -> Result<IdempotencyLayer> {
        let in_doubt = self.store.0.in_doubt();
        let guard = Arc::new(self.guard);
        for guard in std::iter::once(&guard).chain(self.routes.guards()) {
            guard.check(in_doubt)?;
        }
        Ok(IdempotencyLayer(Arc::new(Shared {
            store: self.store,
            scope: self.scope,
            guard,
            routes: self.routes,
            token_routes: self.token_routes,
            cors: self.cors,
            running: watch::Sender::new(0),
        })))
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::clone(&self.0))
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("store", &self.0.store)
            .field("running", &self.running())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerBuilder")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
