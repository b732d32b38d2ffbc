//! Real webhook payloads: each is found again however it is spelled, each change is noticed, and no two are taken for one.

mod delivery;
mod respelling;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;

use semel::{Claim, Durability, Policy, Request, Store, fingerprint};
use serde_json::Value;

use self::delivery::{Delivery, deliveries};
use self::respelling::{respelled, with_another};

/// Fewer than this means that the package is not what it was.
const LEAST_DELIVERIES: usize = 700;

fn request(id: &str, json: &str) -> Request<'static> {
    Request::new("webhook", id.to_owned())
        .in_doubt(Policy::Rerun)
        .durability(Durability::Relaxed)
        .payload_json(json.as_bytes())
        .expect("a payload")
}

/// Delivers everything once, each with its own id as the result.
fn delivered(store: &Store, deliveries: &[Delivery]) {
    for Delivery { id, json, .. } in deliveries {
        match store.claim(&request(id, json)).expect("claims") {
            Claim::Execute(ticket) => ticket.complete(id).expect("completes"),
            other => panic!("{id} collides: {}", other.name()),
        }
    }
    assert_eq!(store.len(), deliveries.len() as u64);
}

#[test]
fn every_payload_is_found_again_as_it_was_and_respelled() {
    let Some(deliveries) = deliveries() else {
        return;
    };
    assert!(deliveries.len() >= LEAST_DELIVERIES, "{}", deliveries.len());
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store");
    let store = Store::open(path.to_str().expect("text")).expect("opens");
    delivered(&store, &deliveries);
    drop(store);
    let store = Store::open(path.to_str().expect("text")).expect("reopens");
    for Delivery { id, json, value } in &deliveries {
        let respelled = respelled(value);
        assert_ne!(*json, respelled);
        for again in [json, &respelled] {
            match store.claim(&request(id, again)).expect("claims") {
                Claim::Replay(replay) => {
                    assert_eq!(replay.decode::<String>().expect("text"), *id)
                }
                other => panic!("{id}: {}\n{again}", other.name()),
            }
        }
    }
    assert_eq!(store.len(), deliveries.len() as u64);
}

#[test]
fn a_change_of_any_field_is_a_mismatch_that_names_it() {
    let Some(deliveries) = deliveries() else {
        return;
    };
    let store = Store::open("memory:").expect("opens");
    delivered(&store, &deliveries);
    for (at, Delivery { id, value, .. }) in deliveries.iter().enumerate() {
        let members = value.as_object().expect("an object");
        for (turn, name) in members.keys().enumerate() {
            let changed = with_another(value, name, at + turn);
            for json in [changed.to_string(), respelled(&changed)] {
                match store.claim(&request(id, &json)).expect("claims") {
                    Claim::Mismatch(mismatch) => {
                        assert_eq!(mismatch.fields, [name.as_str()], "{id}")
                    }
                    other => panic!("{id}, {name}: {}\n{json}", other.name()),
                }
            }
        }
    }
}

#[test]
fn payloads_have_one_fingerprint_exactly_when_they_are_equal() {
    let Some(deliveries) = deliveries() else {
        return;
    };
    // Sorted members and the text of each number: equal for equal payloads, since none of them was respelled.
    let mut by_value: BTreeMap<String, String> = BTreeMap::new();
    let mut by_fingerprint: BTreeMap<String, String> = BTreeMap::new();
    for Delivery { id, json, value } in &deliveries {
        let value = value.to_string();
        let print = fingerprint(json.as_bytes()).expect("a payload");
        assert_eq!(
            by_value
                .entry(value.clone())
                .or_insert_with(|| print.clone()),
            &print,
            "{id}"
        );
        assert_eq!(
            by_fingerprint.entry(print).or_insert_with(|| value.clone()),
            &value,
            "{id}"
        );
    }
    assert!(by_value.len() > deliveries.len() / 2);
}

#[test]
fn the_command_passes_on_first_deliveries_and_notices_changes() {
    let Some(deliveries) = deliveries() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("store");
    let (mut first, mut again, mut changed) = (String::new(), String::new(), String::new());
    let mut names = Vec::new();
    for (at, Delivery { id, json, value }) in deliveries.iter().enumerate() {
        let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
        let name = keys[at % keys.len()];
        names.push(name.clone());
        let other = with_another(value, name, at);
        line(&mut first, id, json);
        line(&mut again, id, &respelled(value));
        line(&mut changed, id, &respelled(&other));
    }
    let count = deliveries.len();

    let said = dedup(&store, first.clone() + &again);
    assert_eq!(said.status.code(), Some(0), "{}", err(&said));
    assert!(
        said.stdout == first.as_bytes(),
        "each payload once, as it came"
    );
    let summary = format!(
        "semel: {} lines: {count} first, {count} repeats, 0 mismatches, 0 in doubt, 0 skipped",
        2 * count
    );
    assert!(err(&said).contains(&summary), "{}", err(&said));

    let said = dedup(&store, changed);
    assert_eq!(said.status.code(), Some(65), "{}", err(&said));
    assert!(said.stdout.is_empty());
    let summary = format!("semel: {count} lines: 0 first, 0 repeats, {count} mismatches");
    assert!(err(&said).contains(&summary), "{}", err(&said));
    for (number, (name, Delivery { id, .. })) in names.iter().zip(&deliveries).take(5).enumerate() {
        let told = format!("line {}: key \"{id}\"", number + 1);
        let told = err(&said)
            .lines()
            .any(|line| line.contains(&told) && line.contains(&format!("(other {name})")));
        assert!(told, "{id} {name}: {}", err(&said));
    }
}

fn line(to: &mut String, id: &str, json: &str) {
    let id = Value::from(id);
    let _ = writeln!(to, "{{\"id\":{id},\"payload\":{json}}}");
}

fn dedup(store: &std::path::Path, input: String) -> Output {
    let mut child = Command::new(semel_tests::semel_binary())
        .args(["dedup", "--key", ".id", "--payload", ".payload", "--store"])
        .arg(store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("semel starts; was it built?");
    let mut stdin = child.stdin.take().expect("piped");
    let feeder = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("ends");
    let _ = feeder.join();
    output
}

fn err(said: &Output) -> String {
    String::from_utf8_lossy(&said.stderr).into_owned()
}

#[test]
fn the_version_of_the_payloads_is_exact() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/octokit/package.json");
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(manifest).expect("readable")).expect("JSON");
    let version = manifest["dependencies"]["@octokit/webhooks-examples"]
        .as_str()
        .expect("a version");
    assert!(
        version.split('.').count() == 3 && version.bytes().all(|b| b.is_ascii_digit() || b == b'.'),
        "{version}"
    );
}
