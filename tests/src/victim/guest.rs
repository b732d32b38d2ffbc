//! A process that uses a store and does what it is told, line by line: one of several at the same store.

use std::collections::HashMap;
use std::io::BufRead;
use std::thread;
use std::time::Duration;

use semel::{Claim, Durability, Identity, Lease, Policy, Request, Shared, Store, Ticket};

use super::Ended;

/// Options: `only`, `never`, `silence=MS`, and `sigpipe`, which dies of it as a program in C does. Then lines: a verb and its words. Every line is answered by one.
pub(super) fn play(place: &str, options: &[&str]) -> Ended {
    let mut builder = Store::builder(place);
    for option in options {
        builder = match option.split_once('=') {
            Some(("silence", ms)) => builder.owner_silence(Duration::from_millis(ms.parse()?)),
            _ if *option == "only" => builder.shared(Shared::Only),
            _ if *option == "sigpipe" => {
                // SAFETY: the default action of a signal is no handler of ours.
                unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
                builder
            }
            _ if *option == "never" => builder.shared(Shared::Never),
            _ => return Err(format!("{option} is no option").into()),
        };
    }
    let store = builder.open()?;
    println!("open");
    let mut tickets: HashMap<String, Ticket> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        println!("{}", answer(&store, &mut tickets, &words));
    }
    Ok(())
}

fn answer(store: &Store, tickets: &mut HashMap<String, Ticket>, words: &[&str]) -> String {
    let told = match words {
        ["claim", key] => claim(store, tickets, key, Request::new("guest", *key)),
        ["claim", key, "lease", ms] => {
            let lease = Duration::from_millis(ms.parse().unwrap_or(1));
            claim(
                store,
                tickets,
                key,
                Request::new("guest", *key).lease(lease),
            )
        }
        ["endless", key] => {
            let request = Request::new("guest", *key).lease(Lease::Never);
            claim(store, tickets, key, request)
        }
        ["relaxed", key] => {
            let request = Request::new("guest", *key)
                .in_doubt(Policy::Rerun)
                .durability(Durability::Relaxed);
            claim(store, tickets, key, request)
        }
        ["wait", key, ms] => {
            let wait = Duration::from_millis(ms.parse().unwrap_or(1));
            claim(store, tickets, key, Request::new("guest", *key).wait(wait))
        }
        // Waits beside whatever else it is told; the answer comes by itself, later.
        ["await", key, ms] => {
            let (store, key) = (store.clone(), (*key).to_owned());
            let wait = Duration::from_millis(ms.parse().unwrap_or(1));
            thread::spawn(move || {
                let claimed = store.claim(&Request::new("guest", &*key).wait(wait));
                println!(
                    "awaited {key} {}",
                    claimed.map_or("error", |claim| claim.name())
                );
                std::mem::forget(store);
            });
            Ok("awaiting".to_owned())
        }
        // As many calls at a time, each of which waits for a key that is held.
        ["burst", count, key] => {
            thread::scope(|scope| {
                for _ in 0..count.parse().unwrap_or(1) {
                    let request = Request::new("guest", *key).wait(Duration::from_millis(500));
                    scope.spawn(move || store.claim(&request).map(|claim| claim.name()));
                }
            });
            Ok("burst".to_owned())
        }
        ["complete", key] => ended(tickets, key, |ticket| ticket.complete(*key)),
        ["release", key] => ended(tickets, key, Ticket::release),
        ["renew", key] => match tickets.get(*key) {
            Some(ticket) => ticket.renew().map(|()| "renewed".to_owned()),
            None => Ok("no ticket".to_owned()),
        },
        ["lookup", key] => store
            .lookup(&Identity::new("guest", *key))
            .map(|info| info.map_or_else(|| "absent".to_owned(), |info| info.state.to_owned())),
        ["sync"] => store.sync().map(|()| "synced".to_owned()),
        ["close"] => store.close().map(|()| "closed".to_owned()),
        other => Ok(format!("{other:?} is no verb")),
    };
    told.unwrap_or_else(|error| format!("{}: {error}", error.kind().name()))
}

fn claim(
    store: &Store,
    tickets: &mut HashMap<String, Ticket>,
    key: &str,
    request: Request<'_>,
) -> semel::Result<String> {
    let claim = store.claim(&request)?;
    let name = claim.name().to_owned();
    if let Claim::Execute(ticket) = claim {
        tickets.insert(key.to_owned(), ticket);
    }
    Ok(name)
}

fn ended(
    tickets: &mut HashMap<String, Ticket>,
    key: &str,
    end: impl FnOnce(&Ticket) -> semel::Result<()>,
) -> semel::Result<String> {
    match tickets.remove(key) {
        Some(ticket) => end(&ticket).map(|()| "ended".to_owned()),
        None => Ok("no ticket".to_owned()),
    }
}
