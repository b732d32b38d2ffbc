//! `semel proxy`: gives any service of HTTP idempotency, with no change to it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::argument::Text;
use crate::cli::exit::{self, Ending, Stop};
use crate::cli::output::{print, say};
use crate::duration;
use crate::http::proxy::{Config, Ended, Proxy};

/// Passes requests on to a service of HTTP, each operation once, and gives every repeat the first answer.
///
/// Ends on SIGTERM, SIGINT and SIGHUP, when what runs is done; on a second one at once.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunProxy {
    /// Where to listen: HOST:PORT, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = Text)]
    listen: Option<String>,
    /// The service that requests are passed on to: http://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = Text)]
    upstream: Option<String>,
    /// Directory or URL of the store, made if there is none
    #[arg(long, value_name = "DIR", value_parser = Text)]
    store: Option<String>,
    /// Whose the keys are: header:NAME, set by the gateway in front, or global
    #[arg(long, value_name = "WHOSE", value_parser = Text)]
    scope: Option<String>,
    /// Where the key stands: header:NAME or json:PATH; header:Idempotency-Key when not given
    #[arg(long, value_name = "WHERE", value_parser = Text)]
    key: Option<String>,
    /// Where to listen for whoever looks after the proxy: HOST:PORT, or unix:PATH; nowhere when not given
    #[arg(long, value_name = "ADDR", value_parser = Text)]
    admin: Option<String>,
    /// How long what runs may take when the proxy is told to end, 30s when not given
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    grace: Option<Duration>,
    /// A file of options; flags go before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check the options
    #[arg(long)]
    check: bool,
}

/// The signals that end it.
struct Signals([Signal; 3]);

impl RunProxy {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Ending {
        let config = self.config()?;
        for warning in config.check()? {
            say(format_args!("semel: warning: {warning}"));
        }
        if self.check {
            print("the options are good")?;
            return Ok(exit::DONE);
        }
        more_descriptors();
        let no_runtime = |error: io::Error| Stop::unavailable(format!("no threads: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("semel-proxy")
            .build()
            .map_err(no_runtime)?;
        let ending = runtime.block_on(serve(&config));
        // What still runs is over: it was told to end at once, or had its time.
        runtime.shutdown_background();
        ending
    }

    /// The file, and the flags before it.
    fn config(&self) -> Result<Config, Stop> {
        let mut config = match &self.config {
            Some(path) => {
                let name = path.display().to_string();
                let text = fs::read_to_string(path)
                    .map_err(|e| Stop::usage(format!("--config {name} cannot be read: {e}")))?;
                Config::from_toml(&name, &text)?
            }
            None => Config::new(),
        };
        let flag = |name: &str| {
            let name = name.to_owned();
            move |error: crate::Error| Stop::usage(format!("--{name} {}", error.message()))
        };
        if let Some(place) = &self.listen {
            config = config.listen(place).map_err(flag("listen"))?;
        }
        if let Some(url) = &self.upstream {
            config = config.upstream(url).map_err(flag("upstream"))?;
        }
        if let Some(place) = &self.store {
            config = config.store(place);
        }
        if let Some(scope) = &self.scope {
            config = config.scope(scope).map_err(flag("scope"))?;
        }
        if let Some(source) = &self.key {
            config = config.key(source).map_err(flag("key"))?;
        }
        if let Some(place) = &self.admin {
            config = config.admin(place).map_err(flag("admin"))?;
        }
        if let Some(grace) = self.grace {
            config = config.grace(grace);
        }
        Ok(config)
    }
}

/// Takes all descriptors that the system grants: a connection takes two. With fewer, fewer connections are taken.
fn more_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, all);
}

async fn serve(config: &Config) -> Ending {
    let no_signals = |error: io::Error| Stop::unavailable(format!("no signals: {error}"));
    let (mut first, mut second) = (
        Signals::new().map_err(no_signals)?,
        Signals::new().map_err(no_signals)?,
    );
    let proxy = Proxy::bind(config).await?;
    for line in proxy.places() {
        say(format_args!("semel: {line}"));
    }
    let told = async {
        let number = first.next().await;
        say(format_args!(
            "semel: told to end by signal {number}; finishing what runs, and a second signal ends at once"
        ));
    };
    let twice = async {
        second.next().await;
        second.next().await
    };
    let ended = tokio::select! {
        biased;
        ended = proxy.serve(told) => ended?,
        number = twice => {
            let status = exit::BY_SIGNAL.saturating_add(number);
            let words = "ended at once by a second signal; guarded requests that ran are in doubt";
            return Err(Stop::new(status, words));
        }
    };
    match ended {
        Ended { cut_off: 0, .. } => Ok(exit::DONE),
        Ended { cut_off, .. } => Err(Stop::new(
            exit::FAILED,
            format!(
                "{cut_off} guarded requests did not end in time and are in doubt: see semel unresolved"
            ),
        )),
    }
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// The number of the next one.
    async fn next(&mut self) -> u8 {
        let [terminate, interrupt, hangup] = &mut self.0;
        let kind = tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        u8::try_from(kind.as_raw_value()).unwrap_or_default()
    }
}
