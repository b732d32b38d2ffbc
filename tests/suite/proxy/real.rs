//! Real clients and real services, unchanged, with the proxy between them: curl, requests, httpx and fetch before Flask and
//! Express.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;

use super::client::get;
use super::sidecar::Sidecar;
use crate::cli_process::Place;

/// Orders that are placed by each client, each of them more than once.
const IN_PYTHON: [&str; 5] = ["r-1", "r-2", "h-1", "h-2", "b-1"];
const IN_NODE: [&str; 2] = ["n-1", "n-2"];
const BY_CURL: [&str; 1] = ["c-1"];

/// What scripts/clients.sh sets up.
struct Tools {
    python: PathBuf,
    node_packages: PathBuf,
}

/// A service in a process of its own.
struct Shop(Child, SocketAddr);

impl Tools {
    /// `None`, said loudly, when something is not here. Continuous integration must have it.
    fn find() -> Option<Self> {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/clients");
        let tools = Self {
            python: place.join("python/bin/python"),
            node_packages: place.join("node"),
        };
        let has_curl = Command::new("curl").arg("--version").output().is_ok();
        if has_curl
            && place.join("python/fetched.txt").exists()
            && place.join("node/fetched.json").exists()
        {
            return Some(tools);
        }
        let said = format!(
            "real clients before the proxy: they are not in {}: run scripts/clients.sh, or `make test`, which does",
            place.display()
        );
        assert!(std::env::var_os("CI").is_none(), "{said}");
        eprintln!("\n!!!! NOT TESTED: {said}\n");
        None
    }
}

fn script(name: &str) -> String {
    format!("{}/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

impl Shop {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("reads");
        let port: u16 = line.trim().parse().expect("a port");
        Self(child, ([127, 0, 0, 1], port).into())
    }

    /// The orders that were placed, in order of their numbers.
    fn orders(&self) -> Vec<String> {
        let listed = get(self.1, "/orders").json();
        let mut orders: Vec<String> = serde_json::from_value(listed).expect("a list of texts");
        orders.sort();
        orders
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a script of a client says.
fn played(command: &mut Command) -> Json {
    let output = command.output().expect("it starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Every group of answers is one order: the same status, body and place, and all but one are replays.
fn one_each(said: &Json) {
    for (group, answers) in said.as_object().expect("groups") {
        let answers = answers.as_array().expect("answers");
        let replays = answers.iter().filter(|answer| answer[2] == "true").count();
        assert_eq!(replays, answers.len() - 1, "{group}: {answers:?}");
        for answer in answers {
            assert_eq!(answer[0], 201, "{group}: {answer}");
            assert_eq!(
                (&answer[1], &answer[3]),
                (&answers[0][1], &answers[0][3]),
                "{group}"
            );
        }
    }
}

fn curl(url: &str, place: &Place) -> String {
    let head = place.path("curl.head");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--dump-header", &head, "--json"])
        .arg(r#"{"order_no": "c-1", "amount": 10}"#)
        .args(["-H", "Idempotency-Key: c-1", "-H", "X-User: ann"])
        .arg(format!("{url}/orders"))
        .output()
        .expect("curl starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let head = fs::read_to_string(head).expect("a head");
    head + &String::from_utf8_lossy(&output.stdout)
}

/// All clients before one service.
fn shopping(tools: &Tools, shop: &Shop, place: &Place) {
    let proxy = Sidecar::start(place, shop.1, "");
    let url = format!("http://{}", proxy.address);
    one_each(&played(
        Command::new(&tools.python).arg(script("buy.py")).arg(&url),
    ));
    one_each(&played(
        Command::new("node").arg(script("buy.mjs")).arg(&url),
    ));
    let (first, again) = (curl(&url, place), curl(&url, place));
    assert!(
        first.contains("set-cookie: ") && !first.contains("idempotent-replayed"),
        "{first}"
    );
    assert!(
        again.contains("idempotent-replayed: true") && !again.contains("set-cookie: "),
        "{again}"
    );
    let body = |answer: &str| answer.rsplit("\r\n\r\n").next().map(str::to_owned);
    assert_eq!(body(&first), body(&again));
    let mut expect: Vec<&str> = [&IN_PYTHON[..], &IN_NODE, &BY_CURL].concat();
    expect.sort_unstable();
    assert_eq!(shop.orders(), expect);
    assert!(proxy.unresolved().is_empty());
}

#[test]
fn real_clients_order_once_each_from_a_shop_in_flask() {
    let Some(tools) = Tools::find() else {
        return;
    };
    let place = Place::new();
    let shop = Shop::start(
        Command::new(&tools.python)
            .arg(script("shop.py"))
            .arg(place.path("shop.sqlite")),
    );
    shopping(&tools, &shop, &place);
}

#[test]
fn real_clients_order_once_each_from_a_shop_in_express() {
    let Some(tools) = Tools::find() else {
        return;
    };
    let place = Place::new();
    let shop = Shop::start(
        Command::new("node")
            .arg(script("shop.mjs"))
            .arg(&tools.node_packages)
            .arg(place.path("orders.txt")),
    );
    shopping(&tools, &shop, &place);
}
