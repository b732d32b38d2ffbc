//! Any operations in any order, with openings, sweeps, evictions and the passing of time between, against a plain map.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::value::Failure;

const KEYS: usize = 5;
const START: Duration = Duration::from_secs(1_800_000_000);
const LEASE_US: u64 = 30_000_000;
const RETAIN_US: u64 = 60_000_000;

#[derive(Clone, Debug)]
enum Step {
    Claim(usize),
    Complete(usize, usize),
    Fail(usize),
    Release(usize),
    Renew(usize),
    Forget(usize),
    /// A row under each of the two keys' names, in one commit.
    Rows(usize, usize, usize),
    Pass(u64),
    Sweep,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    let length = || prop_oneof![0usize..200, 3_800usize..4_200, 20_000usize..40_000];
    prop_oneof![
        6 => key().prop_map(Step::Claim),
        4 => (key(), length()).prop_map(|(key, length)| Step::Complete(key, length)),
        1 => key().prop_map(Step::Fail),
        2 => key().prop_map(Step::Release),
        1 => key().prop_map(Step::Renew),
        1 => key().prop_map(Step::Forget),
        2 => (key(), key(), length()).prop_map(|(a, b, length)| Step::Rows(a, b, length)),
        2 => prop_oneof![1u64..5, 20u64..50, 60u64..200].prop_map(Step::Pass),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reopen),
    ]
}

/// What a key should hold.
#[derive(Clone, Debug)]
enum Kept {
    Running { until_us: u64 },
    Released { at_us: u64 },
    Done { at_us: u64, bytes: Option<Vec<u8>> },
}

#[derive(Clone, Debug)]
struct Entry {
    kept: Kept,
    fence: u64,
    attempt: u32,
}

impl Entry {
    fn forgotten_at_us(&self) -> u64 {
        RETAIN_US
            + match self.kept {
                Kept::Running { until_us } => until_us,
                Kept::Released { at_us } | Kept::Done { at_us, .. } => at_us,
            }
    }
}

struct World {
    place: Place,
    clock: Clock,
    local: Option<Local>,
    now_us: u64,
    /// Of each key, the last fence it was given, dead or alive.
    fences: HashMap<usize, u64>,
    model: HashMap<usize, Entry>,
    rows: HashMap<usize, Vec<u8>>,
}

impl World {
    fn new() -> Self {
        let (place, clock) = (Place::new(), Clock::manual(START));
        Self {
            local: None,
            now_us: START.as_micros() as u64,
            fences: HashMap::new(),
            model: HashMap::new(),
            rows: HashMap::new(),
            clock,
            place,
        }
    }

    fn local(&mut self) -> &Local {
        let options = Options {
            cache_bytes: 2048,
            ..eager()
        };
        self.local
            .get_or_insert_with(|| open_at(&self.place.path, options, self.clock.clone()))
    }

    fn told(&mut self, key: usize, verb: Verb) -> Answer {
        let told = tell(self.local(), &id(key), verb, Durability::Relaxed);
        told.expect("answers").answer
    }

    /// The record that counts now.
    fn alive(&self, key: usize) -> Option<Entry> {
        let entry = self.model.get(&key)?;
        (self.now_us < entry.forgotten_at_us()).then(|| entry.clone())
    }

    fn claim(&mut self, key: usize) {
        let terms = Terms {
            lease_us: LEASE_US,
            retain_us: RETAIN_US,
            ..terms()
        };
        let told = claim_with(self.local(), &id(key), terms, Durability::Relaxed);
        let told = told.expect("answers");
        let attempt = match self.alive(key) {
            Some(Entry {
                kept: Kept::Running { until_us },
                ..
            }) if self.now_us < until_us => {
                return assert!(matches!(told.answer, Answer::Busy { .. }), "{told:?}");
            }
            Some(Entry {
                kept: Kept::Done {
                    bytes: Some(bytes), ..
                },
                ..
            }) => {
                return assert!(
                    matches!(&told.answer, Answer::Replay(value) if value.as_bytes() == bytes),
                    "{told:?}"
                );
            }
            Some(Entry {
                kept: Kept::Done { bytes: None, .. },
                ..
            }) => {
                return assert!(matches!(told.answer, Answer::Failed(_)), "{told:?}");
            }
            Some(entry) => entry.attempt + 1,
            None => 1,
        };
        assert!(matches!(told.answer, Answer::Execute { .. }), "{told:?}");
        let record = told.record.expect("a record");
        assert_eq!(record.attempt, attempt);
        let fence = record.fence;
        assert!(
            self.fences
                .insert(key, fence)
                .is_none_or(|before| before < fence)
        );
        let kept = Kept::Running {
            until_us: self.now_us + LEASE_US,
        };
        self.model.insert(
            key,
            Entry {
                kept,
                fence,
                attempt,
            },
        );
    }

    /// An end of the attempt that the key had last, whether or not it still holds.
    fn end(&mut self, key: usize, verb: impl FnOnce(u64) -> Verb, kept: Kept) {
        let fence = self.fences.get(&key).copied().unwrap_or(1);
        let answer = self.told(key, verb(fence));
        match self.alive(key) {
            Some(entry) if entry.fence == fence && matches!(entry.kept, Kept::Running { .. }) => {
                assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
                self.model.insert(key, Entry { kept, ..entry });
            }
            _ => assert_eq!(answer, Answer::Lost),
        }
    }

    fn forget(&mut self, key: usize) {
        let answer = self.told(key, Verb::Forget { fence: 0 });
        match self.alive(key) {
            None => assert_eq!(answer, Answer::Absent),
            Some(Entry {
                kept: Kept::Running { until_us },
                ..
            }) if self.now_us < until_us => {
                assert!(matches!(answer, Answer::Busy { .. }));
            }
            Some(_) => {
                assert_eq!(answer, Answer::Done { late: false });
                self.model.remove(&key);
            }
        }
    }

    fn rows(&mut self, a: usize, b: usize, length: usize) {
        let mut names = vec![a, b];
        names.dedup();
        let keys: Vec<Key> = names
            .iter()
            .map(|name| key(&format!("row-{name}")))
            .collect();
        let before = read_rows(self.local(), &keys);
        for (name, found) in names.iter().zip(before) {
            assert_eq!(found.as_ref(), self.rows.get(name));
        }
        let bytes = |at: usize| vec![(names[at] + length) as u8; length];
        let told = write_rows(self.local(), &keys, bytes).expect("commits");
        assert!(matches!(told, Committed::Written(_)));
        for (at, name) in names.iter().enumerate() {
            self.rows.insert(*name, bytes(at));
        }
    }

    fn take(&mut self, step: Step) {
        let at_us = self.now_us;
        match step {
            Step::Claim(key) => self.claim(key),
            Step::Complete(key, length) => {
                let bytes = vec![length as u8; length];
                let value = Some(Value::bytes(bytes.clone()));
                let kept = Kept::Done {
                    at_us,
                    bytes: Some(bytes),
                };
                self.end(key, |fence| Verb::Complete { fence, value }, kept);
            }
            Step::Fail(key) => {
                let failure = Failure::new("no", "not today");
                let kept = Kept::Done { at_us, bytes: None };
                self.end(key, |fence| Verb::Fail { fence, failure }, kept);
            }
            Step::Release(key) => {
                let kept = Kept::Released { at_us };
                self.end(key, |fence| Verb::Release { fence }, kept);
            }
            Step::Renew(key) => {
                let kept = Kept::Running {
                    until_us: at_us + LEASE_US,
                };
                self.end(key, |fence| Verb::Renew { fence }, kept);
            }
            Step::Forget(key) => self.forget(key),
            Step::Rows(a, b, length) => self.rows(a, b, length),
            Step::Pass(seconds) => {
                self.clock.advance(Duration::from_secs(seconds));
                self.now_us += seconds * 1_000_000;
            }
            Step::Sweep => {
                self.local().barrier().wait().expect("on disk");
                self.model
                    .retain(|_, entry| entry.forgotten_at_us() > at_us);
                let stored = (self.model.len() + self.rows.len()) as u64;
                let local = self.local();
                // What cleaning moves while it is swept is met by the next sweep.
                let swept = (0..1_000).any(|_| {
                    local.sweep().expect("sweeps");
                    std::thread::yield_now();
                    local.facts().entries == stored
                });
                assert!(swept, "{} stored, not {stored}", local.facts().entries);
            }
            Step::Reopen => self.local = None,
        }
    }
}

fn id(key: usize) -> String {
    format!("k{key}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_a_plain_map_would(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.take(Step::Reopen);
        for key in 0..KEYS {
            world.claim(key);
        }
        assert_sound(world.local());
    }
}
