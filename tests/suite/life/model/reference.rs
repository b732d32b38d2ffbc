//! What the contract says of one key, written down once more and as plainly as can be.

use semel::{Forgotten, Policy, Resolved};

/// The rules of one life, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) max_attempts: Option<u32>,
    pub(super) lease: u64,
    pub(super) retain: u64,
    pub(super) remember: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asked {
    Nobody,
    Done,
    NotDone,
    Still,
    Panics,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    Complete,
    Fail,
    Release,
    Doubt,
    Drop,
}

/// Where a key stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stand {
    /// An attempt runs until then.
    Running(u64),
    /// Somebody has said that nobody knows; since then.
    Doubtful(u64),
    Released(u64),
    Succeeded(u64),
    Failed(u64),
}

/// All that the contract says is remembered of a key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    stand: Stand,
    pub(super) attempt: u32,
    limit: Option<u32>,
    pub(super) policy: Policy,
    payload: Option<u8>,
    /// Whether an attempt of unknown effect went before and nobody has said what came of it.
    doubted: bool,
    /// Of the ticket of the present attempt.
    holder: usize,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now: u64,
    pub(super) key: Option<Key>,
    finished: Vec<bool>,
    pub(super) double_effects: u64,
}

impl Key {
    pub(super) fn used_up(&self) -> bool {
        self.limit.is_some_and(|limit| self.attempt >= limit)
    }

    pub(super) fn in_doubt(&self, now: u64) -> bool {
        match self.stand {
            Stand::Running(until) => now >= until,
            Stand::Doubtful(_) => true,
            Stand::Released(_) => self.used_up() && self.doubted,
            Stand::Succeeded(_) | Stand::Failed(_) => false,
        }
    }

    pub(super) fn forgotten(&self, now: u64, rules: Rules) -> bool {
        let may_rerun = self.policy == Policy::Rerun && !self.used_up();
        match self.stand {
            Stand::Succeeded(at) | Stand::Failed(at) => now >= at + rules.retain + rules.remember,
            Stand::Released(_) if self.used_up() && self.doubted => false,
            Stand::Released(at) => now >= at + rules.retain,
            Stand::Running(end) | Stand::Doubtful(end) => may_rerun && now >= end + rules.retain,
        }
    }
}

impl Model {
    pub(super) fn expire(&mut self, rules: Rules) {
        if self
            .key
            .as_ref()
            .is_some_and(|key| key.forgotten(self.now, rules))
        {
            self.key = None;
        }
    }

    /// Starts an attempt; the answer.
    pub(super) fn start(&mut self, mut key: Key, rules: Rules) -> String {
        key.attempt += 1;
        key.stand = Stand::Running(self.now + rules.lease);
        key.holder = self.finished.len();
        self.finished.push(false);
        let told = format!("execute {}", key.attempt);
        self.key = Some(key);
        told
    }

    pub(super) fn claim(
        &mut self,
        payload: Option<u8>,
        asked: Asked,
        policy: Policy,
        rules: Rules,
    ) -> String {
        let Some(mut key) = self.key.clone() else {
            let key = Key {
                stand: Stand::Released(0),
                attempt: 0,
                limit: rules.max_attempts,
                policy,
                payload,
                doubted: false,
                holder: 0,
            };
            return self.start(key, rules);
        };
        if key
            .payload
            .zip(payload)
            .is_some_and(|(kept, given)| kept != given)
        {
            return "mismatch".into();
        }
        if key.in_doubt(self.now) {
            return match (key.policy, asked) {
                (Policy::Rerun, _) if !key.used_up() => {
                    key.doubted = true;
                    self.start(key, rules)
                }
                (Policy::Ask, Asked::Done) => {
                    key.stand = Stand::Succeeded(self.now);
                    self.key = Some(key);
                    "replay".into()
                }
                (Policy::Ask, Asked::NotDone) if key.used_up() => {
                    key.doubted = false;
                    key.stand = Stand::Released(self.now);
                    self.key = Some(key);
                    "failed".into()
                }
                (Policy::Ask, Asked::NotDone) => {
                    key.doubted = false;
                    self.start(key, rules)
                }
                (Policy::Ask, Asked::Still | Asked::Panics) => {
                    if let Stand::Running(end) = key.stand {
                        key.stand = Stand::Doubtful(end);
                    }
                    if let Stand::Released(at) = key.stand {
                        key.stand = Stand::Doubtful(at);
                    }
                    self.key = Some(key);
                    "in_doubt".into()
                }
                _ => "in_doubt".into(),
            };
        }
        match key.stand {
            Stand::Running(_) => "busy".into(),
            Stand::Released(_) if key.used_up() => "failed".into(),
            Stand::Released(_) => self.start(key, rules),
            Stand::Succeeded(at) | Stand::Failed(at) if self.now >= at + rules.retain => {
                "gone".into()
            }
            Stand::Succeeded(_) => "replay".into(),
            Stand::Failed(_) => "failed".into(),
            Stand::Doubtful(_) => unreachable!("it is in doubt"),
        }
    }

    /// Whether the end counts.
    pub(super) fn end(&mut self, ticket: usize, end: End) -> bool {
        if std::mem::replace(&mut self.finished[ticket], true) {
            return false;
        }
        let now = self.now;
        let held = self.key.as_mut().filter(|key| {
            key.holder == ticket && matches!(key.stand, Stand::Running(_) | Stand::Doubtful(_))
        });
        let Some(key) = held else {
            self.double_effects += u64::from(end == End::Complete);
            return false;
        };
        if end == End::Complete && key.in_doubt(now) {
            self.double_effects += 1;
        }
        key.stand = match end {
            End::Complete => Stand::Succeeded(now),
            End::Fail => Stand::Failed(now),
            End::Release => Stand::Released(now),
            End::Doubt | End::Drop => Stand::Doubtful(now),
        };
        true
    }

    pub(super) fn renew(&mut self, ticket: usize, rules: Rules) -> bool {
        let until = self.now + rules.lease;
        match &mut self.key {
            Some(key) if key.holder == ticket && !self.finished[ticket] => match &mut key.stand {
                Stand::Running(end) => {
                    *end = until;
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    pub(super) fn resolve(&mut self, to: u8, stale: bool) -> Resolved {
        let now = self.now;
        match &mut self.key {
            None => Resolved::Absent,
            Some(key) if stale || !key.in_doubt(now) => Resolved::NotInDoubt,
            Some(key) => {
                match to {
                    0 | 1 => key.stand = Stand::Succeeded(now),
                    2 => key.stand = Stand::Failed(now),
                    _ => {
                        key.doubted = false;
                        if key.used_up() {
                            key.limit = Some(key.attempt + 1);
                        }
                        key.stand = Stand::Released(now);
                    }
                }
                Resolved::Resolved
            }
        }
    }

    pub(super) fn forget(&mut self) -> Forgotten {
        match &self.key {
            None => Forgotten::Absent,
            Some(Key {
                stand: Stand::Running(end),
                ..
            }) if self.now < *end => Forgotten::Busy,
            Some(_) => {
                self.key = None;
                Forgotten::Forgotten
            }
        }
    }

    pub(super) fn state(&self, rules: Rules) -> Option<&'static str> {
        let key = self.key.as_ref()?;
        Some(match key.stand {
            _ if key.in_doubt(self.now) => "in_doubt",
            Stand::Running(_) => "running",
            Stand::Released(_) => "released",
            Stand::Succeeded(at) | Stand::Failed(at) if self.now >= at + rules.retain => "gone",
            Stand::Succeeded(_) => "succeeded",
            Stand::Failed(_) => "failed",
            Stand::Doubtful(_) => "in_doubt",
        })
    }
}
