//! What the schemes cost beside a claim, and beside a claim and its completion, of the same store in the same run.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use semel::scheme::machine::Machine;
use semel::{Durability, Error, Fire, Lock, Post, Redeem, Stopwatch, Store, Transaction};

use crate::figures::{Figures, Series, in_turns, rate, time};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, Semel};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

const TURNS: usize = 15;
/// Accounts of the ledger, so that postings meet no more than customers do.
const ACCOUNTS: u64 = 1_000;
const EDGES: &[(&str, &[&str])] = &[("WAIT_PAY", &["PAID"])];
const TTL: Duration = Duration::from_secs(300);

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let calls = scale.of(4_000, 1_000);
    let store = rivals::store(&ground.spot("schemes"), Promise::Relaxed).open()?;
    let bench = Bench {
        semel: Semel::over(store.clone(), Promise::Relaxed, Payload::None),
        machine: store.machine("order", EDGES, "WAIT_PAY")?,
        store: &store,
        calls,
        next: Cell::new(0),
    };
    let section = bench.measure()?;
    drop(bench);
    store.close()?;
    Ok(section)
}

struct Bench<'s> {
    store: &'s Store,
    semel: Semel,
    machine: Machine<'s>,
    calls: u64,
    /// The first number that no call has used.
    next: Cell<u64>,
}

impl Bench<'_> {
    fn measure(&self) -> Outcome<Section> {
        let mut series = [
            Series::new("claim", || self.claims()),
            Series::new("claim + complete", || {
                let result = key::result();
                self.each(|key| {
                    self.semel
                        .complete(key, self.semel.claim(key, Keep::Long)?, &result)
                })
            }),
            Series::new("transaction of one row", || {
                self.each(|key| put(self.relaxed(), key))
            }),
            Series::new("token, issue + redeem", || self.each(|_| self.token())),
            Series::new("machine, fire", || self.fires()),
            Series::new("ledger, post", || self.posts()),
            Series::new("lock, acquire + release", || {
                self.each(|key| self.lock(key))
            }),
            Series::new("one thread, disjoint rows", || self.rows(1)),
            Series::new("two threads, disjoint rows", || self.rows(2)),
        ];
        let names = series.each_ref().map(|series| series.name);
        let figures = in_turns(TURNS, &mut series)?;
        let mut section = Section::default();
        for (ours, theirs, target) in [
            (2, 0, Target::AtMost(3.0)),
            (3, 1, Target::AtMost(2.0)),
            (4, 1, Target::AtMost(2.0)),
            (5, 1, Target::AtMost(2.0)),
            (6, 1, Target::AtMost(2.0)),
        ] {
            let line = line(names, &figures, (ours, theirs), target, time);
            section.lines.push(line);
        }
        let line = line(names, &figures, (8, 7), Target::AtLeast(1.3), rate);
        section.lines.push(line);
        section.notes.push(format!(
            "One thread but for the last line, {TURNS} turns of {} calls, each on a name of its own ({ACCOUNTS} accounts), from idle: what is \
             queued is on disk before the next series. Everything is relaxed, claims are `rerun`. The last line is in transactions a second.",
            self.calls
        ));
        Ok(section)
    }

    /// So many new names.
    fn keys(&self) -> Vec<Key> {
        let first = self.next.replace(self.next.get() + self.calls);
        (first..first + self.calls).map(Key::of).collect()
    }

    fn relaxed(&self) -> Transaction<'_> {
        self.store.transact().durability(Durability::Relaxed)
    }

    /// Nanoseconds a call, each on a name of its own.
    fn each(&self, mut call: impl FnMut(&Key) -> Outcome<()>) -> Outcome<f64> {
        let keys = self.keys();
        let watch = Stopwatch::start();
        for key in &keys {
            call(key)?;
        }
        let took = watch.elapsed();
        self.store.sync()?;
        Ok(took.as_nanos() as f64 / keys.len() as f64)
    }

    fn claims(&self) -> Outcome<f64> {
        let mut held = Vec::with_capacity(self.calls as usize);
        let figure = self.each(|key| {
            held.push((*key, self.semel.claim(key, Keep::Long)?));
            Ok(())
        })?;
        for (key, ticket) in held {
            self.semel.complete(&key, ticket, b"")?;
        }
        self.store.sync()?;
        Ok(figure)
    }

    fn token(&self) -> Outcome<()> {
        let tokens = self.store.tokens();
        let token = tokens.issue("checkout", TTL)?;
        match tokens.redeem(&token, "checkout")? {
            Redeem::Redeemed => Ok(()),
            other => Err(format!("a new token answered {other:?}").into()),
        }
    }

    fn fires(&self) -> Outcome<f64> {
        let keys = self.keys();
        for key in &keys {
            self.machine.create(key.text())?;
        }
        self.store.sync()?;
        let watch = Stopwatch::start();
        for key in &keys {
            match self.machine.fire(key.text(), "WAIT_PAY", "PAID", "pay-1")? {
                Fire::Applied => {}
                other => return Err(format!("a new order answered {}", other.name()).into()),
            }
        }
        let took = watch.elapsed();
        self.store.sync()?;
        Ok(took.as_nanos() as f64 / keys.len() as f64)
    }

    fn posts(&self) -> Outcome<f64> {
        let accounts: Vec<String> = (0..ACCOUNTS).map(|at| format!("account {at}")).collect();
        let mut at = 0;
        self.each(|key| {
            at = (at + 1) % accounts.len();
            let wallet = self.store.ledger("wallet");
            match wallet.post(&accounts[at], key.text(), 1, Some(0))? {
                Post::Posted(_) => Ok(()),
                other => Err(format!("a new posting answered {}", other.name()).into()),
            }
        })
    }

    fn lock(&self, key: &Key) -> Outcome<()> {
        match self.store.lock(key.text()).acquire()? {
            Lock::Held(guard) => Ok(guard.release()?),
            Lock::Busy(_) => Err("a free lock is busy".into()),
        }
    }

    /// Transactions a second of so many threads together, each on rows of its own.
    fn rows(&self, threads: usize) -> Outcome<f64> {
        let keys = self.keys();
        let store = self.store;
        let watch = Stopwatch::start();
        let ended: Vec<Result<(), Error>> = thread::scope(|scope| {
            let running: Vec<_> = keys
                .chunks(keys.len().div_ceil(threads))
                .map(|keys| {
                    scope.spawn(move || {
                        keys.iter().try_for_each(|key| {
                            let one = store.transact().durability(Durability::Relaxed);
                            one.run(|tx| tx.table("stock").put(key.text(), &1u32).map(drop))
                        })
                    })
                })
                .collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined.filter_map(Result::ok).collect()
        });
        let took = watch.elapsed();
        if ended.len() != threads {
            return Err("a thread panicked".into());
        }
        ended.into_iter().collect::<Result<(), Error>>()?;
        self.store.sync()?;
        Ok(keys.len() as f64 / took.as_secs_f64())
    }
}

fn put(transaction: Transaction<'_>, key: &Key) -> Outcome<()> {
    transaction.run(|tx| {
        tx.table("stock").put(key.text(), &1u32)?;
        Ok::<_, Error>(())
    })?;
    Ok(())
}

fn line(
    names: [&str; 9],
    figures: &[Figures],
    (ours, theirs): (usize, usize),
    target: Target,
    unit: fn(f64) -> String,
) -> Line {
    let crash = Semel::crash_costs(Promise::Relaxed);
    Line {
        series: names[ours].to_owned(),
        semel: unit(figures[ours].median()),
        rival: format!(
            "semel, {}: {}",
            names[theirs],
            unit(figures[theirs].median())
        ),
        ratio: figures[ours].ratio_to(&figures[theirs]),
        target,
        crash: [crash, crash],
    }
}
