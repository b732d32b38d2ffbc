//! nginx as a gateway, and wrk as the load.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use crate::outcome::Outcome;

/// Connections that nginx keeps to the service.
const KEPT_CONNECTIONS: usize = 256;

/// An nginx of its own. Dropping it ends it.
pub struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Nginx {
    /// Starts one that passes everything on to a service; `None` where there is no nginx.
    pub fn before(service: SocketAddr, dir: &Path) -> Outcome<Option<Self>> {
        fs::create_dir_all(dir.join("logs"))?;
        let address = free_address()?;
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {kind};"))
            .concat();
        let conf = format!(
            "worker_processes 2; daemon off; pid nginx.pid; error_log stderr crit; events {{ worker_connections 4096; }} \
             http {{ access_log off; {temporary} keepalive_requests 100000000; \
             upstream service {{ server {service}; keepalive {KEPT_CONNECTIONS}; keepalive_requests 100000000; }} \
             server {{ listen {address}; location / {{ proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}"
        );
        let file = dir.join("nginx.conf");
        fs::write(&file, conf)?;
        let started = Command::new("nginx")
            .arg("-p")
            .arg(dir)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let nginx = Self { child, address };
        for _ in 0..500 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Ok(Some(nginx));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err("nginx does not answer".into())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it when it is told to, and not when it is killed.
        // SAFETY: the process is this one's child, and was not waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// An address of this machine at which nobody listens.
pub fn free_address() -> Outcome<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The load of one request, sent again and again over so many connections.
pub struct Wrk {
    script: PathBuf,
    connections: usize,
    seconds: u64,
}

impl Wrk {
    /// A load of POST requests with one key and one body; `None` where there is no wrk.
    pub fn posting(
        dir: &Path,
        key: &str,
        body: &str,
        connections: usize,
        seconds: u64,
    ) -> Outcome<Option<Self>> {
        if Command::new("wrk").arg("--version").output().is_err() {
            return Ok(None);
        }
        fs::create_dir_all(dir)?;
        let script = dir.join("post.lua");
        let lua = format!(
            "wrk.method = 'POST'\nwrk.body = '{body}'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.headers['Idempotency-Key'] = '{key}'\n"
        );
        fs::write(&script, lua)?;
        Ok(Some(Self {
            script,
            connections,
            seconds,
        }))
    }

    /// Requests a second that an address answers.
    pub fn load(&self, address: SocketAddr) -> Outcome<f64> {
        let told = Command::new("wrk")
            .args(["--threads", "1", "--connections"])
            .arg(self.connections.to_string())
            .args(["--duration", &format!("{}s", self.seconds), "--script"])
            .arg(&self.script)
            .arg(format!("http://{address}/orders"))
            .output()?;
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        if text.contains("Non-2xx") || text.contains("Socket errors") {
            return Err(format!("wrk met errors: {text}").into());
        }
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Requests/sec:"));
        let figure = line.ok_or_else(|| {
            format!(
                "wrk told no rate: {text}{}",
                String::from_utf8_lossy(&told.stderr)
            )
        })?;
        Ok(figure.trim().parse()?)
    }
}
