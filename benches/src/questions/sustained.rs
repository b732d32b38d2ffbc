//! Millions of relaxed cycles in a process of their own, 30 % of the records kept for a day and the others for two
//! seconds, so that cleaning copies and sweeping happen; the clock stops when the store is closed.

use std::collections::VecDeque;
use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::Stopwatch;

use crate::child::{self, Told};
use crate::figures::{Figures, mib, rate};
use crate::ground::{self, Ground};
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::process;
use crate::report::{Line, Section, Target};
use crate::rivals::{Fjall, Redb, Semel, Sled, Sqlite};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

/// The job of the child.
pub const JOB: &str = "sustained";
/// A late complete comes at least this long after its claim, so that both reach the log.
const LATE: Duration = Duration::from_millis(10);
/// Of ten records, this many are kept for a day.
const LONG_OF_TEN: u64 = 3;

/// Who takes part, with how many keys at full size, and what semel must reach beside them.
const FIELD: [Entrant; 6] = [
    Entrant {
        name: "semel",
        keys: 3_000_000,
        target: Target::Told,
    },
    Entrant {
        name: "semel+payload",
        keys: 3_000_000,
        target: Target::Told,
    },
    Entrant {
        name: "sqlite",
        keys: 600_000,
        target: Target::AtLeast(10.0),
    },
    Entrant {
        name: "redb",
        keys: 400_000,
        target: Target::AtLeast(4.0),
    },
    Entrant {
        name: "fjall",
        keys: 3_000_000,
        target: Target::AtLeast(1.5),
    },
    Entrant {
        name: "sled",
        keys: 1_000_000,
        target: Target::AtLeast(4.0),
    },
];

struct Entrant {
    name: &'static str,
    keys: u64,
    target: Target,
}

/// What one entrant did over the turns.
#[derive(Default)]
struct Run {
    rates: Figures,
    last: Option<Told>,
}

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let mut section = Section::default();
    for (series, late) in [("completed at once", "0"), ("completed 10 ms later", "1")] {
        let mut runs: [Run; FIELD.len()] = Default::default();
        for _ in 0..scale.of(3, 1) {
            for (entrant, run) in FIELD.iter().zip(&mut runs) {
                let dir = ground.spot(entrant.name);
                let keys = (entrant.keys / scale.of(1, 10)).to_string();
                let told = child::ask(JOB, &[entrant.name, &dir.to_string_lossy(), &keys, late])
                    .map_err(|e| format!("{}: {e}", entrant.name))?;
                ground::remove(&dir);
                eprintln!(
                    "  {series}: {}: {}",
                    entrant.name,
                    rate(told.figure("rate")?)
                );
                run.rates.push(told.figure("rate")?);
                run.last = Some(told);
            }
        }
        compare(&mut section, series, &runs)?;
    }
    section.notes.push(
        "One thread, each run in a process and a directory of its own; two commits per cycle for the rivals. semel sweeps and \
         cleans while it runs; the rivals keep everything. A rival whose rate falls with the keys has fewer of them, which is in its favour. \
         First and last: the rates of the first and the last third of \
         the keys; close: how long the store took to write the rest and to close, which the rate includes."
            .to_owned(),
    );
    Ok(section)
}

fn compare(section: &mut Section, series: &str, runs: &[Run; FIELD.len()]) -> Outcome<()> {
    let crash = |name| -> &'static str {
        match name {
            "sqlite" => Sqlite::crash_costs(Promise::Relaxed),
            "redb" => Redb::crash_costs(Promise::Relaxed),
            "fjall" => Fjall::crash_costs(Promise::Relaxed),
            "sled" => Sled::crash_costs(Promise::Relaxed),
            _ => Semel::crash_costs(Promise::Relaxed),
        }
    };
    let semel = &runs[0].rates;
    for (entrant, run) in FIELD.iter().zip(runs).skip(1) {
        section.lines.push(Line {
            series: series.to_owned(),
            semel: rate(semel.median()),
            rival: format!("{}: {}", title(entrant.name), rate(run.rates.median())),
            ratio: semel.ratio_to(&run.rates),
            target: entrant.target,
            crash: [crash("semel"), crash(entrant.name)],
        });
    }
    let mut note = format!("Last turn, {series}:\n\n");
    note += "| store | keys | first | last | close | memory | peak | disk |\n|---|---|---|---|---|---|---|---|\n";
    for (entrant, run) in FIELD.iter().zip(runs) {
        let told = run.last.as_ref().ok_or("no turn was run")?;
        let [first, last] = ["first", "last"].map(|third| told.figure(third));
        let [memory, peak, disk] = ["memory", "peak", "disk"].map(|name| told.figure(name));
        note += &format!(
            "| {} | {} | {} | {} | {:.2} s | {} | {} | {} |\n",
            title(entrant.name),
            told.figure("keys")?,
            rate(first?),
            rate(last?),
            told.figure("close")?,
            mib(memory?),
            mib(peak?),
            mib(disk?)
        );
    }
    section.notes.push(note);
    Ok(())
}

fn title(name: &str) -> &str {
    match name {
        "sqlite" => "SQLite WAL NORMAL",
        "redb" => "redb, Durability::None",
        "fjall" => Fjall::NAME,
        "sled" => Sled::NAME,
        "semel+payload" => "semel with payload",
        other => other,
    }
}

/// The child: name, directory, keys, late.
pub fn work(arguments: &[String]) -> Outcome<()> {
    let [name, dir, keys, late] = arguments else {
        return Err("name, directory, keys, late".into());
    };
    let (dir, keys) = (Path::new(dir), keys.parse()?);
    let late = if late == "1" { LATE } else { Duration::ZERO };
    match name.as_str() {
        "semel" => sustain::<Semel>(dir, keys, late, Payload::None),
        "semel+payload" => sustain::<Semel>(dir, keys, late, Payload::Order),
        "sqlite" => sustain::<Sqlite>(dir, keys, late, Payload::None),
        "redb" => sustain::<Redb>(dir, keys, late, Payload::None),
        "fjall" => sustain::<Fjall>(dir, keys, late, Payload::None),
        "sled" => sustain::<Sled>(dir, keys, late, Payload::None),
        other => Err(format!("nobody is called {other}").into()),
    }
}

fn sustain<S: Subject>(dir: &Path, keys: u64, late: Duration, payload: Payload) -> Outcome<()> {
    let subject = S::open(dir, Promise::Relaxed, payload)?;
    let result = key::result();
    let mut open: VecDeque<(Duration, Key, S::Held)> = VecDeque::new();
    let mut thirds = [Duration::ZERO; 3];
    let watch = Stopwatch::start();
    for number in 0..keys {
        let key = Key::of(number);
        let keep = if number % 10 < LONG_OF_TEN {
            Keep::Long
        } else {
            Keep::Short
        };
        let held = subject.claim(&key, keep)?;
        if late.is_zero() {
            subject.complete(&key, held, &result)?;
        } else {
            let now = watch.elapsed();
            open.push_back((now, key, held));
            while open
                .front()
                .is_some_and(|(claimed, ..)| now.saturating_sub(*claimed) >= late)
            {
                if let Some((_, key, held)) = open.pop_front() {
                    subject.complete(&key, held, &result)?;
                }
            }
        }
        if let Some(third) = (1..=3).find(|third| (number + 1) == keys * third / 3) {
            thirds[third as usize - 1] = watch.elapsed();
        }
    }
    while let Some((claimed, key, held)) = open.pop_front() {
        thread::sleep((claimed + late).saturating_sub(watch.elapsed()));
        subject.complete(&key, held, &result)?;
    }
    let (memory, disk) = (process::resident_bytes()?, process::disk_bytes(dir)?);
    let before_close = watch.elapsed();
    subject.close()?;
    let all = watch.elapsed();
    let third = keys as f64 / 3.0;
    child::tell("keys", keys as f64);
    child::tell("rate", keys as f64 / all.as_secs_f64());
    child::tell("first", third / thirds[0].as_secs_f64());
    child::tell("last", third / (thirds[2] - thirds[1]).as_secs_f64());
    child::tell("close", (all - before_close).as_secs_f64());
    child::tell("memory", memory);
    child::tell("peak", process::peak_bytes()?);
    child::tell("disk", disk.max(process::disk_bytes(dir)?));
    Ok(())
}
