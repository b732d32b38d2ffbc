//! The deliveries: the payloads of the npm package, each under an id of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// One payload, as text and as a tree.
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) json: String,
    pub(super) value: Value,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    examples: Vec<Box<RawValue>>,
}

/// All deliveries; `None`, said loudly, when the package is not here. Continuous integration must have it.
pub(super) fn deliveries() -> Option<Vec<Delivery>> {
    let package = package();
    if !package.is_dir() {
        let said = format!(
            "the webhook payloads are not in {}: run scripts/payloads.sh, or `make test`, which does",
            package.display()
        );
        assert!(std::env::var_os("CI").is_none(), "{said}");
        eprintln!("\n!!!! NOT TESTED: {said}\n");
        return None;
    }
    let mut servers: Vec<PathBuf> = fs::read_dir(&package)
        .expect("a readable package")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("index.json").is_file())
        .collect();
    servers.sort();
    Some(
        servers
            .iter()
            .flat_map(|server| of_server(server))
            .collect(),
    )
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.tools/octokit/node_modules/@octokit/webhooks-examples")
}

fn of_server(server: &Path) -> Vec<Delivery> {
    let name = server.file_name().expect("a name").to_string_lossy();
    let text = fs::read_to_string(server.join("index.json")).expect("readable");
    let events: Vec<Event> = serde_json::from_str(&text).expect("a list of events");
    let mut deliveries = Vec::new();
    for event in events {
        for (at, example) in event.examples.iter().enumerate() {
            // A delivery is one line, so line ends between members go.
            let json = example.get().replace(['\n', '\r'], " ");
            let value: Value = serde_json::from_str(&json).expect("JSON");
            assert!(value.as_object().is_some_and(|members| !members.is_empty()));
            deliveries.push(Delivery {
                id: format!("{name}/{}/{at}", event.name),
                json,
                value,
            });
        }
    }
    deliveries
}
