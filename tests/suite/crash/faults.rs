//! Every call that a store makes fails once, is cut short once, and hangs once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use semel::{Claim, Request, Store};
use semel_tests::recording::Call;
use semel_tests::scratch::{in_memory, say};
use semel_tests::shim::{Fault, Shim};
use semel_tests::victim::goods::short_result_of;
use semel_tests::victim::steps::{STEPS, long_result};

use super::process::{Process, victim};

/// The calls that are spoiled, and whether they can hang.
const CALLS: [(Call, bool); 9] = [
    (Call::Pwrite, true),
    (Call::Fdatasync, true),
    (Call::Fsync, true),
    (Call::SyncFileRange, true),
    (Call::Ftruncate, false),
    (Call::Open, false),
    (Call::Rename, false),
    (Call::Write, false),
    (Call::Unlink, false),
];
/// Beyond so many calls of a kind something is wrong.
const MOST_CALLS: u64 = 120;
/// How long the victims let the disk hang, in milliseconds: longer than a loaded machine needs for a batch.
const HANG_MS: &str = "400";
/// After a failed write sled sometimes waits for a wake-up that was lost: that is a hang, too.
const NO_HANG_MS: &str = "3000";

/// When the fault begins to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The making of a store.
    Creation,
    /// The opening of one that exists.
    Opening,
    /// The first call after it is open.
    Work,
}

/// What a victim said, and what has to be there for it.
#[derive(Debug, Default)]
struct Outcome {
    /// The last verb that was acknowledged, and the one that was asked for after it.
    known: BTreeMap<String, String>,
    asked: BTreeMap<String, String>,
}

impl Outcome {
    /// Goes through what a victim said: nothing acknowledged runs, and what failed says so.
    fn of(from: From, lines: &[String]) -> Result<Self, String> {
        let mut outcome = Self::default();
        if from != From::Creation {
            outcome.acknowledge("before-done", "complete");
            outcome.acknowledge("before-open", "claim");
        }
        for line in lines {
            if !outcome.take(line) {
                return Err(format!("said {line:?}"));
            }
        }
        match lines.last().map(String::as_str) {
            Some(last)
                if last == "closed"
                    || last.starts_with("close ")
                    || last.starts_with("refused ") =>
            {
                Ok(outcome)
            }
            last => Err(format!("ended with {last:?}")),
        }
    }

    fn take(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        match words[..] {
            ["ask", key, verb] => drop(self.asked.insert(key.into(), verb.into())),
            ["ok", key, verb] => self.acknowledge(key, verb),
            ["err", _, _, kind, ..] | ["refused", kind, ..] | ["close", kind, ..] => {
                return kind == "Unavailable";
            }
            // Whether it was claimed is not known: it stays asked for, beside what was asked before.
            ["again", key, "Unavailable", ..] => {
                self.asked.entry(key.into()).or_insert("claim".into());
            }
            ["again", key, answer] => {
                let is_fit = fits(self.known.get(key), self.asked.get(key), answer);
                self.acknowledge(
                    key,
                    if answer == "execute" {
                        "claim"
                    } else {
                        verb_of(answer)
                    },
                );
                return is_fit;
            }
            _ => {}
        }
        true
    }

    fn acknowledge(&mut self, key: &str, verb: &str) {
        self.asked.remove(key);
        self.known.insert(key.into(), verb.into());
    }

    /// What is there when the store is opened again and the disk is well.
    fn check_reopened(&self, place: &str) -> Result<(), String> {
        let store = Store::open(place).map_err(|e| format!("does not reopen: {e:?}"))?;
        for (key, _) in STEPS
            .iter()
            .copied()
            .chain([("before-done", ""), ("before-open", "")])
        {
            let claim = store
                .claim(&Request::new("step", key))
                .map_err(|e| format!("{key}: {e:?}"))?;
            if !fits(self.known.get(key), self.asked.get(key), claim.name()) {
                return Err(format!("reopened: {key} was answered {}", claim.name()));
            }
            if let Claim::Replay(replay) = &claim {
                let expected = if key == "s-long" {
                    long_result()
                } else {
                    short_result_of(key)
                };
                if replay.value != expected {
                    return Err(format!("{key} has another result"));
                }
            }
            std::mem::forget(claim);
        }
        let problems = store.verify().map_err(|e| e.to_string())?.problems;
        problems
            .first()
            .map_or(Ok(()), |problem| Err(problem.clone()))
    }
}

/// The verb that an answer shows to have been acknowledged.
fn verb_of(answer: &str) -> &'static str {
    match answer {
        "replay" => "complete",
        "failed" => "fail",
        _ => "claim",
    }
}

/// Whether an answer agrees with what was acknowledged, or with what was asked for after it.
fn fits(known: Option<&String>, asked: Option<&String>, answer: &str) -> bool {
    let answers = |verb: Option<&String>| match verb.map(String::as_str) {
        None | Some("forget" | "release") => answer == "execute",
        Some("complete" | "complete-long") => answer == "replay",
        Some("fail") => answer == "failed",
        _ => answer == "busy" || answer == "in_doubt",
    };
    answers(known) || (asked.is_some() && answers(asked))
}

/// Makes a store with something in it.
fn prepare(place: &str) {
    let store = Store::open(place).expect("opens");
    for key in ["before-done", "before-open"] {
        let Claim::Execute(ticket) = store.claim(&Request::new("step", key)).expect("claims")
        else {
            panic!("a new store");
        };
        if key == "before-done" {
            ticket
                .complete_value(short_result_of(key))
                .expect("completes");
        }
        std::mem::forget(ticket);
    }
    store.close().expect("closes");
}

/// One series of faults.
struct Series {
    from: From,
    kind: &'static str,
    timeout_ms: &'static str,
    /// How many victims there are at a time: those that hang need no processor.
    lanes: usize,
}

const FAILS: &str = "fails";
const HANGS: &str = "hangs";

impl Series {
    fn new(from: From, kind: &'static str) -> Self {
        Self {
            from,
            kind,
            timeout_ms: NO_HANG_MS,
            lanes: 2,
        }
    }

    /// Spoils the first call of each kind, then the second, and so on until there are no more.
    fn run(&self, calls: &[Call], make: impl Fn(Fault, u64) -> Fault + Sync) {
        let count = |call: &Call| (*call, self.spoil_each(*call, &make));
        let counts: Vec<(Call, u64)> = calls.iter().map(count).collect();
        say(&format!(
            "a call {} from {:?} on: {counts:?}",
            self.kind, self.from
        ));
    }

    fn spoil_each(&self, call: Call, make: &(impl Fn(Fault, u64) -> Fault + Sync)) -> u64 {
        let (next, end) = (AtomicU64::new(0), AtomicU64::new(MOST_CALLS));
        thread::scope(|scope| {
            for _ in 0..self.lanes {
                scope.spawn(|| {
                    loop {
                        let nth = next.fetch_add(1, SeqCst);
                        if nth >= end.load(SeqCst) {
                            return;
                        }
                        let home = in_memory();
                        let fault = make(Fault::on(call).after(nth), nth);
                        match self.spoil(home.path(), fault) {
                            None => drop(end.fetch_min(nth, SeqCst)),
                            Some(Ok(())) => {}
                            Some(Err(what)) => panic!(
                                "{call:?} {nth} {} from {:?} on: {what}",
                                self.kind, self.from
                            ),
                        }
                    }
                });
            }
        });
        let end = end.into_inner();
        assert!(
            end < MOST_CALLS,
            "{call:?} from {:?} on: more than {MOST_CALLS} calls",
            self.from
        );
        end
    }

    /// Runs the steps with one fault. `None` when there were fewer calls than that.
    fn spoil(&self, home: &Path, fault: Fault) -> Option<Result<(), String>> {
        let (root, side) = (home.join("root"), home.join("side"));
        std::fs::create_dir_all(&root).expect("a directory");
        let store = root.join("store");
        let place = store.to_str().expect("a path of text");
        if self.from != From::Creation {
            prepare(place);
        }
        let mut shim = Shim::new(&root, &side).expect("a shim");
        if self.from != From::Work {
            shim = shim.fault(fault.clone());
        }
        let mut command = victim(&["steps", place, self.timeout_ms]);
        shim.apply(&mut command);
        let mut process = Process::start(&mut command);
        let mut lines = vec![process.line()];
        if lines[0] == "open" {
            if self.from == From::Work {
                shim.set_faults(&[fault]).expect("faults");
            }
            process.send("go");
            lines.extend(process.rest());
        }
        // A process with a thread that hangs in the disk does not end by itself: that is what the kill is for.
        if self.kind == HANGS {
            process.kill();
        } else if !process.ended_well() {
            return Some(Err(format!("the victim failed after {lines:?}")));
        }
        if shim.recording().expect("a recording").faults() == 0 {
            return None;
        }
        let judged =
            Outcome::of(self.from, &lines).and_then(|outcome| outcome.check_reopened(place));
        Some(judged.map_err(|what| format!("{what}; it said {lines:#?}")))
    }
}

fn fail(fault: Fault, nth: u64) -> Fault {
    fault.errno(if nth.is_multiple_of(2) {
        libc::EIO
    } else {
        libc::ENOSPC
    })
}

fn all() -> Vec<Call> {
    CALLS.iter().map(|(call, _)| *call).collect()
}

#[test]
fn no_call_that_fails_while_a_store_is_made_keeps_it_from_being_made_later() {
    Series::new(From::Creation, FAILS).run(&all(), fail);
}

#[test]
fn no_call_that_fails_while_a_store_is_opened_loses_anything() {
    Series::new(From::Opening, FAILS).run(&all(), fail);
}

#[test]
fn no_call_that_fails_while_a_store_works_loses_anything() {
    Series::new(From::Work, FAILS).run(&all(), fail);
}

#[test]
fn a_disk_that_fails_from_some_call_on_loses_nothing() {
    let series = Series::new(From::Work, "fails for good");
    series.run(&[Call::Pwrite, Call::Fdatasync], |fault, nth| {
        fail(fault, nth).always()
    });
}

#[test]
fn no_short_write_loses_anything() {
    let series = Series::new(From::Work, "is short");
    series.run(&[Call::Pwrite], |fault, nth| match nth % 2 {
        0 => fault.short(),
        _ => fault.short().errno(libc::ENOSPC),
    });
}

#[test]
fn no_call_that_hangs_makes_anybody_wait_without_end() {
    let series = Series {
        from: From::Work,
        kind: HANGS,
        timeout_ms: HANG_MS,
        lanes: 8,
    };
    let hanging: Vec<Call> = CALLS
        .iter()
        .filter(|(_, hangs)| *hangs)
        .map(|(call, _)| *call)
        .collect();
    series.run(&hanging, |fault, _| fault.hang());
}
