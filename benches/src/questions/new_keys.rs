//! Claims of new keys on a store whose records all lie on disk: the kernel counts the reads of the claiming thread.

use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::{Claim, Stopwatch};

use crate::figures::{Latencies, Ratio, Series, in_turns, time};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::process;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, Semel};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

/// So small that nearly every record is out of memory.
const CACHE_BYTES: usize = 8 << 20;
const CLAIMS: u64 = 5_000;

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let records = scale.of(1_000_000, 100_000);
    let full = Stocked::open(&ground.spot("full"), records)?;
    let empty = Stocked::open(&ground.spot("empty"), 0)?;
    let (mut read, mut claimed) = (0, 0);
    let (mut next_full, mut next_empty) = (records, 0);
    let mut series = [
        Series::new("full", || {
            let before = process::thread_reads()?;
            let p50 = full.claims(&mut next_full)?;
            // The second asking counts the first one's own reads.
            read += process::thread_reads()? - before - asking_reads()?;
            claimed += CLAIMS;
            Ok(p50)
        }),
        Series::new("empty", || empty.claims(&mut next_empty)),
    ];
    let figures = in_turns(scale.of(11, 3), &mut series)?;
    drop(series);
    let known = full.replays(records)?;
    full.semel.close()?;
    empty.semel.close()?;
    let crash = [Semel::crash_costs(Promise::Relaxed); 2];
    let share = Ratio::once(read as f64 / claimed as f64);
    let lines = vec![
        Line {
            series: format!("reads per claim of a new key, {records} records on disk"),
            semel: format!("{read} reads in {claimed} claims"),
            rival: format!("semel, repeats of known keys: {known:.2} reads each"),
            ratio: share,
            target: Target::AtMost(0.0),
            crash,
        },
        Line {
            series: format!("p50 of a claim of a new key, {records} records on disk"),
            semel: time(figures[0].median()),
            rival: format!("semel without records: {}", time(figures[1].median())),
            ratio: figures[0].ratio_to(&figures[1]),
            target: Target::Told,
            crash,
        },
    ];
    let note = format!(
        "Reads: read calls of the claiming thread as the kernel counts them. Cache: {} MiB.",
        CACHE_BYTES >> 20
    );
    Ok(Section {
        lines,
        notes: vec![note],
    })
}

/// What one asking for the count adds to the count.
fn asking_reads() -> Outcome<u64> {
    let before = process::thread_reads()?;
    Ok(process::thread_reads()? - before)
}

/// A store with records that are out of memory.
struct Stocked {
    store: semel::Store,
    semel: Semel,
}

impl Stocked {
    fn open(dir: &Path, records: u64) -> Outcome<Self> {
        let store = rivals::store(dir, Promise::Relaxed)
            .cache_bytes(CACHE_BYTES)
            .open()?;
        let semel = Semel::over(store.clone(), Promise::Relaxed, Payload::None);
        let result = key::result();
        for key in (0..records).map(Key::of) {
            semel.complete(&key, semel.claim(&key, Keep::Long)?, &result)?;
        }
        thread::sleep(Duration::from_millis(500));
        Ok(Self { store, semel })
    }

    /// The p50 of claims of new keys.
    fn claims(&self, next: &mut u64) -> Outcome<f64> {
        let (mut took, mut held) = (Latencies::default(), Vec::with_capacity(CLAIMS as usize));
        for key in (*next..*next + CLAIMS).map(Key::of) {
            let watch = Stopwatch::start();
            let ticket = self.semel.claim(&key, Keep::Long)?;
            took.push(watch.elapsed());
            held.push((key, ticket));
        }
        *next += CLAIMS;
        let result = key::result();
        for (key, ticket) in held {
            self.semel.complete(&key, ticket, &result)?;
        }
        Ok(took.quantile_ns(0.5))
    }

    /// The read calls of one repeat of a known key, to show that the count counts.
    fn replays(&self, records: u64) -> Outcome<f64> {
        let before = process::thread_reads()?;
        for at in key::shuffled(CLAIMS as usize, records as usize) {
            let key = Key::of(u64::from(at));
            let request = rivals::request(&key, Promise::Relaxed, Payload::None, Keep::Long)?;
            match self.store.claim(&request)? {
                Claim::Replay(_) => {}
                other => return Err(format!("a known key answered {}", other.name()).into()),
            }
        }
        Ok((process::thread_reads()? - before) as f64 / CLAIMS as f64)
    }
}
