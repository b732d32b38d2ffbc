//! semel itself. Work that may safely repeat (`in_doubt = rerun`) is relaxed; everything else is synced.

use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::{Claim, Durability, ErrorKind, Policy, Request, Store, StoreBuilder, Ticket, Value};

use crate::key::{Key, OPERATION, Order};
use crate::outcome::Outcome;
use crate::subject::{Keep, Payload, Promise, Subject};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SHORT: Duration = Duration::from_secs(2);
/// How often a refused claim is tried again, and how long it waits in between.
const PATIENCE: (u32, Duration) = (20_000, Duration::from_millis(1));

/// A store in a directory, and how its claims are made.
pub struct Semel {
    store: Store,
    promise: Promise,
    payload: Payload,
}

/// The store that the questions measure; they may set more.
pub fn store(dir: &Path, promise: Promise) -> StoreBuilder {
    let builder = Store::builder(dir.to_string_lossy()).cache_bytes(super::CACHE_BYTES as usize);
    match promise {
        Promise::Relaxed => builder
            .durability(Durability::Relaxed)
            .in_doubt(Policy::Rerun),
        Promise::Synced => builder.durability(Durability::Sync),
    }
}

/// The request of a key.
pub fn request<'k>(
    key: &'k Key,
    promise: Promise,
    payload: Payload,
    keep: Keep,
) -> Outcome<Request<'k>> {
    let request = Request::new(OPERATION, key.text()).retain(match keep {
        Keep::Long => DAY,
        Keep::Short => SHORT,
    });
    let request = match promise {
        Promise::Relaxed => request
            .durability(Durability::Relaxed)
            .in_doubt(Policy::Rerun),
        Promise::Synced => request,
    };
    Ok(match payload {
        Payload::None => request,
        Payload::Order => request.payload(&Order::of(key))?,
    })
}

impl Semel {
    /// A subject over a store that the caller keeps as well.
    pub fn over(store: Store, promise: Promise, payload: Payload) -> Self {
        Self {
            store,
            promise,
            payload,
        }
    }
}

impl Subject for Semel {
    type Held = Ticket;

    const NAME: &'static str = "semel";

    fn open(dir: &Path, promise: Promise, payload: Payload) -> Outcome<Self> {
        Ok(Self::over(store(dir, promise).open()?, promise, payload))
    }

    fn claim(&self, key: &Key, keep: Keep) -> Outcome<Ticket> {
        let request = request(key, self.promise, self.payload, keep)?;
        for _ in 0..PATIENCE.0 {
            match self.store.claim(&request) {
                Ok(Claim::Execute(ticket)) => return Ok(ticket),
                Ok(other) => return Err(format!("a new key answered {}", other.name()).into()),
                Err(error) if error.kind() == ErrorKind::Unavailable => thread::sleep(PATIENCE.1),
                Err(error) => return Err(error.into()),
            }
        }
        Err("the store refused a claim for too long".into())
    }

    fn complete(&self, _key: &Key, held: Ticket, result: &[u8]) -> Outcome<()> {
        held.complete_value(Value::bytes(result))?;
        Ok(())
    }

    fn close(self) -> Outcome<()> {
        self.store.close()?;
        Ok(())
    }

    fn crash_costs(promise: Promise) -> &'static str {
        match promise {
            Promise::Relaxed => "the last 50 ms and the sync in progress; the rest is a prefix",
            Promise::Synced => "nothing acknowledged",
        }
    }
}
