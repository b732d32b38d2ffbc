//! Steps that are on disk when they are acknowledged: alone beside a raw append, and many threads beside SQLite FULL.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use semel::Stopwatch;

use crate::figures::{Figures, Latencies, Series, in_turns, rate, time};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::report::{Line, Section, Target};
use crate::rivals::{Fjall, RAW_LOG_CRASH_COSTS, RawLog, Redb, Semel, Sqlite};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

/// Bytes that a claim and a complete would take in a log of one's own.
const RAW_STEPS: [usize; 2] = [96, 96 + key::RESULT_BYTES];

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let mut section = Section::default();
    alone(ground, scale, &mut section)?;
    crowd(ground, scale, &mut section)?;
    Ok(section)
}

/// One thread: semel's step and each rival's step in turn, so that the disk is in the same mood for all.
fn alone(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let (blocks, cycles) = (5, scale.of(400, 60));
    let open = |name| ground.spot(name);
    let semel = Semel::open(&open("semel"), Promise::Synced, Payload::None)?;
    let with_payload = Semel::open(&open("semel"), Promise::Synced, Payload::Order)?;
    let sqlite = Sqlite::open(&open("sqlite"), Promise::Synced, Payload::None)?;
    let redb = Redb::open(&open("redb"), Promise::Synced, Payload::None)?;
    let fjall = Fjall::open(&open("fjall"), Promise::Synced, Payload::None)?;
    let mut raw = RawLog::create(&open("raw"))?;
    let result = key::result();
    let mut p50: [Figures; 6] = Default::default();
    for block in 0..blocks {
        let mut took: [Latencies; 6] = Default::default();
        for number in 0..cycles {
            let key = Key::of(block * cycles + number);
            for step in RAW_STEPS {
                timed(&mut took[0], || raw.append(&vec![b'x'; step]))?;
            }
            steps(&mut took[1], &semel, &key, &result)?;
            steps(&mut took[2], &with_payload, &key, &result)?;
            steps(&mut took[3], &sqlite, &key, &result)?;
            steps(&mut took[4], &redb, &key, &result)?;
            steps(&mut took[5], &fjall, &key, &result)?;
        }
        for (figures, latencies) in p50.iter_mut().zip(&mut took) {
            figures.push(latencies.quantile_ns(0.5));
        }
    }
    semel.close()?;
    with_payload.close()?;
    let ours = Semel::crash_costs(Promise::Synced);
    let raw = ("raw append + fdatasync", RAW_LOG_CRASH_COSTS);
    let lines = [
        ("one thread, p50 of a step", 1, 0, raw, Target::AtMost(2.5)),
        ("one thread, with payload", 2, 0, raw, Target::Told),
        (
            "one thread, p50 of a step",
            1,
            3,
            ("SQLite WAL FULL", Sqlite::crash_costs(Promise::Synced)),
            Target::Told,
        ),
        (
            "one thread, p50 of a step",
            1,
            4,
            ("redb, immediate", Redb::crash_costs(Promise::Synced)),
            Target::Told,
        ),
        (
            "one thread, p50 of a step",
            1,
            5,
            ("fjall, SyncData", Fjall::crash_costs(Promise::Synced)),
            Target::Told,
        ),
    ];
    for (series, semel, rival, (name, theirs), target) in lines {
        section.lines.push(Line {
            series: series.to_owned(),
            semel: time(p50[semel].median()),
            rival: format!("{name}: {}", time(p50[rival].median())),
            ratio: p50[semel].ratio_to(&p50[rival]),
            target,
            crash: [ours, theirs],
        });
    }
    section.notes.push(format!(
        "One thread: {blocks} blocks of {cycles} cycles of two steps; in each cycle every store takes its turn. The ratio \
         is the median over the blocks of the ratio of the p50s."
    ));
    Ok(())
}

fn timed(latencies: &mut Latencies, step: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    let watch = Stopwatch::start();
    step()?;
    latencies.push(watch.elapsed());
    Ok(())
}

fn steps<S: Subject>(
    latencies: &mut Latencies,
    subject: &S,
    key: &Key,
    result: &[u8],
) -> Outcome<()> {
    let mut held = None;
    timed(latencies, || {
        held = Some(subject.claim(key, Keep::Long)?);
        Ok(())
    })?;
    match held {
        Some(held) => timed(latencies, || subject.complete(key, held, result)),
        None => Ok(()),
    }
}

/// Many threads, as fast as each is answered.
fn crowd(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let (turns, window) = (
        scale.of(5, 3),
        scale.of(Duration::from_secs(3), Duration::from_millis(500)),
    );
    let open = |name| ground.spot(name);
    let semel = Crowd::<Semel>::open(&open("semel"))?;
    let sqlite = Crowd::<Sqlite>::open(&open("sqlite"))?;
    let redb = Crowd::<Redb>::open(&open("redb"))?;
    let fjall = Crowd::<Fjall>::open(&open("fjall"))?;
    let mut series = [
        Series::new("semel", || semel.press(64, window)),
        Series::new("semel, 256 threads", || semel.press(256, window)),
        Series::new("SQLite WAL FULL", || sqlite.press(64, window)),
        Series::new("redb, immediate", || redb.press(64, window)),
        Series::new("fjall, SyncData", || fjall.press(64, window)),
    ];
    let names = series.each_ref().map(|series| series.name);
    let figures = in_turns(turns, &mut series)?;
    drop(series);
    semel.subject.close()?;
    let ours = Semel::crash_costs(Promise::Synced);
    let lines = [
        (
            "64 threads",
            0,
            2,
            Sqlite::crash_costs(Promise::Synced),
            Target::AtLeast(8.0),
        ),
        (
            "64 threads",
            0,
            3,
            Redb::crash_costs(Promise::Synced),
            Target::Told,
        ),
        (
            "64 threads",
            0,
            4,
            Fjall::crash_costs(Promise::Synced),
            Target::Told,
        ),
        ("256 threads beside 64", 1, 0, ours, Target::AtLeast(0.9)),
    ];
    for (series, first, second, theirs, target) in lines {
        section.lines.push(Line {
            series: series.to_owned(),
            semel: rate(figures[first].median()),
            rival: format!("{}: {}", names[second], rate(figures[second].median())),
            ratio: figures[first].ratio_to(&figures[second]),
            target,
            crash: [ours, theirs],
        });
    }
    section.notes.push(format!(
        "Threads: cycles of claim and complete a second, {turns} turns of {} s. SQLite has one connection behind a lock.",
        window.as_secs_f64()
    ));
    Ok(())
}

/// A store under many threads; no key comes twice.
struct Crowd<S> {
    subject: S,
    next: AtomicU64,
}

impl<S: Subject> Crowd<S> {
    fn open(dir: &Path) -> Outcome<Self> {
        Ok(Self {
            subject: S::open(dir, Promise::Synced, Payload::None)?,
            next: AtomicU64::new(0),
        })
    }

    /// Cycles a second of this many threads.
    fn press(&self, threads: usize, window: Duration) -> Outcome<f64> {
        let (over, cycles, result) = (AtomicBool::new(false), AtomicU64::new(0), key::result());
        let watch = Stopwatch::start();
        let ends: Vec<Outcome<()>> = thread::scope(|scope| {
            let work = || -> Outcome<()> {
                while !over.load(Ordering::Relaxed) {
                    let key = Key::of(self.next.fetch_add(1, Ordering::Relaxed));
                    self.subject
                        .complete(&key, self.subject.claim(&key, Keep::Long)?, &result)?;
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            thread::sleep(window);
            over.store(true, Ordering::Relaxed);
            workers
                .into_iter()
                .map(|worker| worker.join().map_err(|_| "a thread panicked")?)
                .collect()
        });
        ends.into_iter().collect::<Outcome<()>>()?;
        Ok(cycles.into_inner() as f64 / watch.elapsed().as_secs_f64())
    }
}
