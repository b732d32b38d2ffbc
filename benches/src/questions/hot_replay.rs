//! Repeats of keys whose answer is in memory, beside a dashmap get: one key again and again, and 100,000 at random.

use std::hint::black_box;
use std::ops::Deref;
use std::thread;
use std::time::Duration;

use semel::{Claim, Request, Stopwatch, Store};

use crate::figures::{Figures, Series, in_turns, time};
use crate::ground::Ground;
use crate::key::{self, Key, OPERATION};
use crate::outcome::Outcome;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, ArcMap, ByteKeyMap, MAP_CRASH_COSTS, Pair, PairMap, Semel, VecMap};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

const KEYS: usize = 100_000;
const TURNS: usize = 15;
/// Room for all keys, with their payloads' fingerprints, in the half of the cache that holds records.
const CACHE_BYTES: usize = 512 << 20;

/// What is repeated.
struct Known {
    store: Store,
    plain: Vec<Key>,
    with_payload: Vec<Key>,
    arcs: ArcMap,
    vecs: VecMap,
    bytes: ByteKeyMap,
    pairs: PairMap,
}

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let known = Known::prepare(ground)?;
    let calls = scale.of(200_000, 40_000);
    let mut section = Section::default();
    known.measure(&mut section, "one key", &vec![7; calls])?;
    known.measure(
        &mut section,
        "100,000 keys at random",
        &key::shuffled(calls, KEYS),
    )?;
    known.store.close()?;
    section.notes.push(format!(
        "One thread, {TURNS} turns of {calls} calls, all records in memory. Built: the request is made for each call; reused: \
         it was made before. Each call reads its result and waits for the one before it. Maps use the standard hasher."
    ));
    Ok(section)
}

impl Known {
    fn prepare(ground: &Ground) -> Outcome<Self> {
        let builder = rivals::store(&ground.spot("hot"), Promise::Relaxed).cache_bytes(CACHE_BYTES);
        let known = Self {
            store: builder.open()?,
            plain: (0..KEYS as u64).map(Key::of).collect(),
            with_payload: (0..KEYS as u64).map(|n| Key::of(n + KEYS as u64)).collect(),
            arcs: ArcMap::default(),
            vecs: VecMap::default(),
            bytes: ByteKeyMap::default(),
            pairs: PairMap::default(),
        };
        let result = key::result();
        let semel = Semel::over(known.store.clone(), Promise::Relaxed, Payload::None);
        for key in &known.plain {
            semel.complete(key, semel.claim(key, Keep::Long)?, &result)?;
            known.arcs.insert(key);
            known.arcs.replace(key, &result);
            known.vecs.insert(key, &result);
            known.bytes.insert(key, &result);
            known.pairs.insert(pair(key), &result);
        }
        let semel = Semel::over(known.store.clone(), Promise::Relaxed, Payload::Order);
        for key in &known.with_payload {
            semel.complete(key, semel.claim(key, Keep::Long)?, &result)?;
        }
        // Let the last changes reach the disk, so that the store is idle.
        thread::sleep(Duration::from_millis(500));
        Ok(known)
    }

    fn measure(&self, section: &mut Section, what: &str, order: &[u32]) -> Outcome<()> {
        let reused = requests(&self.plain, Payload::None)?;
        let pairs: Vec<Pair> = self.plain.iter().map(pair).collect();
        let build = |key, payload| rivals::request(key, Promise::Relaxed, payload, Keep::Long);
        let mut series = [
            Series::new("reused", || {
                each(order, |at| replay(&self.store, &reused[at]))
            }),
            Series::new("built", || {
                each(order, |at| {
                    replay(&self.store, &build(&self.plain[at], Payload::None)?)
                })
            }),
            Series::new("with payload", || {
                each(order, |at| {
                    replay(&self.store, &build(&self.with_payload[at], Payload::Order)?)
                })
            }),
            Series::new("map of text to Arc", || {
                each(order, |at| found(self.arcs.get(&self.plain[at])))
            }),
            Series::new("map of text to Vec", || {
                each(order, |at| found(self.vecs.get(&self.plain[at])))
            }),
            Series::new("map of (operation, id) to Arc", || {
                each(order, |at| found(self.pairs.get(&pairs[at])))
            }),
            Series::new("map of [u8; 32] to Arc", || {
                each(order, |at| found(self.bytes.get(&self.plain[at])))
            }),
        ];
        let names = series.each_ref().map(|series| series.name);
        let figures = in_turns(TURNS, &mut series)?;
        let mut compare = |ours: usize, theirs: usize, target| {
            let line = line(
                format!("{what}, {}", names[ours]),
                &figures[ours],
                names[theirs],
                &figures[theirs],
                target,
            );
            section.lines.push(line);
        };
        compare(0, 3, Target::AtMost(2.0));
        compare(1, 3, Target::AtMost(2.0));
        compare(2, 3, Target::Told);
        compare(0, 4, Target::Told);
        compare(0, 5, Target::Told);
        compare(0, 6, Target::Told);
        Ok(())
    }
}

fn requests(keys: &[Key], payload: Payload) -> Outcome<Vec<Request<'_>>> {
    keys.iter()
        .map(|key| rivals::request(key, Promise::Relaxed, payload, Keep::Long))
        .collect()
}

fn pair(key: &Key) -> Pair {
    (OPERATION.to_owned(), key.text().to_owned())
}

/// The first byte of the kept result.
fn replay(store: &Store, request: &Request<'_>) -> Outcome<u8> {
    match store.claim(request)? {
        Claim::Replay(replay) => Ok(replay.value.as_bytes()[0]),
        other => Err(format!("a known key answered {}", other.name()).into()),
    }
}

fn found(value: Option<impl Deref<Target = [u8]>>) -> Outcome<u8> {
    Ok(value.ok_or("a known key is not in the map")?[0])
}

/// Nanoseconds a call. Every call waits for the result of the one before, as a caller does; otherwise the processor would
/// look several keys up at once.
fn each(order: &[u32], mut call: impl FnMut(usize) -> Outcome<u8>) -> Outcome<f64> {
    let nothing = black_box(0);
    let mut last = 0;
    let watch = Stopwatch::start();
    for at in order {
        last = call(*at as usize + usize::from(last & nothing))?;
    }
    black_box(last);
    Ok(watch.elapsed().as_nanos() as f64 / order.len() as f64)
}

fn line(series: String, ours: &Figures, rival: &str, theirs: &Figures, target: Target) -> Line {
    Line {
        series,
        semel: time(ours.median()),
        rival: format!("{rival}: {}", time(theirs.median())),
        ratio: ours.ratio_to(theirs),
        target,
        crash: [Semel::crash_costs(Promise::Relaxed), MAP_CRASH_COSTS],
    }
}
