//! Opening a store whose process was killed while it worked, beside sled's own opening and reading of the same log.

use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::Stopwatch;

use crate::child::{self, Running};
use crate::figures::{Series, in_turns, mib, time};
use crate::ground::{self, Ground};
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::process;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, CACHE_BYTES, Semel, Sled};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

/// The job that fills a store and works on until it is killed.
pub const FILL: &str = "opening-fill";
/// The job that opens the store.
pub const OPEN: &str = "opening-open";
/// The job that opens its log with sled and reads all of it.
pub const SCAN: &str = "opening-scan";
/// Where a store keeps its sled.
const LOG: &str = "log";
/// The killed process ends by itself after so long, should its parent have been killed before.
const LIFETIME: Duration = Duration::from_secs(120);

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let records = scale.of(1_000_000, 100_000);
    let crashed = ground.spot("crashed");
    let mut victim = Running::start(FILL, &[&crashed.to_string_lossy(), &records.to_string()])?;
    victim.ready()?;
    thread::sleep(Duration::from_millis(300));
    victim.kill()?;
    // Opening changes what is on disk, so each opening gets a copy.
    let on_copy = |job, part: &str| -> Outcome<f64> {
        let copy = ground.spot("copy");
        ground::copy(&crashed.join(part), &copy)?;
        let told = child::ask(job, &[&copy.to_string_lossy(), &records.to_string()])?;
        ground::remove(&copy);
        Ok(told.figure("seconds")? * 1e9)
    };
    let mut series = [
        Series::new("semel", || on_copy(OPEN, "")),
        Series::new("sled, opened and read", || on_copy(SCAN, LOG)),
    ];
    let turns = scale.of(5, 3);
    let figures = in_turns(turns, &mut series)?;
    let line = Line {
        series: format!("open after kill -9, {records} records"),
        semel: time(figures[0].median()),
        rival: format!("{}: {}", series[1].name, time(figures[1].median())),
        ratio: figures[0].ratio_to(&figures[1]),
        target: Target::AtMost(3.0),
        crash: [
            Semel::crash_costs(Promise::Relaxed),
            Sled::crash_costs(Promise::Relaxed),
        ],
    };
    let disk = mib(process::disk_bytes(&crashed)?);
    let note =
        format!("{turns} turns on copies of one directory of {disk}, in a fresh process each.");
    Ok(Section {
        lines: vec![line],
        notes: vec![note],
    })
}

/// The child that is killed: directory, records.
pub fn fill(arguments: &[String]) -> Outcome<()> {
    let [dir, records] = arguments else {
        return Err("directory, records".into());
    };
    let semel = Semel::open(Path::new(dir), Promise::Relaxed, Payload::None)?;
    let (records, result) = (records.parse()?, key::result());
    let cycle = |number| -> Outcome<()> {
        let key = Key::of(number);
        semel.complete(&key, semel.claim(&key, Keep::Long)?, &result)
    };
    (0..records).try_for_each(cycle)?;
    thread::sleep(Duration::from_millis(500));
    println!("{}", child::READY);
    let watch = Stopwatch::start();
    for number in records.. {
        cycle(number)?;
        thread::sleep(Duration::from_micros(100));
        if watch.elapsed() > LIFETIME {
            break;
        }
    }
    Err("nobody killed this process".into())
}

/// The child that opens the store: directory, records.
pub fn open(arguments: &[String]) -> Outcome<()> {
    let [dir, records] = arguments else {
        return Err("directory, records".into());
    };
    let watch = Stopwatch::start();
    let store = rivals::store(Path::new(dir), Promise::Relaxed).open()?;
    child::tell("seconds", watch.elapsed().as_secs_f64());
    if store.len() < records.parse()? {
        return Err(format!("{} of {records} records came back", store.len()).into());
    }
    store.close()?;
    Ok(())
}

/// The child that opens the log with sled: directory, records.
pub fn scan(arguments: &[String]) -> Outcome<()> {
    let [dir, _] = arguments else {
        return Err("directory, records".into());
    };
    let watch = Stopwatch::start();
    let log = sled::Config::new()
        .path(dir)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None)
        .open()?;
    let mut bytes = 0;
    for name in log.tree_names() {
        for entry in &log.open_tree(name)? {
            let (key, value) = entry?;
            bytes += key.len() + value.len();
        }
    }
    child::tell("seconds", watch.elapsed().as_secs_f64());
    child::tell("bytes", bytes as f64);
    Ok(())
}
