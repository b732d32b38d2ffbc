//! A few steps, one after the other, told on standard output: small enough to be spoiled at every call they make.

use std::io::BufRead;
use std::time::Duration;

use semel::{Claim, Error, Failure, Request, Result, Store, Ticket, Value};

use super::Ended;
use super::goods::{result_of, short_result_of};

/// The keys of the steps, by what becomes of them.
pub const STEPS: [(&str, &str); 7] = [
    ("s-done", "complete"),
    ("s-open", "nothing"),
    ("s-long", "complete-long"),
    ("s-failed", "fail"),
    ("s-released", "release"),
    ("s-forgotten", "forget"),
    ("s-last", "complete"),
];
/// How long the result of the long step is, in bytes.
const LONG_BYTES: usize = 30_000;

/// The result that the long step keeps.
pub fn long_result() -> Value {
    Value::bytes(vec![7; LONG_BYTES])
}

/// Lines: `open` or `refused KIND TEXT`; for each step `ask KEY VERB`, then `ok KEY VERB` or `err KEY VERB KIND TEXT`; for
/// each key at the end `again KEY ANSWER`; `closed` or `close KIND TEXT`. After `open` it waits for a line of input.
pub(super) fn play(place: &str, timeout_ms: &str) -> Ended {
    let timeout = Duration::from_millis(timeout_ms.parse()?);
    let store = match Store::builder(place).disk_timeout(timeout).open() {
        Ok(store) => store,
        Err(error) => {
            println!("refused {}", told(&error));
            return Ok(());
        }
    };
    println!("open");
    std::io::stdin().lock().read_line(&mut String::new())?;
    for (key, end) in STEPS {
        step(&store, key, end);
    }
    let before = ["before-done", "before-open"];
    for key in before.iter().copied().chain(STEPS.map(|(key, _)| key)) {
        match store.claim(&Request::new("step", key)) {
            Ok(claim) => {
                println!("again {key} {}", claim.name());
                std::mem::forget(claim);
            }
            Err(error) => println!("again {key} {}", told(&error)),
        }
    }
    match store.close() {
        Ok(()) => println!("closed"),
        Err(error) => println!("close {}", told(&error)),
    }
    Ok(())
}

fn told(error: &Error) -> String {
    format!(
        "{} {}",
        error.kind().name(),
        error.message().replace('\n', " ")
    )
}

fn tell<T>(key: &str, verb: &str, call: impl FnOnce() -> Result<T>) -> Option<T> {
    println!("ask {key} {verb}");
    match call() {
        Ok(done) => {
            println!("ok {key} {verb}");
            Some(done)
        }
        Err(error) => {
            println!("err {key} {verb} {}", told(&error));
            None
        }
    }
}

fn step(store: &Store, key: &str, end: &str) {
    let request = Request::new("step", key);
    println!("ask {key} claim");
    let ticket = match store.claim(&request) {
        Ok(Claim::Execute(ticket)) => ticket,
        Ok(other) => return println!("err {key} claim answered {}", other.name()),
        Err(error) => return println!("err {key} claim {}", told(&error)),
    };
    println!("ok {key} claim");
    finish(store, key, end, &ticket);
    // An unfinished one stays as it is: a drop would say that it is in doubt.
    std::mem::forget(ticket);
}

fn finish(store: &Store, key: &str, end: &str, ticket: &Ticket) {
    let done = match end {
        "complete" => tell(key, end, || ticket.complete_value(short_result_of(key))),
        "complete-long" => tell(key, end, || ticket.complete_value(long_result())),
        "fail" => tell(key, end, || ticket.fail(Failure::new("declined", "no"))),
        "release" => tell(key, end, || ticket.release()),
        "forget" => tell(key, "complete", || {
            ticket.complete_value(short_result_of(key))
        }),
        _ => None,
    };
    if end == "forget" && done.is_some() {
        tell(key, end, || {
            store.forget(&(&Request::new("step", key)).into())
        });
    }
}

/// Fills the disk. Lines: `ok KEY complete` for what was acknowledged, then `stopped KIND TEXT`, `replays N`, and `fresh
/// ANSWER` for a new key.
pub(super) fn fill(place: &str) -> Ended {
    let store = Store::open(place)?;
    let mut done = Vec::new();
    let stopped = loop {
        let key = format!("f-{}", done.len());
        let claimed = store.claim(&Request::new("step", &*key));
        let completed = match claimed {
            Ok(Claim::Execute(ticket)) => {
                let completed = ticket.complete_value(result_of(&key));
                std::mem::forget(ticket);
                completed
            }
            Ok(other) => return Err(format!("a new key was answered {}", other.name()).into()),
            Err(error) => Err(error),
        };
        if let Err(error) = completed {
            break error;
        }
        println!("ok {key} complete");
        done.push(key);
    };
    println!("stopped {}", told(&stopped));
    let replays = done.iter().filter(|key| {
        matches!(store.claim(&Request::new("step", key.as_str())), Ok(Claim::Replay(replay)) if replay.value == result_of(key))
    });
    println!("replays {}", replays.count());
    match store.claim(&Request::new("step", "fresh")) {
        Ok(claim) => println!("fresh {}", claim.name()),
        Err(error) => println!("fresh {}", told(&error)),
    }
    Ok(())
}
