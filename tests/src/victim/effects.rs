//! Work with effects outside: a line in an append-only file between claim and complete. The victim is killed in it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::{Claim, Durability, Policy, Request, Store};

use super::Ended;
use super::goods::{Dice, short_result_of};

/// The lease of every claim: short, so that the next victims see it end.
pub const LEASE: Duration = Duration::from_millis(150);
/// How many keys the rerun worker shares with the victims before and after it.
const RERUN_KEYS: u64 = 12;

/// The moment, in microseconds since the machine started.
pub fn boot_us() -> u64 {
    let mut spec = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `spec` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut spec) };
    spec.tv_sec.unsigned_abs() * 1_000_000 + spec.tv_nsec.unsigned_abs() / 1000
}

/// An append-only file; a line is there whole or not at all, whenever its writer is killed.
struct Ledger(File);

impl Ledger {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self(
            OpenOptions::new().append(true).create(true).open(path)?,
        ))
    }

    fn write(&self, line: &str) -> std::io::Result<()> {
        (&self.0).write_all(format!("{line}\n").as_bytes())
    }
}

/// Lines of the ledger: `claimed KEY ATTEMPT FENCE ASKED_US`, `effect KEY ATTEMPT FENCE NOW_US`, `completed KEY`,
/// `relaxed KEY`, `wrong WHAT`.
pub(super) fn play(place: &str, ledger: &Path, cycle: &str) -> Ended {
    let ledger = Ledger::open(ledger)?;
    let store = Store::open(place)?;
    ledger.write(&format!("opened {cycle}"))?;
    thread::scope(|scope| {
        for worker in 0..2 {
            let (store, ledger) = (&store, &ledger);
            scope.spawn(move || run(ledger, || hold(store, ledger, cycle, worker)));
        }
        scope.spawn(|| run(&ledger, || rerun(&store, &ledger, cycle)));
        scope.spawn(|| run(&ledger, || relaxed(&store, &ledger, cycle)));
    });
    Ok(())
}

fn run(ledger: &Ledger, work: impl FnOnce() -> Ended) {
    if let Err(error) = work() {
        let _ = ledger.write(&format!("wrong {error}"));
    }
}

fn hold(store: &Store, ledger: &Ledger, cycle: &str, worker: u64) -> Ended {
    let mut dice = Dice::of(&format!("{cycle} {worker}"));
    for index in 0.. {
        let key = format!("hold-{cycle}-{worker}-{index}");
        attempt(
            store,
            ledger,
            &Request::new("hold", &*key).lease(LEASE),
            &key,
        )?;
        // An earlier one again: it must not run, whatever became of its victim.
        let old = format!(
            "hold-{}-{worker}-{}",
            dice.below(1 + cycle.parse::<u64>()?),
            dice.below(index + 1)
        );
        attempt(
            store,
            ledger,
            &Request::new("hold", &*old).lease(LEASE),
            &old,
        )?;
    }
    Ok(())
}

fn rerun(store: &Store, ledger: &Ledger, cycle: &str) -> Ended {
    let mut dice = Dice::of(cycle);
    loop {
        let key = format!("rerun-{}", dice.below(RERUN_KEYS));
        let request = Request::new("rerun", &*key)
            .lease(LEASE)
            .in_doubt(Policy::Rerun);
        attempt(store, ledger, &request, &key)?;
        thread::sleep(Duration::from_millis(dice.below(10)));
    }
}

fn relaxed(store: &Store, ledger: &Ledger, cycle: &str) -> Ended {
    for index in 0.. {
        let key = format!("relaxed-{cycle}-{index}");
        let request = Request::new("relaxed", &*key)
            .in_doubt(Policy::Rerun)
            .durability(Durability::Relaxed);
        if let Claim::Execute(ticket) = store.claim(&request)? {
            ticket.complete_value(short_result_of(&key))?;
            ledger.write(&format!("relaxed {key}"))?;
        }
        thread::sleep(Duration::from_micros(300));
    }
    Ok(())
}

fn attempt(store: &Store, ledger: &Ledger, request: &Request<'_>, key: &str) -> Ended {
    let asked_us = boot_us();
    let Claim::Execute(ticket) = store.claim(request)? else {
        return Ok(());
    };
    let (attempt, fence) = (ticket.attempt(), ticket.fence());
    ledger.write(&format!("claimed {key} {attempt} {fence} {asked_us}"))?;
    ledger.write(&format!("effect {key} {attempt} {fence} {}", boot_us()))?;
    ticket.complete_value(short_result_of(key))?;
    ledger.write(&format!("completed {key}"))?;
    Ok(())
}
