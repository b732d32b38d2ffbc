//! One of many processes that do random work at one store, each of which may be killed at any moment.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::{Claim, ErrorKind, Policy, Request, Store};

use super::Ended;
use super::goods::{Dice, short_result_of};

/// The lease of every claim.
pub const LEASE: Duration = Duration::from_millis(1_500);
/// How many keys under hold there are at a time, whoever claims them.
const HOLD_KEYS: u64 = 40;
/// How many keys under rerun, for all time.
const RERUN_KEYS: u64 = 16;
/// How many rows the members count in together.
pub const ROWS: u64 = 4;

/// An append-only file; a line is there whole or not at all, whenever its writer is killed.
struct Ledger(File);

impl Ledger {
    fn write(&self, line: &str) -> std::io::Result<()> {
        (&self.0).write_all(format!("{line}\n").as_bytes())
    }
}

/// Lines of the ledger: `effect KEY ATTEMPT FENCE MEMBER`, `completed KEY`, `counted MEMBER ROW N`, `posted N`,
/// `wrong WHAT`.
pub(super) fn play(place: &str, ledger: &Path, member: &str) -> Ended {
    let ledger = Ledger(OpenOptions::new().append(true).create(true).open(ledger)?);
    if let Err(error) = work(place, &ledger, member) {
        ledger.write(&format!("wrong {member}: {error}"))?;
    }
    Ok(())
}

/// Forks so many members, and another one for each that ends; says once that they work. It opens no store itself.
pub(super) fn prefork(place: &str, ledger: &Path, members: &str) -> Ended {
    let members: u64 = members.parse()?;
    for member in 0.. {
        // SAFETY: this process has one thread, so that the child is whole.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let ended = play(place, ledger, &member.to_string());
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
        if member + 1 == members {
            println!("working");
        }
        if member + 1 >= members {
            let mut status = 0;
            // SAFETY: `status` is a valid place for a child's status.
            unsafe { libc::waitpid(-1, &raw mut status, 0) };
        }
    }
    Ok(())
}

fn work(place: &str, ledger: &Ledger, member: &str) -> Ended {
    let store = Store::open(place)?;
    let number: u64 = member.parse()?;
    let mut dice = Dice::of(member);
    let mut counted = 0u64;
    for turn in 0u64.. {
        match dice.below(4) {
            // The keys move on with the members, so that there is always something new, and old things come again.
            0 | 1 => {
                let key = format!("hold-{}", number * 4 + dice.below(HOLD_KEYS));
                attempt(&store, ledger, member, &Request::new("hold", &*key), &key)?;
            }
            2 => {
                let key = format!("rerun-{}", dice.below(RERUN_KEYS));
                let request = Request::new("rerun", &*key).in_doubt(Policy::Rerun);
                attempt(&store, ledger, member, &request, &key)?;
            }
            _ => {
                counted += 1;
                count(&store, member, number % ROWS)?;
                ledger.write(&format!("counted {member} {} {counted}", number % ROWS))?;
            }
        }
        if turn % 8 == 7 {
            thread::sleep(Duration::from_millis(dice.below(4)));
        }
    }
    Ok(())
}

/// Counts one more of this member, in a row that others count in too.
fn count(store: &Store, member: &str, row: u64) -> Ended {
    let id = format!("row-{row}");
    store.transaction(|tx| {
        let found = tx.table("counts").get::<BTreeMap<String, u64>>(&id)?;
        let mut counts = found.map(|row| row.value).unwrap_or_default();
        *counts.entry(member.to_owned()).or_default() += 1;
        tx.table("counts").put(&id, &counts)
    })?;
    Ok(())
}

fn attempt(
    store: &Store,
    ledger: &Ledger,
    member: &str,
    request: &Request<'_>,
    key: &str,
) -> Ended {
    let request = request.clone().lease(LEASE);
    let Claim::Execute(ticket) = store.claim(&request)? else {
        return Ok(());
    };
    let (attempt, fence) = (ticket.attempt(), ticket.fence());
    ledger.write(&format!("effect {key} {attempt} {fence} {member}"))?;
    match ticket.complete_value(short_result_of(key)) {
        Ok(()) => ledger.write(&format!("completed {key}"))?,
        // So many wait for two processors that a lease may end; then another may have it, where it may run again.
        Err(error) if error.kind() == ErrorKind::Lost && key.starts_with("rerun") => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
