//! What a proxy is told: by its file, by flags that go before the file, or by a program. All of it is checked before anything
//! is opened.

mod bounds;
mod document;
mod route;

use std::collections::BTreeSet;
use std::time::Duration;

use toml::de::DeValue;

pub(super) use self::bounds::{Limits, Timeouts};
use self::bounds::{limits, timeouts};
use self::document::{Document, Section, text, truth};
use self::route::RouteOptions;
use super::place::{Place, Target};
use super::scope::ScopeSource;
use crate::duration;
use crate::error::{Error, Result};
use crate::http::{Guard, IdempotencyLayer, KeySource, Routes, TokenRoute};
use crate::store::Store;

/// What the status and the fields of an answer may take in the store, in bytes (64 KiB).
pub(super) const ANSWER_HEAD_BYTES: usize = 64 << 10;
/// The pattern that every path has.
const EVERYTHING: &str = "/*";
/// Where clients get tokens, unless another path is named.
const TOKEN_PATH: &str = "/.semel/token";
/// What tokens are for, unless something else is named.
const TOKEN_PURPOSE: &str = "http";
/// How long a token is good before it is used, unless another time is given.
const TOKEN_TTL: Duration = Duration::from_secs(3_600);

/// How a proxy is set up.
///
/// ```
/// use semel::http::proxy::Config;
///
/// let file = r#"
///     upstream = "http://127.0.0.1:5000"
///     scope = "header:X-User"
///     [[route]]
///     pattern = "/webhooks/*"
///     guarded = false
/// "#;
/// let config = Config::from_toml("proxy.toml", file)?.listen("127.0.0.1:8080")?.store("./data");
/// assert!(config.check()?.is_empty(), "no warnings");
///
/// let wrong = Config::from_toml("proxy.toml", "listen = 8080").unwrap_err();
/// assert!(wrong.message().starts_with("proxy.toml:1:10: listen: it is a number"));
/// # Ok::<(), semel::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    listen: Option<Place>,
    upstream: Option<Target>,
    store: Option<String>,
    scope: Option<ScopeSource>,
    admin: Option<Place>,
    host: Option<HostRule>,
    grace: Option<Duration>,
    timeouts: Timeouts,
    limits: Limits,
    token: Option<TokenRoute>,
    cors: Option<bool>,
    defaults: RouteOptions,
    routes: Vec<(String, RouteOptions)>,
}

/// Which `Host` the service gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum HostRule {
    /// That of the client.
    #[default]
    Keep,
    /// The service's own address.
    Upstream,
}

/// A configuration that is whole.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) listen: Place,
    pub(super) target: Target,
    pub(super) store: String,
    pub(super) scope: ScopeSource,
    pub(super) admin: Option<Place>,
    pub(super) host: HostRule,
    pub(super) grace: Duration,
    pub(super) timeouts: Timeouts,
    pub(super) limits: Limits,
    pub(super) token: Option<TokenRoute>,
    /// Whether answers tell pages of other origins that they may send keys.
    pub(super) cors: bool,
    /// The guard of what no route matches.
    guard: Guard,
    routes: Routes,
}

impl Config {
    /// How long what runs may take when the proxy is told to end, unless another time is given.
    pub const GRACE: Duration = Duration::from_secs(30);

    /// Nothing said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a TOML text says; `name` is that of its file, for messages. `docs/proxy.md` names all options.
    ///
    /// # Errors
    /// `InvalidInput` that names each fault as `FILE:LINE:COLUMN: what, and what to write instead`, a line each.
    pub fn from_toml(name: &str, text: &str) -> Result<Self> {
        let document = Document::new(name, text);
        let config = document.parse().map(|table| {
            let top = document.section(table.get_ref());
            Self::read(&document, top)
        });
        match (document.faults(), config) {
            (None, Some(config)) => Ok(config),
            (faults, _) => Err(Error::invalid(faults.unwrap_or_default())),
        }
    }

    fn read(document: &Document<'_>, top: Section<'_, '_>) -> Self {
        let mut config = Self {
            listen: top.value("listen", "\"127.0.0.1:8080\"", of_text(Place::parse)),
            upstream: top.value(
                "upstream",
                "\"http://127.0.0.1:5000\"",
                of_text(Target::parse),
            ),
            store: top.value("store", "\"/var/lib/semel\"", text),
            scope: top.value("scope", "\"header:X-User\"", of_text(ScopeSource::parse)),
            admin: top.value(
                "admin",
                "\"unix:/run/semel/admin.sock\"",
                of_text(Place::parse),
            ),
            host: top.value("host", "\"keep\"", host),
            grace: top.value("grace", "\"30s\"", time),
            timeouts: top
                .below("timeouts")
                .map_or_else(Timeouts::default, |(_, table)| timeouts(table)),
            limits: top
                .below("limits")
                .map_or_else(Limits::default, |(_, table)| limits(table)),
            token: None,
            cors: top.value("cors", "true", truth),
            defaults: RouteOptions::read(&top),
            routes: Vec::new(),
        };
        if let Some((at, table)) = top.below("token") {
            match token(table) {
                Ok(route) => config.token = Some(route),
                Err(error) => document.fault(at, error.message().to_owned()),
            }
        }
        if let Err(error) = config.defaults.guard(config.purpose()) {
            document.fault(0, error.message().to_owned());
        }
        let mut routes = Routes::new();
        for (at, table) in top.each("route") {
            let pattern = table.value("pattern", "\"POST /orders/*\"", text);
            let options = RouteOptions::read(&table);
            match pattern {
                Some(pattern) => {
                    match config.with_route(routes.clone(), &pattern, &options) {
                        Ok(more) => routes = more,
                        Err(error) => document.fault(at, error.message().to_owned()),
                    }
                    config.routes.push((pattern, options));
                }
                None if table.has("pattern") => {}
                None => document.fault(
                    at,
                    "the route lacks its pattern; write pattern = \"POST /orders/*\"".to_owned(),
                ),
            }
            table.finish();
        }
        top.finish();
        config
    }

    /// What keys have to be where they have to be tokens.
    fn purpose(&self) -> Option<&str> {
        self.token.as_ref().map(TokenRoute::purpose)
    }

    fn with_route(&self, routes: Routes, pattern: &str, options: &RouteOptions) -> Result<Routes> {
        match options.clone().or(&self.defaults).guard(self.purpose())? {
            Some(guard) => routes.guarded(pattern, guard),
            None => routes.unguarded(pattern),
        }
    }

    /// Where to listen: `HOST:PORT` (port 0: any that is free), or `unix:PATH`.
    ///
    /// # Errors
    /// `InvalidInput` for what is neither.
    pub fn listen(mut self, place: &str) -> Result<Self> {
        self.listen = Some(Place::parse(place)?);
        Ok(self)
    }

    /// The service that requests are passed on to: `http://HOST:PORT`.
    ///
    /// # Errors
    /// `InvalidInput` for what is no such URL; `https` among it, since the proxy stands beside its service.
    pub fn upstream(mut self, url: &str) -> Result<Self> {
        self.upstream = Some(Target::parse(url)?);
        Ok(self)
    }

    /// The directory or URL of the store, made if there is none.
    pub fn store(mut self, place: &str) -> Self {
        self.store = Some(place.to_owned());
        self
    }

    /// Whose the keys are: `header:NAME`, a field that whoever stands in front sets once he has verified it; or `global`.
    ///
    /// # Errors
    /// `InvalidInput` for any other text, and for fields that carry credentials.
    pub fn scope(mut self, scope: &str) -> Result<Self> {
        self.scope = Some(ScopeSource::parse(scope)?);
        Ok(self)
    }

    /// Where the key stands on routes that name no place of their own: `header:NAME` or `json:PATH`.
    ///
    /// # Errors
    /// `InvalidInput` for any other text.
    pub fn key(mut self, source: &str) -> Result<Self> {
        self.defaults.key = Some(KeySource::parse(source)?);
        Ok(self)
    }

    /// Where to listen for whoever looks after the proxy: as [`listen`](Self::listen). A socket is made for its owner alone.
    ///
    /// # Errors
    /// `InvalidInput` for what is no place.
    pub fn admin(mut self, place: &str) -> Result<Self> {
        self.admin = Some(Place::parse(place)?);
        Ok(self)
    }

    /// How long what runs may take when the proxy is told to end: [`GRACE`](Self::GRACE) unless given.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// What somebody should know who sets this up, in words, if all that is needed is there. Nothing is opened.
    ///
    /// # Errors
    /// `InvalidInput` that says what is missing, or does not go together.
    pub fn check(&self) -> Result<Vec<String>> {
        Ok(self.plan()?.warnings())
    }

    pub(super) fn plan(&self) -> Result<Plan> {
        let lacks = |what: &str| Error::invalid(format!("{what}, by its flag or in the file"));
        let plan = Plan {
            listen: self
                .listen
                .clone()
                .ok_or_else(|| lacks("name the address to listen at (listen)"))?,
            target: self
                .upstream
                .clone()
                .ok_or_else(|| lacks("name the service that requests are passed on to (upstream)"))?,
            store: self
                .store
                .clone()
                .ok_or_else(|| lacks("name the directory of the store (store)"))?,
            scope: self.scope.clone().ok_or_else(|| {
                lacks("say whose the keys are (scope): header:NAME, the field in which the gateway in front says whose a request is, or global")
            })?,
            admin: self.admin.clone(),
            host: self.host.unwrap_or_default(),
            grace: self.grace.unwrap_or(Self::GRACE),
            timeouts: self.timeouts,
            limits: self.limits,
            token: self.token.clone(),
            cors: self.cors.unwrap_or(false),
            guard: self.defaults.guard(self.purpose())?.unwrap_or_default(),
            routes: self.all_routes()?,
        };
        plan.check()?;
        Ok(plan)
    }

    fn all_routes(&self) -> Result<Routes> {
        let named = self.routes.iter();
        let routes = named
            .clone()
            .try_fold(Routes::new(), |routes, (pattern, options)| {
                self.with_route(routes, pattern, options)
            })?;
        match self.defaults.guarded {
            Some(false) if named.clone().all(|(pattern, _)| pattern != EVERYTHING) => {
                routes.unguarded(EVERYTHING)
            }
            _ => Ok(routes),
        }
    }
}

impl Plan {
    /// All rules that are in use.
    fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.routes.guards().map(AsRef::as_ref).chain([&self.guard])
    }

    fn check(&self) -> Result<()> {
        let scope = self.scope.field();
        if scope.is_some() && self.guards().any(|guard| guard.key_field() == scope) {
            return Err(Error::invalid(format!(
                "the key and the scope stand in one field, {}; the scope says whose it is, the key which one",
                scope.unwrap_or_default()
            )));
        }
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: BTreeSet<String> = self.guards().flat_map(Guard::warnings).collect();
        if self.store == "memory:" {
            warnings.insert(
                "the store memory: forgets everything when the proxy ends: from then on every repeat is a first time".to_owned(),
            );
        }
        if let Some(Place::Network(address)) = &self.admin
            && !["127.", "localhost:", "[::1]"]
                .iter()
                .any(|own| address.starts_with(own))
        {
            warnings.insert(format!(
                "the admin address {address} is open to the network: whoever reaches it can say what took effect"
            ));
        }
        warnings.into_iter().collect()
    }

    /// The layer that judges.
    pub(super) fn layer(&self, store: Store) -> Result<IdempotencyLayer> {
        let scope = self.scope.clone();
        let mut layer = IdempotencyLayer::builder(store)
            .scope(move |parts| scope.of(&parts.headers))
            .guard(self.guard.clone())
            .routes(self.routes.clone());
        if let Some(token) = &self.token {
            layer = layer.token_route(token.path(), token.purpose(), token.ttl())?;
        }
        if self.cors {
            layer = layer.cors();
        }
        layer.build()
    }

    /// The operations that are claimed.
    pub(super) fn operations(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.guards().map(Guard::operation_name).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The fields that the proxy itself reads.
    pub(super) fn own_fields(&self) -> Vec<String> {
        let keys = self.guards().filter_map(Guard::key_field);
        let names: BTreeSet<&str> = keys.chain(self.scope.field()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The longest result that the store has to keep, in bytes.
    pub(super) fn max_result_bytes(&self) -> usize {
        let answers = self.guards().map(Guard::kept_limit_bytes);
        answers.max().unwrap_or(0) + ANSWER_HEAD_BYTES
    }
}

fn token(table: Section<'_, '_>) -> Result<TokenRoute> {
    let path = table.value("path", "\"/.semel/token\"", text);
    let purpose = table.value("purpose", "\"http\"", text);
    let ttl = table.value("ttl", "\"1h\"", some_time);
    table.finish();
    TokenRoute::new(
        path.as_deref().unwrap_or(TOKEN_PATH),
        purpose.as_deref().unwrap_or(TOKEN_PURPOSE),
        ttl.unwrap_or(TOKEN_TTL),
    )
}

fn of_text<T>(parse: fn(&str) -> Result<T>) -> impl FnOnce(&DeValue<'_>) -> Result<T, String> {
    move |value| parse(&text(value)?).map_err(|error| error.message().to_owned())
}

fn time(value: &DeValue<'_>) -> Result<Duration, String> {
    duration::parse(&text(value)?)
}

/// A time above zero.
fn some_time(value: &DeValue<'_>) -> Result<Duration, String> {
    match time(value)? {
        Duration::ZERO => Err("it is zero, and nothing comes in no time".to_owned()),
        time => Ok(time),
    }
}

/// A time above zero, or `never`.
fn limit(value: &DeValue<'_>) -> Result<Option<Duration>, String> {
    match text(value)?.as_str() {
        "never" => Ok(None),
        _ => some_time(value).map(Some),
    }
}

fn host(value: &DeValue<'_>) -> Result<HostRule, String> {
    match text(value)?.as_str() {
        "keep" => Ok(HostRule::Keep),
        "upstream" => Ok(HostRule::Upstream),
        other => Err(format!(
            "{other:?} is no rule; write \"keep\" or \"upstream\""
        )),
    }
}
