//! kill -9 at any moment, over and over: an append-only file outside of the store is the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use semel::{Claim, Identity, Info, Request, Resolution, Resolved, Store};
use semel_tests::scratch::{in_memory, on_disk, say};
use semel_tests::victim::effects::LEASE;
use semel_tests::victim::goods::{Dice, short_result_of};

use super::process::victim;

/// How many victims each of the two lanes kills.
const CYCLES: u64 = 156;
/// A kill comes at most so long after the start of the victim.
const LATEST_MS: u64 = 200;
/// One kill in so many comes while the store is being opened.
const IN_OPENING_ONE_IN: u64 = 4;
const OPENING_MS: u64 = 16;
/// The store is compared with the ledger after so many kills, too.
const JUDGED_EVERY: u64 = 26;
/// Different from run to run; set `SEMEL_KILL_SEED` to run one again.
const SEED_VARIABLE: &str = "SEMEL_KILL_SEED";

#[derive(Debug, Clone)]
struct Effect {
    attempt: u32,
    fence: u64,
    asked_us: u64,
    happened_us: u64,
}

/// What the victims wrote down outside of the store.
#[derive(Debug, Default)]
struct Ledger {
    claimed: BTreeMap<String, (u32, u64, u64)>,
    effects: BTreeMap<String, Vec<Effect>>,
    completed: BTreeSet<String>,
    relaxed: BTreeSet<String>,
    opened: usize,
}

impl Ledger {
    fn read(path: &Path) -> Result<Self, String> {
        let mut ledger = Self::default();
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| {
                word.parse::<u64>()
                    .map_err(|_| format!("not a number in {line:?}"))
            };
            match words[..] {
                ["opened", _] => ledger.opened += 1,
                ["claimed", key, attempt, fence, asked_us] => {
                    let claim = (number(attempt)? as u32, number(fence)?, number(asked_us)?);
                    ledger.claimed.insert(key.into(), claim);
                }
                ["effect", key, attempt, fence, now_us] => {
                    let effect = Effect {
                        attempt: number(attempt)? as u32,
                        fence: number(fence)?,
                        asked_us: ledger.claimed.get(key).map_or(0, |claim| claim.2),
                        happened_us: number(now_us)?,
                    };
                    ledger.add(key, effect)?;
                }
                ["completed", key] => drop(ledger.completed.insert(key.into())),
                ["relaxed", key] => drop(ledger.relaxed.insert(key.into())),
                _ => return Err(format!("the ledger says: {line}")),
            }
        }
        Ok(ledger)
    }

    /// Twice under hold never; under rerun only what is not known to be done, after the lease, with a higher fence.
    fn add(&mut self, key: &str, effect: Effect) -> Result<(), String> {
        let earlier = self.effects.entry(key.into()).or_default();
        if let Some(last) = earlier.last() {
            let after_lease = effect.happened_us >= last.asked_us + LEASE.as_micros() as u64;
            let is_takeover = effect.attempt > last.attempt && effect.fence > last.fence;
            if key.starts_with("hold")
                || self.completed.contains(key)
                || !after_lease
                || !is_takeover
            {
                return Err(format!(
                    "{key} took effect again: {last:?}, then {effect:?}"
                ));
            }
        }
        earlier.push(effect);
        Ok(())
    }

    /// Whether the store has all that was acknowledged.
    fn compare(&self, store: &Store) -> Result<(), String> {
        for key in &self.completed {
            let info = look(store, key)?;
            let kept = info.as_ref().and_then(|info| info.value.clone());
            if kept != Some(short_result_of(key)) {
                return Err(format!(
                    "{key} was completed, and is {:?}",
                    info.map(|info| info.state)
                ));
            }
        }
        for (key, (attempt, fence, _)) in &self.claimed {
            match look(store, key)? {
                Some(info) if (info.attempt, info.fence) >= (*attempt, *fence) => {}
                other => {
                    return Err(format!(
                        "{key} was claimed, and is {:?}",
                        other.map(|info| info.state)
                    ));
                }
            }
        }
        self.check_relaxed(store)
    }

    /// Relaxed work of a victim is there as a prefix.
    fn check_relaxed(&self, store: &Store) -> Result<(), String> {
        let mut ended: BTreeMap<&str, usize> = BTreeMap::new();
        let mut runs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for key in &self.relaxed {
            let (run, index) = key.rsplit_once('-').ok_or("a relaxed key")?;
            runs.entry(run)
                .or_default()
                .push(index.parse().map_err(|_| "an index")?);
        }
        for (run, mut indexes) in runs {
            indexes.sort_unstable();
            for index in indexes {
                let is_there = look(store, &format!("{run}-{index}"))?
                    .is_some_and(|info| info.state == "succeeded");
                match (is_there, ended.get(run)) {
                    (true, Some(end)) => {
                        return Err(format!("{run}-{index} is there, and {end} is not"));
                    }
                    (false, None) => drop(ended.insert(run, index)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn look(store: &Store, key: &str) -> Result<Option<Info>, String> {
    let operation = key.split('-').next().unwrap_or_default();
    store
        .lookup(&Identity::new(operation, key))
        .map_err(|e| format!("{key}: {e}"))
}

fn open(place: &str) -> Result<Store, String> {
    Store::open(place).map_err(|e| format!("does not open: {e}"))
}

fn lane(dir: &Path, seed: u64) -> Result<(), String> {
    let (store, ledger) = (dir.join("store"), dir.join("ledger"));
    let place = store.to_str().ok_or("a path of text")?;
    let mut dice = Dice(seed);
    for cycle in 0..CYCLES {
        let limit_ms = if dice.below(IN_OPENING_ONE_IN) == 0 {
            OPENING_MS
        } else {
            LATEST_MS
        };
        let moment = Duration::from_micros(dice.below(limit_ms * 1000));
        let mut command = victim(&[
            "effects",
            place,
            ledger.to_str().ok_or("a path of text")?,
            &cycle.to_string(),
        ]);
        let mut child = command
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|e| e.to_string())?;
        thread::sleep(moment);
        let ended = child.try_wait().map_err(|e| e.to_string())?;
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|e| e.to_string())?;
        if let Some(status) = ended {
            return Err(format!(
                "the victim of cycle {cycle} ended by itself: {status}"
            ));
        }
        if cycle % JUDGED_EVERY == JUDGED_EVERY - 1 {
            Ledger::read(&ledger)?
                .compare(&open(place)?)
                .map_err(|e| format!("after cycle {cycle}: {e}"))?;
        }
    }
    settle(place, &ledger)
}

/// When all are dead: what has an effect and no completion is in doubt, and is resolved by what the ledger knows.
fn settle(place: &str, ledger: &Path) -> Result<(), String> {
    let told = Ledger::read(ledger)?;
    let store = open(place)?;
    told.compare(&store)?;
    thread::sleep(LEASE + LEASE / 5);
    let unresolved: BTreeSet<String> = store
        .unresolved(usize::MAX)
        .map_err(|e| e.to_string())?
        .into_iter()
        .map(|info| info.id)
        .collect();
    let mut runs = told
        .effects
        .iter()
        .map(|(key, effects)| (key.as_str(), effects.len()))
        .collect::<BTreeMap<_, _>>();
    for key in told.claimed.keys().filter(|key| key.starts_with("hold")) {
        let info = look(&store, key)?.ok_or("a claimed key is absent")?;
        let is_open = info.state != "succeeded";
        if is_open != unresolved.contains(key) {
            return Err(format!(
                "{key} is {}, and listed as unresolved: {}",
                info.state, !is_open
            ));
        }
        if is_open {
            resolve(&store, key, told.effects.contains_key(key), &mut runs)?;
        }
        if runs.get(key.as_str()) != Some(&1) {
            return Err(format!(
                "{key} took effect {:?} times",
                runs.get(key.as_str())
            ));
        }
    }
    let open_hold = store.unresolved(usize::MAX).map_err(|e| e.to_string())?;
    // Claims that were on disk before their victims could write them down.
    let unknown = open_hold
        .iter()
        .filter(|info| told.claimed.contains_key(&info.id))
        .count();
    let problems = store.verify().map_err(|e| e.to_string())?.problems;
    say(&format!(
        "killed: {} of {CYCLES} victims had opened; {} claims, {} completed, {} resolved",
        told.opened,
        told.claimed.len(),
        told.completed.len(),
        unresolved.len()
    ));
    match (unknown, problems.first()) {
        (0, None) => Ok(()),
        (unknown, problem) => Err(format!("{unknown} still unresolved; {problem:?}")),
    }
}

fn resolve<'a>(
    store: &Store,
    key: &'a str,
    has_effect: bool,
    runs: &mut BTreeMap<&'a str, usize>,
) -> Result<(), String> {
    let resolution = match has_effect {
        true => Resolution::Value(short_result_of(key)),
        false => Resolution::Rerun,
    };
    match store.resolve(&Identity::new("hold", key), resolution) {
        Ok(Resolved::Resolved) => {}
        other => return Err(format!("{key} could not be resolved: {other:?}")),
    }
    let request = Request::new("hold", key);
    if let Claim::Execute(ticket) = store.claim(&request).map_err(|e| e.to_string())? {
        *runs.entry(key).or_default() += 1;
        ticket
            .complete_value(short_result_of(key))
            .map_err(|e| e.to_string())?;
    }
    match store.claim(&request) {
        Ok(Claim::Replay(replay)) if replay.value == short_result_of(key) => Ok(()),
        other => Err(format!(
            "{key} was resolved, and a claim was answered {other:?}"
        )),
    }
}

#[test]
fn no_kill_loses_or_doubles_what_was_acknowledged() {
    let fresh = u64::from(std::process::id()) ^ semel_tests::victim::effects::boot_us();
    let seed = std::env::var(SEED_VARIABLE)
        .map_or(fresh, |seed| seed.parse().expect("a seed is a number"));
    say(&format!("kills: {SEED_VARIABLE}={seed}"));
    let dirs = [in_memory(), on_disk()];
    let ends: Vec<Result<(), String>> = thread::scope(|scope| {
        let lanes: Vec<_> = (seed..)
            .zip(&dirs)
            .map(|(seed, dir)| scope.spawn(move || lane(dir.path(), seed)))
            .collect();
        lanes
            .into_iter()
            .map(|lane| lane.join().expect("a lane ends"))
            .collect()
    });
    if let Some((at, Err(what))) = ends.iter().enumerate().find(|(_, end)| end.is_err()) {
        let [memory, disk] = dirs.map(tempfile::TempDir::keep);
        panic!(
            "lane {at}, {SEED_VARIABLE}={seed}: {what}; kept in {} and {}",
            memory.display(),
            disk.display()
        );
    }
}
