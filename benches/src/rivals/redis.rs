//! Redis over its Unix socket, as a claim table is kept in it: SET NX to claim, a script that compares the token to complete.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ::redis::{Client, Connection, Script, cmd};

use crate::key::Key;
use crate::outcome::Outcome;

/// The lease of a claim, and how long a result is kept, in milliseconds.
const LEASE_MS: u64 = 30_000;
const KEPT_MS: u64 = 2_000;
/// Completes a claim, if it is still this caller's.
const COMPLETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
     return redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) else return false end";

/// A server of its own. Dropping it ends it.
pub struct RedisServer {
    child: Child,
    socket: PathBuf,
}

impl RedisServer {
    /// Starts one that writes to a file and syncs it as `appendfsync` says; `None` where there is no redis-server.
    pub fn start(dir: &Path, appendfsync: &str) -> Outcome<Option<Self>> {
        std::fs::create_dir_all(dir)?;
        let socket = dir.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", appendfsync, "--daemonize", "no"]);
        command.arg("--unixsocket").arg(&socket);
        command.arg("--dir").arg(dir).stdout(Stdio::null());
        let child = match command.spawn() {
            Ok(child) => child,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let server = Self { child, socket };
        for _ in 0..500 {
            if Redis::connect(&server.socket).is_ok() {
                return Ok(Some(server));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err("redis-server does not answer".into())
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Both fail only when it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection to it.
pub struct Redis {
    connection: Connection,
    complete: Script,
}

impl Redis {
    /// Connects.
    pub fn connect(socket: &Path) -> Outcome<Self> {
        let client = Client::open(format!("redis+unix://{}", socket.display()))?;
        Ok(Self {
            connection: client.get_connection()?,
            complete: Script::new(COMPLETE),
        })
    }

    /// Claims a key that is new, and keeps its result.
    pub fn cycle(&mut self, key: &Key, token: u64, result: &[u8]) -> Outcome<()> {
        let claimed: Option<String> = cmd("SET")
            .arg(key.text())
            .arg(token)
            .arg("NX")
            .arg("PX")
            .arg(LEASE_MS)
            .query(&mut self.connection)?;
        claimed.ok_or("a new key was claimed already")?;
        let kept: Option<String> = self
            .complete
            .key(key.text())
            .arg(token)
            .arg(result)
            .arg(KEPT_MS)
            .invoke(&mut self.connection)?;
        kept.ok_or("the claim is another's")?;
        Ok(())
    }
}
