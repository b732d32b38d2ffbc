//! The memory of records that lie on disk, measured in a fresh process: growth from a store whose caches are full.

use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::Store;

use crate::child;
use crate::figures::{Ratio, mib};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::process;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, Semel};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

/// The job of the child.
pub const JOB: &str = "cold-memory";
const CACHE_BYTES: usize = 16 << 20;
/// Records that fill the caches and the queue's buffers before the first look.
const FIRST: u64 = 200_000;
const BYTES_PER_RECORD: f64 = 90.0;

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let (million, five) = scale.of((1_000_000, 5_000_000), (300_000, 600_000));
    let dir = ground.spot("cold");
    let (place, counts) = (
        dir.to_string_lossy(),
        [million, five].map(|count: u64| count.to_string()),
    );
    let filled = child::ask(JOB, &["fill", &place, &counts[0], &counts[1]])?;
    let opened = child::ask(JOB, &["open", &place, &counts[0], &counts[1]])?;
    let base = filled.figure("base")?;
    let crash = [Semel::crash_costs(Promise::Relaxed); 2];
    let mut section = Section::default();
    let mut line = |series: String, bytes: f64, beside: String| {
        let (semel, ratio) = (format!("{bytes:.1} bytes a record"), Ratio::once(bytes));
        section.lines.push(Line {
            series,
            semel,
            rival: beside,
            ratio,
            target: Target::AtMost(BYTES_PER_RECORD),
            crash,
        });
    };
    for (count, name) in [(million, "million"), (five, "five")] {
        let resident = filled.figure(name)?;
        let bytes = (resident - base) / (count - FIRST) as f64;
        line(
            format!("{count} records"),
            bytes,
            format!("memory {} to {}", mib(base), mib(resident)),
        );
    }
    let (before, after) = (opened.figure("before")?, opened.figure("after")?);
    let bytes = (after - before) / five as f64;
    line(
        format!("{five} records, opened again"),
        bytes,
        format!("memory {} to {}", mib(before), mib(after)),
    );
    section.notes.push(format!(
        "The ratio is bytes per record. Growth is counted from {FIRST} records on, when the caches ({} MiB) are full; opened \
         again: growth since before the opening, what is in the caches included.",
        CACHE_BYTES >> 20
    ));
    Ok(section)
}

/// The child: what to do, directory, a million, five.
pub fn work(arguments: &[String]) -> Outcome<()> {
    let [what, dir, million, five] = arguments else {
        return Err("what, directory, million, five".into());
    };
    let open = || -> Outcome<Store> {
        Ok(rivals::store(Path::new(dir), Promise::Relaxed)
            .cache_bytes(CACHE_BYTES)
            .open()?)
    };
    if what == "open" {
        child::tell("before", process::resident_bytes()?);
        let store = open()?;
        child::tell("after", settled()?);
        store.close()?;
        return Ok(());
    }
    let semel = Semel::over(open()?, Promise::Relaxed, Payload::None);
    let result = key::result();
    let mut from = 0;
    for (to, name) in [
        (FIRST, "base"),
        (million.parse()?, "million"),
        (five.parse()?, "five"),
    ] {
        for key in (from..to).map(Key::of) {
            semel.complete(&key, semel.claim(&key, Keep::Long)?, &result)?;
        }
        from = to;
        child::tell(name, settled()?);
    }
    semel.close()
}

/// The resident memory once everything is written.
fn settled() -> Outcome<f64> {
    thread::sleep(Duration::from_secs(1));
    process::resident_bytes()
}
