//! The demo's service: a process that serves HTTP, has its effect in the ledger, and knows nothing of semel.

use std::convert::Infallible;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};

use super::ledger::Ledger;
use super::stage::{broken, runtime};
use crate::cli::argument::Text;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::print;

/// The first word of a service that listens; its address follows.
const LISTENING: &str = "listening";
/// The word of a service that has had an effect, and lingers over the answer.
const EFFECT: &str = "effect";

/// Serves the operations of the demo.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Serve {
    #[arg(long)]
    ledger: PathBuf,
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
    /// The operation that is never answered after its effect
    #[arg(long, value_parser = Text)]
    linger: Option<String>,
}

/// What a client asks for.
#[derive(Debug, Deserialize)]
struct Order {
    key: String,
    work_ms: u64,
}

impl Serve {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        // Ends with its parent, however that ends.
        std::thread::spawn(|| {
            let _ = io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
        runtime()?.block_on(self.serve())?;
        Ok(exit::DONE)
    }

    async fn serve(&self) -> Result<(), Stop> {
        let failed = |error| broken("the service cannot listen", error);
        let listener = TcpListener::bind(self.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        print(format_args!("{LISTENING} {address}"))?;
        loop {
            let (stream, _) = listener.accept().await.map_err(failed)?;
            let this = self.clone();
            let service = service_fn(move |request| {
                let this = this.clone();
                async move { Ok::<_, Infallible>(this.answer(request).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let operation = request.uri().path().trim_start_matches('/').to_owned();
        let body = request
            .into_body()
            .collect()
            .await
            .map(|body| body.to_bytes());
        let order = body
            .ok()
            .and_then(|body| serde_json::from_slice(&body).ok());
        let Some(Order { key, work_ms }) = order else {
            return of(StatusCode::BAD_REQUEST, "no order".to_owned());
        };
        let receipt = match Ledger::at(&self.ledger).charge(&operation, &key) {
            Ok(receipt) => receipt,
            Err(error) => return of(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        if self.linger.as_ref() == Some(&operation) {
            let _ = print(EFFECT);
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(work_ms)).await;
        of(StatusCode::CREATED, receipt)
    }
}

fn of(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
}

/// A service that runs; killed when it is dropped.
pub(super) struct Service {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    pub(super) address: SocketAddr,
}

impl Service {
    /// Starts it. `linger`: the operation that it does not answer.
    pub(super) async fn start(
        ledger: &Path,
        listen: SocketAddr,
        linger: Option<&str>,
    ) -> Result<Self, Stop> {
        let failed = |error| broken("the service cannot be started", error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["demo-service", "--listen", &listen.to_string()]);
        command.arg("--ledger").arg(ledger);
        if let Some(operation) = linger {
            command.args(["--linger", operation]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let stdout = child.stdout.take();
        let stdout = stdout.ok_or_else(|| broken("the service cannot be heard", "no pipe"))?;
        let mut service = Self {
            child,
            said: BufReader::new(stdout).lines(),
            address: listen,
        };
        let line = service.hear().await?;
        let address = line.split_once(' ').filter(|(word, _)| *word == LISTENING);
        service.address = address
            .and_then(|(_, address)| address.parse().ok())
            .ok_or_else(|| broken("the service does not listen", &line))?;
        Ok(service)
    }

    /// Waits until it has had an effect that it does not answer.
    pub(super) async fn has_effect(&mut self) -> Result<(), Stop> {
        match self.hear().await? {
            line if line == EFFECT => Ok(()),
            line => Err(broken("the service had no effect to be killed after", line)),
        }
    }

    async fn hear(&mut self) -> Result<String, Stop> {
        match self.said.next_line().await {
            Ok(line) => Ok(line.unwrap_or_default()),
            Err(error) => Err(broken("the service cannot be heard", error)),
        }
    }

    /// kill -9.
    pub(super) async fn kill(mut self) -> Result<(), Stop> {
        self.child
            .kill()
            .await
            .map_err(|error| broken("the service cannot be killed", error))
    }
}
