//! Every way through the life of a record, told to the recording as it is acknowledged.

use std::thread;

use semel::{Claim, Durability, Failure, OnTwin, Policy, Request, Store, Ticket};

use super::Ended;
use super::goods::{Dice, result_of, short_result_of};
use crate::shim::Marker;

/// How many threads work at once.
const THREADS: u64 = 4;
/// How many keys each of them uses.
const KEYS: u64 = 18;
/// How many relaxed operations the last thread does between two sync ones.
const RELAXED_RUN: u64 = 12;
/// The window in which the same payload counts as a twin.
const TWIN_WINDOW: std::time::Duration = std::time::Duration::from_secs(3600);

/// Opens, tells what it found, works, and closes. Marks are `= key state` for what was found, `> key verb` before a
/// call, `< key verb` after its acknowledgement.
pub(super) fn play(place: &str, session: &str) -> Ended {
    let mut marker = Marker::from_env()?;
    let store = Store::open(place)?;
    tell_found(&store, &mut marker)?;
    let works: Result<Vec<()>, String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..=THREADS)
            .map(|worker| {
                let store = &store;
                scope.spawn(move || work(store, session, worker).map_err(|e| e.to_string()))
            })
            .collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or(Err("a thread panicked".into()))
        };
        workers.into_iter().map(join).collect()
    });
    works?;
    store.close()?;
    Ok(())
}

/// Relaxed work alone, one change after the other, for as long as it is let.
pub(super) fn play_relaxed(place: &str) -> Ended {
    let store = Store::builder(place)
        .durability(Durability::Relaxed)
        .in_doubt(Policy::Rerun)
        .open()?;
    println!("open");
    for index in 0.. {
        let key = format!("relaxed-{index}");
        let Claim::Execute(ticket) = store.claim(&Request::new("relaxed", &*key))? else {
            return Err("a new key was known".into());
        };
        ticket.complete_value(short_result_of(&key))?;
    }
    Ok(())
}

fn tell_found(store: &Store, marker: &mut Marker) -> Ended {
    let mut census = String::from("= census begins");
    for info in store.list() {
        let info = info?;
        census += &format!("\n= {} {}", info.id, info.state);
    }
    marker.mark(&(census + "\n= census ends"))?;
    Ok(())
}

fn work(store: &Store, session: &str, worker: u64) -> Ended {
    let mut teller = Teller(Marker::from_env()?);
    if worker == THREADS {
        return work_relaxed(store, session, &mut teller);
    }
    for index in 0..KEYS {
        let key = format!("{session}-{worker}-{index}");
        live(store, &key, &mut teller)?;
    }
    Ok(())
}

/// Relaxed completions, each told as asked only; what a sync operation acknowledges later covers them.
fn work_relaxed(store: &Store, session: &str, teller: &mut Teller) -> Ended {
    for index in 0..3 * RELAXED_RUN {
        let key = format!("{session}-relaxed-{index}");
        let request = Request::new("relaxed", &*key)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed);
        teller.0.mark(&format!("> {key} complete"))?;
        expect_execute(store.claim(&request)?)?.complete_value(short_result_of(&key))?;
        if index % RELAXED_RUN == RELAXED_RUN - 1 {
            let after = format!("{session}-after-{index}");
            let ticket = teller.acknowledged(&after, "claim", || {
                expect_execute(store.claim(&Request::new("life", &*after))?)
            })?;
            teller.acknowledged(&after, "complete", || {
                Ok(ticket.complete_value(result_of(&after))?)
            })?;
            teller.0.mark(&format!("< {key} covers {}", index + 1))?;
        }
    }
    Ok(())
}

struct Teller(Marker);

impl Teller {
    fn acknowledged<T>(
        &mut self,
        key: &str,
        verb: &str,
        call: impl FnOnce() -> Result<T, Box<dyn std::error::Error>>,
    ) -> Result<T, Box<dyn std::error::Error>> {
        self.0.mark(&format!("> {key} {verb}"))?;
        let done = call()?;
        self.0.mark(&format!("< {key} {verb}"))?;
        Ok(done)
    }
}

fn expect_execute(claim: Claim) -> Result<Ticket, Box<dyn std::error::Error>> {
    match claim {
        Claim::Execute(ticket) => Ok(ticket),
        other => Err(format!("a claim that should execute was answered {}", other.name()).into()),
    }
}

/// Whether the claim of a key also looks for twins.
pub fn has_twin(key: &str) -> bool {
    Dice::of(key).below(4) == 0
}

/// The request that claims an id with the payload that belongs to a key.
pub fn request<'a>(id: &'a str, key: &str) -> semel::Result<Request<'a>> {
    let request = Request::new("life", id);
    match has_twin(key) {
        true => Ok(request
            .payload(key)?
            .twin_window(TWIN_WINDOW)
            .on_twin(OnTwin::Refuse)),
        false => Ok(request),
    }
}

fn live(store: &Store, key: &str, teller: &mut Teller) -> Ended {
    let mut dice = Dice::of(key);
    dice.below(4); // whether it has a twin
    let (request, with_twin) = (request(key, key)?, has_twin(key));
    let verb = if with_twin {
        "claim-with-twin"
    } else {
        "claim"
    };
    let ticket = teller.acknowledged(key, verb, || expect_execute(store.claim(&request)?))?;
    match dice.below(10) {
        0 => {
            std::mem::forget(ticket);
            return Ok(());
        }
        1 => teller.acknowledged(key, "doubt", || Ok(ticket.doubt("the line went dead")?))?,
        2 => teller.acknowledged(key, "fail", || {
            Ok(ticket.fail(Failure::new("declined", key))?)
        })?,
        3 => {
            teller.acknowledged(key, "release", || Ok(ticket.release()?))?;
            if dice.below(2) == 0 {
                let again =
                    teller.acknowledged(key, verb, || expect_execute(store.claim(&request)?))?;
                teller.acknowledged(key, "complete", || {
                    Ok(again.complete_value(result_of(key))?)
                })?;
            }
        }
        _ => teller.acknowledged(key, "complete", || {
            Ok(ticket.complete_value(result_of(key))?)
        })?,
    }
    if dice.below(5) == 0 && !with_twin {
        teller.acknowledged(key, "forget", || {
            Ok(store.forget(&(&request).into()).map(drop)?)
        })?;
    }
    Ok(())
}
