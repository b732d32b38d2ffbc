//! Where one pass over the sources plays: a service, with semel's proxy before it or without, and keys of its own.

use std::net::{Ipv4Addr, SocketAddr};

use http::Method;
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::client::send;
use super::folder::unique;
use super::ledger::Ledger;
use super::service::Service;
use crate::Result as StoreResult;
use crate::cli::exit::{self, Stop};
use crate::http::proxy::{Config, Ended, Proxy};

/// What the proxy is told. The form's key stands in its body, as that of a page would; a second call waits for the first.
const CONFIG: &str = r#"
    listen = "127.0.0.1:0"
    admin = "127.0.0.1:0"
    scope = "global"
    wait = "10s"
    retain = "1h"
    [[route]]
    pattern = "POST /demo.form"
    key = "json:.key"
"#;
/// Any free port of this machine.
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Where the proxy tells and takes what is in doubt.
const UNRESOLVED: &str = "/.semel/unresolved";

/// One pass, with semel or without.
pub(super) struct Stage {
    pub(super) ledger: Ledger,
    service: Mutex<Option<Service>>,
    service_at: SocketAddr,
    proxy: Option<Sidecar>,
    /// Part of every key, so that passes over one store do not meet.
    pass: String,
}

/// The proxy that stands before the service.
struct Sidecar {
    address: SocketAddr,
    admin: SocketAddr,
    end: tokio::sync::oneshot::Sender<()>,
    serving: JoinHandle<StoreResult<Ended>>,
}

impl Stage {
    /// Starts the service, and before it the proxy if there is a store.
    pub(super) async fn set(ledger: Ledger, store: Option<&str>) -> Result<Self, Stop> {
        let service = Service::start(ledger.path(), ANY, None).await?;
        let service_at = service.address;
        let proxy = match store {
            Some(store) => Some(Sidecar::start(service_at, store).await?),
            None => None,
        };
        Ok(Self {
            ledger,
            service: Mutex::new(Some(service)),
            service_at,
            proxy,
            pass: unique(),
        })
    }

    /// Where clients ask.
    pub(super) fn address(&self) -> SocketAddr {
        self.proxy
            .as_ref()
            .map_or(self.service_at, |proxy| proxy.address)
    }

    /// The key of an intent.
    pub(super) fn key(&self, intent: &str) -> String {
        format!("{intent}-{}", self.pass)
    }

    /// Kills the service, if it runs, and starts it at the same address.
    pub(super) async fn restart_service(&self, linger: Option<&str>) -> Result<(), Stop> {
        let mut service = self.service.lock().await;
        if let Some(service) = service.take() {
            service.kill().await?;
        }
        *service = Some(Service::start(self.ledger.path(), self.service_at, linger).await?);
        Ok(())
    }

    /// Waits until the service has had an effect that it does not answer.
    pub(super) async fn service_has_effect(&self) -> Result<(), Stop> {
        match &mut *self.service.lock().await {
            Some(service) => service.has_effect().await,
            None => Err(broken("there is no service", "it was killed")),
        }
    }

    /// What a person does about a key in doubt: looks whether the effect is there, and says so.
    pub(super) async fn look_and_resolve(&self, operation: &str, key: &str) -> Result<(), Stop> {
        let Some(proxy) = &self.proxy else {
            return Ok(());
        };
        let listed = proxy.admin(Method::GET, None).await?;
        let records = listed["unresolved"].as_array().cloned().unwrap_or_default();
        let Some(record) = records.iter().find(|record| record["id"] == key) else {
            return Err(broken("the key is not listed in doubt", listed));
        };
        let receipts = self
            .ledger
            .receipts(operation)
            .map_err(|error| broken("the ledger cannot be read", error))?;
        let mut told = json!({
            "operation": record["operation"],
            "id": key,
            "fence": record["fence"],
        });
        match receipts.first() {
            Some(receipt) => told["value"] = json!({ "status": 201, "body": receipt }),
            None => told["rerun"] = Json::Bool(true),
        }
        match proxy.admin(Method::POST, Some(&told)).await? {
            resolved if resolved["answer"] == "resolved" => Ok(()),
            other => Err(broken("the doubt cannot be resolved", other)),
        }
    }

    /// Ends the proxy and the service.
    pub(super) async fn clear(self) -> Result<(), Stop> {
        if let Some(proxy) = self.proxy {
            let _ = proxy.end.send(());
            let ended = proxy.serving.await;
            ended.map_err(|error| broken("the proxy panicked", error))??;
        }
        match self.service.into_inner() {
            Some(service) => service.kill().await,
            None => Ok(()),
        }
    }
}

impl Sidecar {
    async fn start(service: SocketAddr, store: &str) -> Result<Self, Stop> {
        let config = Config::from_toml("the demo", CONFIG)?
            .upstream(&format!("http://{service}"))?
            .store(store);
        let proxy = Proxy::bind(&config).await?;
        let nowhere = || broken("the proxy has no address", "it does not listen");
        let address = proxy.address().ok_or_else(nowhere)?;
        let admin = proxy.admin_address().ok_or_else(nowhere)?;
        let (end, told) = tokio::sync::oneshot::channel();
        let serving = tokio::spawn(proxy.serve(async {
            let _ = told.await;
        }));
        Ok(Self {
            address,
            admin,
            end,
            serving,
        })
    }

    async fn admin(&self, method: Method, body: Option<&Json>) -> Result<Json, Stop> {
        let failed = |error: &dyn std::fmt::Display| broken("the proxy cannot be asked", error);
        let answer = send(self.admin, method, UNRESOLVED, None, body)
            .await
            .map_err(|error| failed(&error))?;
        serde_json::from_slice(answer.body()).map_err(|error| failed(&error))
    }
}

/// What the demo's processes run on.
pub(super) fn runtime() -> Result<Runtime, Stop> {
    Runtime::new().map_err(|error| broken("no runtime", error))
}

/// The demo itself broke, which says nothing of semel.
pub(super) fn broken(what: &str, why: impl std::fmt::Display) -> Stop {
    Stop::new(
        exit::INPUT_OUTPUT,
        format!("the demo cannot go on: {what}: {why}"),
    )
}
