//! Claims at a steady pace while a million expired records are swept, beside the same pace without a sweep.

use std::thread;
use std::time::Duration;

use semel::{Stopwatch, Store};

use crate::figures::{Figures, Latencies, time};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, Semel};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

const WINDOWS: usize = 5;
/// Claims per tick: 20,000 a second, which leaves the machine room for the sweep.
const PER_TICK: u64 = 20;
const TICK: Duration = Duration::from_millis(1);
/// Longer than the short retention.
const UNTIL_EXPIRED: Duration = Duration::from_millis(2_300);
/// A window has at least this many claims, so that its p99 is not one claim's luck.
const LEAST: usize = 2_000;

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let records = scale.of(1_000_000, 100_000);
    let store = rivals::store(&ground.spot("sweeping"), Promise::Relaxed)
        .sweep_by_hand()
        .open()?;
    let mut pace = Pace {
        semel: Semel::over(store.clone(), Promise::Relaxed, Payload::None),
        next: 0,
    };
    let (mut quiet, mut swept, mut lasted) =
        (Figures::default(), Figures::default(), Figures::default());
    for _ in 0..WINDOWS {
        pace.expire(records)?;
        let sweep = thread::spawn({
            let store = store.clone();
            move || timed_sweep(&store)
        });
        let mut during = pace.claims(|done| sweep.is_finished() && done >= LEAST)?;
        let (dropped, took) = sweep.join().map_err(|_| "the sweep panicked")??;
        if dropped < records {
            return Err(format!("the sweep dropped {dropped} of {records} records").into());
        }
        let count = during.len();
        let mut without = pace.claims(|done| done >= count)?;
        swept.push(during.quantile_ns(0.99));
        quiet.push(without.quantile_ns(0.99));
        lasted.push(took.as_nanos() as f64);
    }
    store.close()?;
    let line = Line {
        series: format!("p99 of a claim while {records} records are swept"),
        semel: time(swept.median()),
        rival: format!("semel without a sweep: {}", time(quiet.median())),
        ratio: swept.ratio_to(&quiet),
        target: Target::AtMost(3.0),
        crash: [Semel::crash_costs(Promise::Relaxed); 2],
    };
    let note = format!(
        "{WINDOWS} pairs of windows in turn, {} claims and completes a second; a sweep took {}.",
        PER_TICK * 1000,
        time(lasted.median())
    );
    Ok(Section {
        lines: vec![line],
        notes: vec![note],
    })
}

fn timed_sweep(store: &Store) -> Outcome<(u64, Duration)> {
    let watch = Stopwatch::start();
    let dropped = store.sweep()?;
    Ok((dropped, watch.elapsed()))
}

/// Claims and completes of new keys.
struct Pace {
    semel: Semel,
    next: u64,
}

impl Pace {
    fn cycle(&mut self, keep: Keep, took: &mut Latencies) -> Outcome<()> {
        let key = Key::of(self.next);
        self.next += 1;
        let watch = Stopwatch::start();
        let held = self.semel.claim(&key, keep)?;
        took.push(watch.elapsed());
        self.semel.complete(&key, held, &key::result())
    }

    /// Makes this many records that are expired when it returns.
    fn expire(&mut self, records: u64) -> Outcome<()> {
        let mut unused = Latencies::default();
        for _ in 0..records {
            self.cycle(Keep::Short, &mut unused)?;
        }
        thread::sleep(UNTIL_EXPIRED);
        Ok(())
    }

    /// Claims at the pace until `over` of their number.
    fn claims(&mut self, over: impl Fn(usize) -> bool) -> Outcome<Latencies> {
        let mut took = Latencies::default();
        while !over(took.len()) {
            let watch = Stopwatch::start();
            for _ in 0..PER_TICK {
                self.cycle(Keep::Long, &mut took)?;
            }
            thread::sleep(TICK.saturating_sub(watch.elapsed()));
        }
        Ok(took)
    }
}
