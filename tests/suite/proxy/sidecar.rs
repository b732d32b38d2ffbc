//! The real `semel proxy`, started and ended by a test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::client::{Answer, ask, get, request};
use crate::cli_process::{Place, semel};

/// A proxy that runs.
pub(super) struct Sidecar {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Sidecar {
    /// Starts one before a service, with more options as TOML. Its scope is the field X-User.
    pub(super) fn start(place: &Place, upstream: SocketAddr, options: &str) -> Self {
        let file = place.path("proxy.toml");
        let text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nupstream = \"http://{upstream}\"\nscope = \"header:X-User\"\nstore = '{}'\n{options}\n",
            place.store()
        );
        fs::write(&file, text).expect("a file");
        let mut child = semel(&["proxy", "--config", &file])
            .spawn()
            .expect("semel starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let address = announced(&mut stderr, "semel: listening at http://");
        let admin = announced(&mut stderr, "semel: to be looked after at http://");
        let said: Arc<Mutex<String>> = Arc::default();
        let heard = Arc::clone(&said);
        let listener = thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                heard.lock().expect("not poisoned").push_str(&(line + "\n"));
            }
        });
        Self {
            child,
            address,
            admin,
            said,
            listener: Some(listener),
        }
    }

    pub(super) fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: the child has not been waited for, so that the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// What it has said on standard error since it listens.
    pub(super) fn said(&self) -> String {
        self.said.lock().expect("not poisoned").clone()
    }

    /// Waits for its end: the exit status, and all it has said.
    pub(super) fn end(mut self) -> (i32, String) {
        let status = self.child.wait().expect("ends");
        if let Some(listener) = self.listener.take() {
            listener.join().expect("reads");
        }
        (status.code().unwrap_or(-1), self.said())
    }

    /// What is in doubt, as the admin address lists it.
    pub(super) fn unresolved(&self) -> Vec<serde_json::Value> {
        let listed = get(self.admin, "/.semel/unresolved").json();
        listed["unresolved"].as_array().expect("a list").clone()
    }

    /// Resolves a record as it was listed; `how` is the rest of the JSON.
    pub(super) fn resolve(&self, record: &serde_json::Value, how: &str) -> Answer {
        let body = format!(
            r#"{{"operation":{},"id":{},"scope":{},"fence":{},{how}}}"#,
            record["operation"], record["id"], record["scope"], record["fence"]
        );
        let fields = "Content-Type: application/json\r\n";
        ask(
            self.admin,
            &request("POST /.semel/unresolved", fields, body.as_bytes()),
        )
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address behind these words, of a line that has to come.
fn announced(stderr: &mut BufReader<ChildStderr>, words: &str) -> SocketAddr {
    let mut all = String::new();
    loop {
        let from = all.len();
        assert_ne!(
            stderr.read_line(&mut all).expect("reads"),
            0,
            "it ended: {all}"
        );
        if let Some(rest) = all[from..].strip_prefix(words) {
            let end = rest.find([',', '\n']).unwrap_or(rest.len());
            return rest[..end].parse().expect("an address");
        }
    }
}
