//! What one holds at a time: leased locks and locked rows.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use semel::{ErrorKind, Lock, LockGuard, Renew, Store};

use super::Plain;

const LEASE: Duration = Duration::from_secs(2);
const LEASE_US: u64 = 2_000_000;
/// For how long a lock that was left behind is still its last holder's, beyond its lease, if nobody else takes it.
const LEFT_BEHIND_US: u64 = 60_000_000;

#[derive(Default)]
pub(super) struct Locks {
    guards: Vec<Option<(u8, LockGuard)>>,
    /// The guard that has the lock, and the end of its lease.
    held: BTreeMap<u8, (usize, u64)>,
    last_fence: BTreeMap<u8, u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OfLocks {
    Acquire { name: u8 },
    Renew { guard: usize },
    Release { guard: usize },
    Drop { guard: usize },
}

impl Locks {
    /// The guard's lock, if it is this guard's.
    fn own(&mut self, guard: usize, name: u8, now_us: u64) -> Option<&mut (usize, u64)> {
        let held = self.held.get_mut(&name);
        held.filter(|(holder, until_us)| *holder == guard && now_us < *until_us + LEFT_BEHIND_US)
    }
}

impl Plain for Locks {
    type Op = OfLocks;

    fn op() -> BoxedStrategy<OfLocks> {
        let guard = prop_oneof![3 => Just(0_usize), 1 => 0..4_usize];
        prop_oneof![
            4 => (0..2_u8).prop_map(|name| OfLocks::Acquire { name }),
            1 => guard.clone().prop_map(|guard| OfLocks::Renew { guard }),
            1 => guard.clone().prop_map(|guard| OfLocks::Release { guard }),
            1 => guard.prop_map(|guard| OfLocks::Drop { guard }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfLocks) {
        let count = self.guards.len();
        let (guard, ends) = match *op {
            OfLocks::Acquire { name } => {
                let text = name.to_string();
                let request = store.lock(&text).lease(LEASE).renew(Renew::Off);
                let live = self
                    .held
                    .get(&name)
                    .filter(|(_, until_us)| now_us < *until_us);
                match (live, request.acquire().expect("answers")) {
                    (Some((_, until_us)), Lock::Busy(busy)) => {
                        let left = Duration::from_micros(until_us - now_us);
                        assert_eq!(busy.lease_remaining, Some(left));
                    }
                    (None, Lock::Held(guard)) => {
                        let last = self.last_fence.insert(name, guard.fence());
                        assert!(last.is_none_or(|last| last < guard.fence()));
                        self.held.insert(name, (count, now_us + LEASE_US));
                        self.guards.push(Some((name, guard)));
                    }
                    (live, given) => panic!("{live:?}: {given:?}"),
                }
                return;
            }
            _ if count == 0 => return,
            OfLocks::Renew { guard } => (count - 1 - guard % count, None),
            OfLocks::Release { guard } => (count - 1 - guard % count, Some(true)),
            OfLocks::Drop { guard } => (count - 1 - guard % count, Some(false)),
        };
        let Some((name, held)) = self.guards[guard].take() else {
            return;
        };
        let own = self.own(guard, name, now_us).is_some();
        let told = match ends {
            Some(false) => {
                drop(held);
                own
            }
            Some(true) => counts(held.release()),
            None => {
                let told = counts(held.renew());
                self.guards[guard] = Some((name, held));
                told
            }
        };
        assert_eq!(told, own);
        match (own, ends) {
            (true, None) => {
                if let Some(held) = self.own(guard, name, now_us) {
                    held.1 = now_us + LEASE_US;
                }
            }
            (true, Some(_)) => drop(self.held.remove(&name)),
            (false, _) => {}
        }
    }

    fn leave(&mut self) {
        // What is dropped is let go; what was not this guard's any more stays.
        let guards = std::mem::take(&mut self.guards);
        self.held.clear();
        drop(guards);
    }
}

fn counts(told: semel::Result<()>) -> bool {
    told.map_err(|error| assert_eq!(error.kind(), ErrorKind::Lost))
        .is_ok()
}

#[derive(Default)]
pub(super) struct LockedRows(BTreeMap<u8, i32>);

#[derive(Clone, Debug)]
pub(super) enum OfRows {
    Put {
        id: u8,
        value: i32,
    },
    /// Locks rows, sets or removes some, and commits or not.
    Change {
        ids: Vec<u8>,
        set: Vec<(u8, Option<i32>)>,
        commit: bool,
    },
}

impl Plain for LockedRows {
    type Op = OfRows;

    fn op() -> BoxedStrategy<OfRows> {
        let set = prop::collection::vec((0..3_u8, prop::option::of(any::<i32>())), 0..4);
        prop_oneof![
            1 => (0..3_u8, any::<i32>()).prop_map(|(id, value)| OfRows::Put { id, value }),
            3 => (prop::collection::vec(0..3_u8, 1..4), set, any::<bool>()).prop_map(|(ids, set, commit)| OfRows::Change { ids, set, commit }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, _: u64, op: &OfRows) {
        match op {
            OfRows::Put { id, value } => {
                let put = store.table("stock").put(&id.to_string(), value);
                assert!(put.is_ok());
                self.0.insert(*id, *value);
            }
            OfRows::Change { ids, set, commit } => {
                let texts: Vec<String> = ids.iter().map(u8::to_string).collect();
                let mut rows = store
                    .lock_rows("stock", &texts)
                    .lock::<i32>()
                    .expect("locks");
                let mut then = self.0.clone();
                for id in 0..3_u8 {
                    let text = id.to_string();
                    match ids.contains(&id) {
                        true => {
                            assert_eq!(rows.get(&text).expect("locked"), self.0.get(&id).copied())
                        }
                        false => assert!(rows.get(&text).is_err()),
                    }
                    // Another one is kept out of what is locked, and out of nothing else.
                    let put = std::thread::scope(|scope| {
                        let table = store.table("stock").timeout(Duration::ZERO);
                        let other = scope.spawn(move || table.put("1", &1).map_err(|e| e.kind()));
                        other.join().expect("no panic")
                    });
                    match ids.contains(&1) {
                        true => assert_eq!(put, Err(ErrorKind::Timeout)),
                        false => {
                            assert!(put.is_ok());
                            then.insert(1, 1);
                            self.0.insert(1, 1);
                        }
                    }
                }
                let nested = store.lock_rows("stock", &["9"]).lock::<i32>();
                assert_eq!(nested.expect_err("refused").kind(), ErrorKind::InvalidInput);
                for (id, value) in set {
                    let text = id.to_string();
                    let told = match value {
                        Some(value) => rows.set(&text, *value),
                        None => rows.remove(&text),
                    };
                    assert_eq!(told.is_ok(), ids.contains(id));
                    match value {
                        _ if told.is_err() => {}
                        Some(value) => drop(then.insert(*id, *value)),
                        None => drop(then.remove(id)),
                    }
                }
                match commit {
                    true => {
                        rows.commit().expect("commits");
                        self.0 = then;
                    }
                    false => drop(rows),
                }
            }
        }
        for id in 0..3_u8 {
            let row = store
                .table("stock")
                .get::<i32>(&id.to_string())
                .expect("reads");
            assert_eq!(row.map(|row| row.value), self.0.get(&id).copied());
        }
    }
}
