//! Many processes, random work, and the owner killed again and again: a file outside of the store is the judge.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use semel::{Claim, Identity, Request, Resolution, Resolved, Shared, Stopwatch, Store};
use semel_tests::scratch::say;
use semel_tests::victim::crowd::{LEASE, ROWS};
use semel_tests::victim::goods::short_result_of;

use super::{Place, signal};
use crate::crash::process::{Process, victim};

/// How many processes work at a time.
const MEMBERS: usize = 16;
/// How many owners are killed, unless `SEMEL_ATTACH_SECONDS` says how long to go on.
const OWNERS_KILLED: usize = 200;
/// How many workers one parent forks, and how many of them are killed while they own the store.
const WORKERS: usize = 4;
const WORKERS_KILLED: usize = 25;
/// For how long owners are killed, and how long each lives, for `scripts/soak.sh`.
const SECONDS_VARIABLE: &str = "SEMEL_ATTACH_SECONDS";
const LIFE_IN_A_SOAK: Duration = Duration::from_secs(2);
/// Longer than any owner takes to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The processes that work.
struct Crowd {
    store: String,
    ledger: PathBuf,
    members: BTreeMap<u32, (u64, Child)>,
    next: u64,
    killed: BTreeSet<u64>,
}

impl Crowd {
    fn join(&mut self) {
        let member = self.next;
        self.next += 1;
        let ledger = self.ledger.to_str().expect("a path of text");
        let mut command = victim(&["crowd", &self.store, ledger, &member.to_string()]);
        let child = command.stderr(Stdio::inherit()).spawn().expect("starts");
        self.members.insert(child.id(), (member, child));
    }

    /// Kills a member; whether it was one.
    fn kill(&mut self, pid: u32) -> bool {
        let Some((member, mut child)) = self.members.remove(&pid) else {
            return false;
        };
        let ended = child.try_wait().expect("can be asked");
        assert!(
            ended.is_none(),
            "member {member} ended by itself: {}",
            self.told()
        );
        signal(pid, libc::SIGKILL);
        child.wait().expect("ends");
        self.killed.insert(member);
        true
    }

    /// What went wrong, by the word of the members.
    fn told(&self) -> String {
        let text = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        let wrong = text.lines().filter(|line| line.starts_with("wrong"));
        wrong.collect::<Vec<_>>().join("; ")
    }
}

/// What the members wrote down outside of the store.
#[derive(Default)]
struct Ledger {
    /// Attempt and fence of each effect of a key, in their order.
    effects: BTreeMap<String, Vec<(u32, u64)>>,
    completed: BTreeSet<String>,
    /// How far each member has counted, and in which row.
    counted: BTreeMap<String, (u64, u64)>,
}

impl Ledger {
    fn read(path: &Path) -> Self {
        let mut ledger = Self::default();
        for line in std::fs::read_to_string(path).expect("is there").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().expect("a number");
            match words[..] {
                ["effect", key, attempt, fence, _] => {
                    let earlier = ledger.effects.entry(key.to_owned()).or_default();
                    earlier.push((number(attempt) as u32, number(fence)));
                }
                ["completed", key] => drop(ledger.completed.insert(key.to_owned())),
                ["counted", member, row, count] => {
                    ledger
                        .counted
                        .insert(member.to_owned(), (number(row), number(count)));
                }
                _ => panic!("the ledger says: {line}"),
            }
        }
        ledger
    }

    /// Under hold no effect twice; under rerun each with a higher fence.
    fn judge_effects(&self) {
        for (key, effects) in &self.effects {
            if key.starts_with("hold") {
                assert_eq!(
                    effects.len(),
                    1,
                    "{key} took effect more than once: {effects:?}"
                );
            }
            let mut sorted = effects.clone();
            sorted.sort_unstable_by_key(|(_, fence)| *fence);
            sorted.dedup();
            assert_eq!(
                sorted.len(),
                effects.len(),
                "{key}: one attempt twice: {effects:?}"
            );
        }
    }

    /// What was completed is there; what was begun and not completed is in doubt, and after a resolution there once.
    fn judge_store(&self, store: &Store) {
        for key in &self.completed {
            let operation = key.split('-').next().expect("a word");
            let info = store
                .lookup(&Identity::new(operation, &**key))
                .expect("looks");
            let kept = info.and_then(|info| info.value);
            assert_eq!(kept, Some(short_result_of(key)), "{key} was completed");
        }
        let doubtful = store.unresolved(usize::MAX).expect("lists");
        let doubtful: BTreeSet<String> = doubtful.into_iter().map(|info| info.id).collect();
        for key in self.effects.keys().filter(|key| key.starts_with("hold")) {
            let identity = Identity::new("hold", &**key);
            let info = store.lookup(&identity).expect("looks").expect("is known");
            let is_open = info.state != "succeeded";
            assert_eq!(is_open, doubtful.contains(key), "{key} is {}", info.state);
            if is_open {
                let resolved = store.resolve(&identity, Resolution::Value(short_result_of(key)));
                assert_eq!(resolved.expect("resolves"), Resolved::Resolved, "{key}");
            }
            let claim = store.claim(&Request::new("hold", &**key)).expect("claims");
            assert!(matches!(claim, Claim::Replay(_)), "{key}: {}", claim.name());
        }
    }

    /// Every commit that was acknowledged was made once; one that was cut off at most once.
    fn judge_counts(&self, store: &Store, cut_off: impl Fn(u64) -> bool) {
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for row in 0..ROWS {
            let table = store.table("counts");
            let counts = table
                .get::<BTreeMap<String, u64>>(&format!("row-{row}"))
                .expect("reads");
            found.extend(counts.map(|row| row.value).unwrap_or_default());
        }
        for (member, (_, told)) in &self.counted {
            let cut_off = u64::from(cut_off(member.parse().expect("a number")));
            let count = found.get(member).copied().unwrap_or(0);
            assert!(
                (*told..=told + cut_off).contains(&count),
                "member {member} counted to {told}, and the store has {count}"
            );
        }
    }
}

/// For how long owners are killed, when somebody says so.
fn soak() -> Option<Duration> {
    let text = std::env::var(SECONDS_VARIABLE).ok()?;
    Some(Duration::from_secs(text.parse().expect("seconds")))
}

/// Kills one owner after the other; how many, and how long the longest time was without one.
fn kill_owners(
    place: &Place,
    owners: usize,
    mut is_member: impl FnMut(u32) -> bool,
    mut kill: impl FnMut(u32, usize),
) -> (usize, Duration) {
    let working = Stopwatch::start();
    let (mut killed, mut longest, mut last) = (0, Duration::ZERO, 0);
    while match soak() {
        Some(time) => working.elapsed() < time,
        None => killed < owners,
    } {
        let waiting = Stopwatch::start();
        let owner = loop {
            match place.owner() {
                Some(owner) if owner != last && is_member(owner) => break owner,
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(waiting.elapsed() < PATIENCE, "nobody holds the store");
        };
        longest = longest.max(waiting.elapsed());
        std::thread::sleep(match soak() {
            Some(_) => LIFE_IN_A_SOAK,
            None => Duration::from_millis(10 + (killed as u64 * 7) % 60),
        });
        // An operator looks on meanwhile, at whoever holds the store now.
        if killed % 40 == 39 {
            let operator = Store::builder(&place.name).shared(Shared::Only).open();
            let operator = operator.expect("attaches");
            operator.unresolved(10).expect("lists");
            assert!(operator.list().take(50).all(|info| info.is_ok()));
        }
        kill(owner, killed);
        (killed, last) = (killed + 1, owner);
    }
    (killed, longest)
}

/// When all are dead: whether the ledger and the store agree.
fn judge(place: &Place, ledger: &Path, cut_off: impl Fn(u64) -> bool, killed: (usize, Duration)) {
    std::thread::sleep(LEASE + LEASE / 10);
    let ledger = Ledger::read(ledger);
    let store = Store::open(&place.name).expect("opens");
    ledger.judge_effects();
    ledger.judge_store(&store);
    ledger.judge_counts(&store, cut_off);
    assert!(store.verify().expect("verifies").problems.is_empty());
    say(&format!(
        "owners: {} killed; {} effects, {} completed, {} commits; the next owner took at most {:?}",
        killed.0,
        ledger.effects.len(),
        ledger.completed.len(),
        ledger.counted.values().map(|(_, count)| count).sum::<u64>(),
        killed.1,
    ));
}

#[test]
fn no_death_of_an_owner_loses_or_doubles_anything() {
    let place = Place::new();
    let crowd = RefCell::new(Crowd {
        store: place.name.clone(),
        ledger: place.dir.path().join("ledger"),
        members: BTreeMap::new(),
        next: 0,
        killed: BTreeSet::new(),
    });
    (0..MEMBERS).for_each(|_| crowd.borrow_mut().join());
    let killed = kill_owners(
        &place,
        OWNERS_KILLED,
        |pid| crowd.borrow().members.contains_key(&pid),
        |pid, _| {
            let mut crowd = crowd.borrow_mut();
            crowd.kill(pid);
            crowd.join();
            assert_eq!(crowd.told(), "");
        },
    );
    let mut crowd = crowd.into_inner();
    let pids: Vec<u32> = crowd.members.keys().copied().collect();
    for pid in pids {
        crowd.kill(pid);
    }
    judge(
        &place,
        &crowd.ledger,
        |member| crowd.killed.contains(&member),
        killed,
    );
}

#[test]
fn workers_forked_from_one_parent_lose_and_double_nothing() {
    let place = Place::new();
    let ledger = place.dir.path().join("ledger");
    let told = || std::fs::read_to_string(&ledger).unwrap_or_default();
    let text = ledger.to_str().expect("a path of text");
    let workers = WORKERS.to_string();
    let mut parent = Process::start(&mut victim(&["prefork", &place.name, text, &workers]));
    assert_eq!(parent.line(), "working");
    let killed = kill_owners(
        &place,
        WORKERS_KILLED,
        |_| true,
        |pid, _| {
            signal(pid, libc::SIGKILL);
            assert!(!told().contains("wrong"), "{}", told());
        },
    );
    signal(parent.id(), libc::SIGSTOP);
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let children = std::fs::read_to_string(children).expect("is told");
    for pid in children.split_whitespace() {
        signal(pid.parse().expect("a pid"), libc::SIGKILL);
    }
    drop(parent);
    judge(&place, &ledger, |_| true, killed);
}
