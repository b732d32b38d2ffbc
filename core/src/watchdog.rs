//! Renews the leases of live tickets at a third of the lease, and tells a holder that has lost his key.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::engine::Engine;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::plain::Mutex;
use crate::ticket::Held;
use crate::time::{NEVER_US, Stopwatch};

const SHARDS: usize = 8;
/// How long a look may take before what is left of it is put off.
const MAX_LOOK: Duration = Duration::from_secs(2);
/// A renewal that could not be made is tried again after this part of a lease.
const RETRY_PART: u64 = 30;

/// Where a ticket is entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    shard: usize,
    place: usize,
}

/// The tickets whose leases are renewed.
#[derive(Default)]
pub(crate) struct Watchdog {
    shards: [Mutex<Shard>; SHARDS],
    next_shard: AtomicU64,
    /// When the thread looks next; `NEVER_US` when nothing is entered. Written under the lock of `looking`.
    looks_at_us: AtomicU64,
    looking: Mutex<()>,
}

#[derive(Default)]
struct Shard {
    places: Vec<Option<Watched>>,
    free: Vec<usize>,
}

struct Watched {
    due_us: u64,
    ticket: Weak<Held>,
}

/// What renewing a lease came to.
pub(crate) enum Renewed {
    /// Renewed; next at this time.
    Until(u64),
    /// Look no more: it has ended, or is lost.
    Over,
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        Self {
            looks_at_us: AtomicU64::new(NEVER_US),
            ..Self::default()
        }
    }

    /// Enters a ticket that is to be renewed at `due_us`.
    pub(crate) fn enter(&self, engine: &Arc<Engine>, due_us: u64, ticket: Weak<Held>) -> Entry {
        let shard = self.next_shard.fetch_add(1, Ordering::Relaxed) as usize % SHARDS;
        let place = {
            let mut shard = self.shards[shard].lock();
            let watched = Some(Watched { due_us, ticket });
            match shard.free.pop() {
                Some(place) => {
                    shard.places[place] = watched;
                    place
                }
                None => {
                    shard.places.push(watched);
                    shard.places.len() - 1
                }
            }
        };
        self.look_at(engine, due_us);
        if engine.hub().is_closed() {
            // It came too late for the dismissal of the others.
            self.dismiss();
        }
        Entry { shard, place }
    }

    /// Takes a ticket out.
    pub(crate) fn leave(&self, entry: Entry) {
        let mut shard = self.shards[entry.shard].lock();
        if shard
            .places
            .get_mut(entry.place)
            .is_some_and(|place| place.take().is_some())
        {
            shard.free.push(entry.place);
        }
    }

    fn look_at(&self, engine: &Arc<Engine>, due_us: u64) {
        // Most leases are entered while an earlier look is due: those need no lock.
        if due_us >= self.looks_at_us.load(Ordering::SeqCst) {
            return;
        }
        let _looking = self.looking.lock();
        if due_us < self.looks_at_us.load(Ordering::SeqCst) {
            self.looks_at_us.store(due_us, Ordering::SeqCst);
            let weak = Arc::downgrade(engine);
            engine.timers().at(due_us, move || {
                if let Some(engine) = weak.upgrade() {
                    engine.watchdog().look(&engine, due_us);
                }
            });
        }
    }

    /// Renews what is due; one bad entry never stops the others.
    fn look(&self, engine: &Arc<Engine>, due_us: u64) {
        {
            let _looking = self.looking.lock();
            if self.looks_at_us.load(Ordering::SeqCst) != due_us {
                return; // an earlier look was set since
            }
            self.looks_at_us.store(NEVER_US, Ordering::SeqCst);
        }
        let looking = Stopwatch::start();
        let now_us = engine.now_us();
        let mut next_us = NEVER_US;
        for (number, shard) in self.shards.iter().enumerate() {
            let due: Vec<(usize, Weak<Held>)> = {
                let shard = shard.lock();
                let mut due = Vec::new();
                for (place, watched) in shard.places.iter().enumerate() {
                    match watched {
                        Some(watched) if watched.due_us <= now_us => {
                            due.push((place, Weak::clone(&watched.ticket)))
                        }
                        Some(watched) => next_us = next_us.min(watched.due_us),
                        None => {}
                    }
                }
                due
            };
            for (place, ticket) in due {
                let renewed = match ticket.upgrade() {
                    // A store that does not answer one does not answer the others: they are told in time.
                    Some(held) if looking.elapsed() > MAX_LOOK => held.not_renewed(engine.now_us()),
                    Some(held) => held.renew_by_watchdog(now_us),
                    None => Renewed::Over,
                };
                match renewed {
                    Renewed::Until(us) => {
                        next_us = next_us.min(us);
                        let mut shard = shard.lock();
                        // Only if it is still the same ticket's place.
                        if let Some(Some(watched)) = shard.places.get_mut(place)
                            && Weak::ptr_eq(&watched.ticket, &ticket)
                        {
                            watched.due_us = us;
                        }
                    }
                    Renewed::Over => self.leave_if(
                        Entry {
                            shard: number,
                            place,
                        },
                        &ticket,
                    ),
                }
            }
        }
        if next_us != NEVER_US {
            self.look_at(engine, next_us);
        }
    }

    fn leave_if(&self, entry: Entry, ticket: &Weak<Held>) {
        let mut shard = self.shards[entry.shard].lock();
        if let Some(Some(watched)) = shard.places.get(entry.place)
            && Weak::ptr_eq(&watched.ticket, ticket)
        {
            shard.places[entry.place] = None;
            shard.free.push(entry.place);
        }
    }

    /// The store is closed: nothing is renewed any more, and all holders are told.
    pub(crate) fn dismiss(&self) {
        for shard in &self.shards {
            let Shard { places, .. } = std::mem::take(&mut *shard.lock());
            let tickets = places.into_iter().flatten();
            for held in tickets.filter_map(|watched| watched.ticket.upgrade()) {
                held.store_closed();
            }
        }
    }

    /// How many tickets are entered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().places.iter().flatten().count())
            .sum()
    }
}

/// When a lease of this length is to be renewed: at a third of it.
pub(crate) fn renewal_us(now_us: u64, lease_us: u64) -> u64 {
    now_us.saturating_add((lease_us / 3).max(1))
}

/// When a renewal that failed is to be tried again.
pub(crate) fn retry_us(now_us: u64, lease_us: u64) -> u64 {
    now_us.saturating_add((lease_us / RETRY_PART).clamp(1_000, 1_000_000))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Claim, Lease, Policy, Renew, Request, Store};

    /// A store whose leases are so short that the watchdog meets the tickets while they end.
    #[test]
    fn ten_thousand_claims_and_ends_leave_nothing_to_be_renewed() {
        let store = Store::open("memory:").expect("opens");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    let lost = || panic!("nobody takes it");
                    for n in 0..2_500 {
                        let request = Request::new("op", format!("{thread}-{n}"))
                            .lease(Duration::from_micros(if n % 2 == 0 {
                                3
                            } else {
                                3_000_000
                            }))
                            .in_doubt(Policy::Rerun)
                            .on_lost(move |_| lost());
                        let Claim::Execute(ticket) = store.claim(&request).expect("claims") else {
                            panic!("first")
                        };
                        match n % 5 {
                            0 => ticket.complete(&n).expect("completes"),
                            1 => ticket.release().expect("releases"),
                            2 => ticket.fail(crate::Failure::new("no", "")).expect("fails"),
                            3 => ticket.doubt("who knows").expect("doubts"),
                            _ => drop(ticket),
                        }
                    }
                });
            }
        });
        assert_eq!(store.0.watchdog().len(), 0);
        assert_eq!(store.stats().totals().lost_leases, 0);
    }

    #[test]
    fn what_is_not_to_be_renewed_is_not_entered() {
        let store = Store::open("memory:").expect("opens");
        let by_hand = store.claim(&Request::new("op", "by hand").renew(Renew::Off));
        let endless = store.claim(&Request::new("op", "endless").lease(Lease::Never));
        assert_eq!(store.0.watchdog().len(), 0);
        let renewed = store.claim(&Request::new("op", "renewed")).expect("claims");
        assert_eq!(store.0.watchdog().len(), 1);
        let Claim::Execute(ticket) = &renewed else {
            panic!("first")
        };
        let same = ticket.clone();
        drop(renewed);
        assert_eq!(store.0.watchdog().len(), 1);
        drop((same, by_hand, endless));
        assert_eq!(store.0.watchdog().len(), 0);
    }
}
