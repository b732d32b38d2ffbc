//! Claims one operation and goes on holding it, until it is killed or its standard input ends.

use std::io::BufRead;
use std::time::Duration;

use semel::{Claim, Lease, Policy, Request, Shared, Store};

use super::Ended;

/// Options: `never`, `rerun`, `lease=MS`, `bare` (opens and claims nothing).
pub(super) fn play(place: &str, options: &[&str]) -> Ended {
    let store = Store::builder(place).shared(Shared::Never).open()?;
    let has = |word: &str| options.contains(&word);
    let lease_ms = options
        .iter()
        .find_map(|option| option.strip_prefix("lease="));
    let mut request = Request::new("work", "W-1").holder("the victim");
    if let Some(ms) = lease_ms {
        request = request.lease(Duration::from_millis(ms.parse()?));
    }
    if has("never") {
        request = request.lease(Lease::Never);
    }
    if has("rerun") {
        request = request.in_doubt(Policy::Rerun);
    }
    let mut ticket = None;
    if has("bare") {
        println!("open");
    } else {
        match store.claim(&request)? {
            Claim::Execute(held) => {
                println!("execute {} {}", held.attempt(), held.fence());
                ticket = Some(held);
            }
            other => println!("{}", other.name()),
        }
    }
    std::io::stdin().lock().read_line(&mut String::new())?;
    drop(ticket);
    store.close()?;
    println!("closed");
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}
