//! A burst of 20,000 new keys from idle, claimed and completed, beside the two operations of a dashmap.

use std::thread;
use std::time::Duration;

use semel::Stopwatch;

use crate::figures::{Series, in_turns, time};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::report::{Line, Section, Target};
use crate::rivals::{ArcMap, MAP_CRASH_COSTS, Semel};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

const BURST: u64 = 20_000;
/// Long enough for a store to write all it holds and to fall asleep.
const IDLE: Duration = Duration::from_millis(200);

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let turns = scale.of(21, 5);
    let result = key::result();
    let map = ArcMap::default();
    let plain = Semel::open(&ground.spot("burst"), Promise::Relaxed, Payload::None)?;
    let with_payload = Semel::open(&ground.spot("burst"), Promise::Relaxed, Payload::Order)?;
    let (mut first, mut second, mut third) = (0, 0, 0);
    let mut series = [
        Series::new("no payload", || {
            burst(&mut first, |key| cycle(&plain, key, &result))
        }),
        Series::new("with payload", || {
            burst(&mut second, |key| cycle(&with_payload, key, &result))
        }),
        Series::new("map of text to Arc", || {
            burst(&mut third, |key| {
                map.insert(key);
                map.replace(key, &result);
                Ok(())
            })
        }),
    ];
    let names = series.each_ref().map(|series| series.name);
    let figures = in_turns(turns, &mut series)?;
    drop(series);
    plain.close()?;
    with_payload.close()?;
    let lines = [(0, Target::AtMost(3.0)), (1, Target::Told)].map(|(ours, target)| Line {
        series: format!("claim + complete, {}", names[ours]),
        semel: time(figures[ours].median()),
        rival: format!("{}: {}", names[2], time(figures[2].median())),
        ratio: figures[ours].ratio_to(&figures[2]),
        target,
        crash: [Semel::crash_costs(Promise::Relaxed), MAP_CRASH_COSTS],
    });
    let note = format!(
        "One thread, {turns} turns of {BURST} new keys, {} ms of idleness before each; per cycle of claim and complete, \
         insert and replace. The request is made for each call.",
        IDLE.as_millis()
    );
    Ok(Section {
        lines: lines.into(),
        notes: vec![note],
    })
}

/// Nanoseconds a cycle; `from` is the first number that has not been a key yet.
fn burst(from: &mut u64, mut cycle: impl FnMut(&Key) -> Outcome<()>) -> Outcome<f64> {
    let keys: Vec<Key> = (*from..*from + BURST).map(Key::of).collect();
    *from += BURST;
    thread::sleep(IDLE);
    let watch = Stopwatch::start();
    for key in &keys {
        cycle(key)?;
    }
    Ok(watch.elapsed().as_nanos() as f64 / BURST as f64)
}

fn cycle(semel: &Semel, key: &Key, result: &[u8]) -> Outcome<()> {
    semel.complete(key, semel.claim(key, Keep::Long)?, result)
}
