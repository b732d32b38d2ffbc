//! What a life victim told about its keys, and whether a store that was found later agrees with it.

use std::collections::BTreeMap;

use semel::{Claim, Identity, Info, Store};
use semel_tests::victim::goods::{result_of, short_result_of};
use semel_tests::victim::life;

/// Where a key can stand, as far as a crash is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Absent,
    /// Running, or in doubt since.
    Open,
    Released,
    Succeeded,
    Failed,
}

impl Stand {
    fn of_state(state: &str) -> Self {
        match state {
            "released" => Self::Released,
            "succeeded" => Self::Succeeded,
            "failed" => Self::Failed,
            "absent" => Self::Absent,
            _ => Self::Open,
        }
    }

    fn after(verb: &str) -> Self {
        match verb {
            "complete" => Self::Succeeded,
            "fail" => Self::Failed,
            "release" => Self::Released,
            "forget" => Self::Absent,
            _ => Self::Open,
        }
    }
}

/// What is known of one key.
#[derive(Clone, Debug)]
struct Told {
    /// What was acknowledged, or found by a process that opened the store.
    known: Stand,
    /// What was asked for and not yet acknowledged.
    asked: Option<Stand>,
}

/// All that the marks say.
#[derive(Debug, Default)]
pub(super) struct Story {
    keys: BTreeMap<String, Told>,
    /// How many relaxed operations of a session are covered by a sync acknowledgement.
    covered: BTreeMap<String, usize>,
}

impl Story {
    pub(super) fn of(marks: &[String]) -> Self {
        let mut story = Self::default();
        let mut census: Option<BTreeMap<&str, Stand>> = None;
        for mark in marks {
            let words: Vec<&str> = mark.split(' ').collect();
            match words[..] {
                ["=", "census", "begins"] => census = Some(BTreeMap::new()),
                ["=", "census", "ends"] => story.settle(census.take().unwrap_or_default()),
                ["=", key, state] => {
                    census
                        .get_or_insert_default()
                        .insert(key, Stand::of_state(state));
                }
                [">", key, verb] => {
                    let absent = Told {
                        known: Stand::Absent,
                        asked: None,
                    };
                    story.keys.entry(key.into()).or_insert(absent).asked = Some(Stand::after(verb));
                }
                ["<", key, "covers", count] => {
                    let session = key.split('-').next().unwrap_or_default();
                    let count = count.parse().expect("a count");
                    story.covered.insert(session.into(), count);
                }
                ["<", key, verb] => {
                    let told = Told {
                        known: Stand::after(verb),
                        asked: None,
                    };
                    story.keys.insert(key.into(), told);
                }
                _ => panic!("a mark that nobody makes: {mark}"),
            }
        }
        story
    }

    /// A process has opened the store and has seen what there is: that stays.
    fn settle(&mut self, census: BTreeMap<&str, Stand>) {
        for (key, told) in &mut self.keys {
            let known = census.get(key.as_str()).copied().unwrap_or(Stand::Absent);
            *told = Told { known, asked: None };
        }
        for (key, known) in census {
            self.keys.insert(key.into(), Told { known, asked: None });
        }
    }

    /// Whether the store agrees; changes nothing in it.
    pub(super) fn compare(&self, store: &Store) -> Result<(), String> {
        let mut runs: BTreeMap<&str, Vec<(usize, Stand)>> = BTreeMap::new();
        for (key, told) in &self.keys {
            let found = look(store, key)?;
            let is_relaxed = key.contains("relaxed");
            let half_way = is_relaxed && told.asked.is_some() && found == Stand::Open;
            if found != told.known && Some(found) != told.asked && !half_way {
                return Err(format!("{key} is {found:?}, and was told as {told:?}"));
            }
            if let Some((session, index)) = key.split_once("-relaxed-") {
                let index = index.parse().expect("an index");
                runs.entry(session).or_default().push((index, found));
            }
        }
        runs.iter()
            .try_for_each(|(session, run)| self.check_prefix(session, run))
    }

    /// Relaxed work survives as a prefix of its order, and at least as far as a later sync operation was acknowledged.
    fn check_prefix(&self, session: &str, run: &[(usize, Stand)]) -> Result<(), String> {
        let mut run = run.to_vec();
        run.sort_by_key(|(index, _)| *index);
        let done = run
            .iter()
            .take_while(|(_, stand)| *stand == Stand::Succeeded)
            .count();
        let covered = self.covered.get(session).copied().unwrap_or(0);
        if done < covered {
            return Err(format!(
                "of session {session} {done} relaxed operations are there, and {covered} were covered"
            ));
        }
        match run
            .iter()
            .skip(done + 1)
            .find(|(_, stand)| *stand != Stand::Absent)
        {
            Some((index, _)) => Err(format!(
                "relaxed operation {index} of session {session} is there, and {done} is not"
            )),
            None => Ok(()),
        }
    }

    /// Claims everything once more: what was acknowledged must not run again.
    pub(super) fn claim_again(&self, store: &Store) -> Result<(), String> {
        for (key, told) in self.keys.iter().filter(|(key, _)| !key.contains("relaxed")) {
            let found = look(store, key)?;
            let twin = format!("{key}-twin");
            if life::has_twin(key) && !key.contains("after") {
                let request = life::request(&twin, key).map_err(|e| e.to_string())?;
                let answer = store.claim(&request).map_err(|e| format!("{twin}: {e}"))?;
                let fits = match &answer {
                    Claim::Twin(twin) => twin.first_id == *key && found != Stand::Absent,
                    Claim::Execute(_) => found == Stand::Absent,
                    _ => false,
                };
                if !fits {
                    return Err(format!(
                        "{key} is {found:?}, and its twin was answered {}",
                        answer.name()
                    ));
                }
                if found == Stand::Absent {
                    continue; // the twin is the first now
                }
            }
            let request = match key.contains("after") {
                true => semel::Request::new("life", key.as_str()),
                false => life::request(key, key).map_err(|e| e.to_string())?,
            };
            let claim = store.claim(&request).map_err(|e| format!("{key}: {e}"))?;
            let runs = matches!(claim, Claim::Execute(_));
            if runs != matches!(found, Stand::Absent | Stand::Released) {
                return Err(format!(
                    "{key} is {found:?} ({told:?}), and a claim was answered {}",
                    claim.name()
                ));
            }
        }
        Ok(())
    }
}

/// Where a key stands, and whether its result is the one that belongs to it.
fn look(store: &Store, key: &str) -> Result<Stand, String> {
    let operation = if key.contains("relaxed") {
        "relaxed"
    } else {
        "life"
    };
    let info = store
        .lookup(&Identity::new(operation, key))
        .map_err(|e| format!("{key}: {e}"))?;
    let Some(info) = info else {
        return Ok(Stand::Absent);
    };
    match has_its_own(&info) {
        true => Ok(Stand::of_state(info.state)),
        false => Err(format!("{key} has a result that is not its own")),
    }
}

fn has_its_own(info: &Info) -> bool {
    let expected = match info.operation.as_str() {
        "relaxed" => short_result_of(&info.id),
        _ => result_of(&info.id),
    };
    match info.state {
        "succeeded" => info.value.as_ref() == Some(&expected),
        "failed" => info
            .failure
            .as_ref()
            .is_some_and(|failure| failure.message == info.id),
        _ => true,
    }
}
