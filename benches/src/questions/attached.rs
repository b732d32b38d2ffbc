//! A store that another process holds: repeats and cycles over its socket, beside a bare echo over a socket; and what sharing
//! costs the owner's own calls while nobody is attached.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use semel::{Claim, Shared, Stopwatch, Store};

use crate::child::{READY, Running, ask, tell};
use crate::figures::{Figures, Latencies, Ratio, Series, in_turns, rate, time};
use crate::ground::Ground;
use crate::key::{self, Key};
use crate::outcome::Outcome;
use crate::process::Placed;
use crate::report::{Line, Section, Target};
use crate::rivals::{self, Redis, RedisServer, Semel};
use crate::scale::Scale;
use crate::subject::{Keep, Payload, Promise, Subject};

/// The job that holds a store until it is killed.
pub const HOLD: &str = "attached-hold";
/// The job that echoes what it gets over a socket until it is killed.
pub const ECHO: &str = "attached-echo";
/// The jobs that work at a store, and at a Redis, for a while.
pub const WORK: &str = "attached-work";
pub const SYNCED_WORK: &str = "attached-synced-work";
pub const REDIS_WORK: &str = "attached-redis-work";
const TURNS: usize = 15;
/// About as long as a question, and as an answer.
const ECHO_BYTES: usize = 200;
/// How often processes work together, one turn to warm up not counted.
const ROUNDS: usize = 3;
/// How many processes work together.
const TOGETHER: usize = 4;
/// A killed process ends by itself after so long, should its parent have been killed before.
const LIFETIME: Duration = Duration::from_secs(300);
const CRASH: [&str; 2] = [
    "the last 50 ms and the sync in progress; the rest is a prefix",
    "nothing is kept",
];

/// Measures.
pub fn answer(ground: &Ground, scale: Scale) -> Outcome<Section> {
    let mut section = Section::default();
    over_a_socket(ground, scale, &mut section)?;
    by_itself(ground, scale, &mut section)?;
    together(ground, scale, &mut section)?;
    takeover(ground, scale, &mut section)?;
    Ok(section)
}

fn over_a_socket(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let calls = scale.of(5_000, 1_000);
    // Where the system puts them decides more than what they do: a switch to another processor costs several within one.
    let _placed = Placed::on(1)?;
    let (place, echo_at) = (ground.spot("held"), ground.spot("echo"));
    let mut holder = Running::start(HOLD, &[&place.to_string_lossy()])?;
    holder.ready()?;
    let mut echo = Running::start(ECHO, &[&echo_at.to_string_lossy()])?;
    echo.ready()?;
    let store = rivals::store(&place, Promise::Relaxed)
        .shared(Shared::Only)
        .open()?;
    let known = Key::of(u64::MAX);
    let semel = Semel::over(store.clone(), Promise::Relaxed, Payload::None);
    semel.complete(&known, semel.claim(&known, Keep::Long)?, &key::result())?;
    let line = UnixStream::connect(&echo_at)?;
    let (mut numbers, result) = (0u64.., key::result());
    let mut series = [
        Series::new("echo", || p50(calls, || bounce(&line))),
        Series::new("replay", || p50(calls, || replay(&store, &known))),
        Series::new("claim + complete", || {
            p50(calls, || {
                let key = Key::of(numbers.next().unwrap_or(0));
                semel.complete(&key, semel.claim(&key, Keep::Long)?, &result)
            })
        }),
    ];
    let figures = in_turns(TURNS, &mut series)?;
    drop(series);
    for (at, what, limit) in [
        (1, "attached: replay", 2.0),
        (2, "attached: claim + complete", 4.5),
    ] {
        section.lines.push(Line {
            series: format!("{what}, p50"),
            semel: time(figures[at].median()),
            rival: format!("echo over a Unix socket: {}", time(figures[0].median())),
            ratio: figures[at].ratio_to(&figures[0]),
            target: Target::AtMost(limit),
            crash: CRASH,
        });
    }
    section.notes.push(format!(
        "One thread, {TURNS} turns of {calls} calls. The owner and the echo ({ECHO_BYTES} bytes each way) are processes of their own, with one thread for the connection, all of them on one processor: where the system spreads one pair over two and not the other, a wake-up across them costs more than either call. Work that may safely repeat, relaxed."
    ));
    Ok(())
}

/// The owner's own calls, at a store that may be shared and at one that may not, with nobody else there.
fn by_itself(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let calls = scale.of(100_000, 20_000);
    let open = |name: &str, shared| -> Outcome<Store> {
        Ok(rivals::store(&ground.spot(name), Promise::Relaxed)
            .shared(shared)
            .open()?)
    };
    let stores = [open("shared", Shared::Auto)?, open("alone", Shared::Never)?];
    let known = Key::of(u64::MAX);
    let semels = stores
        .each_ref()
        .map(|store| Semel::over(store.clone(), Promise::Relaxed, Payload::None));
    for semel in &semels {
        semel.complete(&known, semel.claim(&known, Keep::Long)?, &key::result())?;
    }
    thread::sleep(Duration::from_millis(500));
    let replays = |store: &Store| each(calls, || replay(store, &known));
    let (mut numbers, result) = (0u64.., key::result());
    let mut cycles = |semel: &Semel| {
        each(calls / 10, || {
            let key = Key::of(numbers.next().unwrap_or(0));
            semel.complete(&key, semel.claim(&key, Keep::Short)?, &result)
        })
    };
    let (mut of_replays, mut of_cycles) = (
        [Figures::default(), Figures::default()],
        [Figures::default(), Figures::default()],
    );
    for turn in 0..=TURNS {
        for at in [0, 1] {
            let (replay, cycle) = (replays(&stores[at])?, cycles(&semels[at])?);
            if turn > 0 {
                of_replays[at].push(replay);
                of_cycles[at].push(cycle);
            }
        }
    }
    for (what, [shared, alone]) in [("replay", of_replays), ("claim + complete", of_cycles)] {
        section.lines.push(Line {
            series: format!("owner, nobody attached: {what}"),
            semel: time(shared.median()),
            rival: format!("shared = never: {}", time(alone.median())),
            ratio: shared.ratio_to(&alone),
            target: Target::AtMost(1.1),
            crash: [CRASH[0], CRASH[0]],
        });
    }
    Ok(())
}

/// Several processes together, at one store and at one Redis.
fn together(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let seconds = scale.of(3, 1).to_string();
    let place = ground.spot("together");
    let mut holder = Running::start(HOLD, &[&place.to_string_lossy()])?;
    holder.ready()?;
    let redis = [
        RedisServer::start(&ground.spot("redis"), "always")?,
        RedisServer::start(&ground.spot("redis"), "everysec")?,
    ];
    let [Some(always), Some(everysec)] = &redis else {
        let per_s = all_at(WORK, &place, 0, &seconds)?;
        section.notes.push(format!(
            "{TOGETHER} attached processes together, claim + complete relaxed: {}. Redis is not measured: there is no redis-server.",
            rate(per_s)
        ));
        return Ok(());
    };
    let mut round = 0;
    let mut figures = [(); 4].map(|()| Figures::default());
    for turn in 0..=ROUNDS {
        let at = [
            (WORK, &*place),
            (SYNCED_WORK, &*place),
            (REDIS_WORK, always.socket()),
            (REDIS_WORK, everysec.socket()),
        ];
        for ((job, place), figures) in at.into_iter().zip(&mut figures) {
            round += 1;
            let per_s = all_at(job, place, round, &seconds)?;
            if turn > 0 {
                figures.push(per_s);
            }
        }
    }
    let [relaxed, synced, always, everysec] = &figures;
    const NOTHING: &str = "nothing acknowledged";
    let races = [
        (
            "synced",
            synced,
            NOTHING,
            "always",
            always,
            Target::AtLeast(2.0),
        ),
        (
            "relaxed",
            relaxed,
            CRASH[0],
            "everysec",
            everysec,
            Target::Told,
        ),
        ("relaxed", relaxed, CRASH[0], "always", always, Target::Told),
    ];
    for (how, ours, cost, appendfsync, theirs, target) in races {
        let costs = match appendfsync {
            "always" => NOTHING,
            _ => "the last second, or two",
        };
        section.lines.push(Line {
            series: format!("{TOGETHER} attached processes together: claim + complete, {how}"),
            semel: rate(ours.median()),
            rival: format!(
                "Redis over its Unix socket, appendfsync {appendfsync}: {}",
                rate(theirs.median())
            ),
            ratio: ours.ratio_to(theirs),
            target,
            crash: [cost, costs],
        });
    }
    section.notes.push(
        "Synced beside `always` is the race with one promise. Redis knows none like relaxed: what that may lose is the last 50 ms and the sync in progress, less than with everysec, and more than with always.".to_owned(),
    );
    Ok(())
}

/// Cycles a second of all processes together that do a job at a place.
fn all_at(job: &str, place: &Path, round: usize, seconds: &str) -> Outcome<f64> {
    let place = place.to_string_lossy();
    let told: Vec<Outcome<f64>> = thread::scope(|scope| {
        let start = |at: usize| {
            let (place, number) = (&*place, round * TOGETHER + at);
            scope.spawn(move || ask(job, &[place, &number.to_string(), seconds])?.figure("per_s"))
        };
        let working: Vec<_> = (0..TOGETHER).map(start).collect();
        let ended = working.into_iter().map(|worker| worker.join());
        ended
            .map(|told| told.unwrap_or_else(|_| Err("a worker panicked".into())))
            .collect()
    });
    told.into_iter().sum()
}

/// How long a caller waits whose owner is killed, at a store with many records.
fn takeover(ground: &Ground, scale: Scale, section: &mut Section) -> Outcome<()> {
    let records = scale.of(1_000_000, 100_000);
    let place = ground.spot("taken");
    let mut holder = Running::start(HOLD, &[&place.to_string_lossy(), &records.to_string()])?;
    holder.ready()?;
    let store = rivals::store(&place, Promise::Relaxed).open()?;
    replay(&store, &Key::of(0))?;
    let gap = Stopwatch::start();
    holder.kill()?;
    replay(&store, &Key::of(0))?;
    let seconds = gap.elapsed().as_secs_f64();
    section.lines.push(Line {
        series: format!("attached: the owner is killed, {records} records"),
        semel: time(seconds * 1e9),
        rival: "a second".to_owned(),
        ratio: Ratio::once(seconds),
        target: Target::AtMost(1.5),
        crash: CRASH,
    });
    store.close()?;
    Ok(())
}

/// Holds a store, and fills it before if it is told so.
pub fn hold(arguments: &[String]) -> Outcome<()> {
    let place = arguments.first().ok_or("no place")?;
    let store = rivals::store(Path::new(place), Promise::Relaxed).open()?;
    if let Some(records) = arguments.get(1) {
        let semel = Semel::over(store.clone(), Promise::Relaxed, Payload::None);
        let result = key::result();
        for number in 0..records.parse()? {
            let key = Key::of(number);
            semel.complete(&key, semel.claim(&key, Keep::Long)?, &result)?;
        }
        store.sync()?;
    }
    println!("{READY}");
    thread::sleep(LIFETIME);
    Ok(())
}

/// Echoes.
pub fn echo(arguments: &[String]) -> Outcome<()> {
    let listener = UnixListener::bind(arguments.first().ok_or("no place")?)?;
    println!("{READY}");
    let (mut line, _) = listener.accept()?;
    let mut buffer = [0; ECHO_BYTES];
    while line.read_exact(&mut buffer).is_ok() {
        line.write_all(&buffer)?;
    }
    Ok(())
}

/// Works at a store.
pub fn work(arguments: &[String], promise: Promise) -> Outcome<()> {
    let place = Path::new(arguments.first().ok_or("no place")?);
    let store = rivals::store(place, promise).shared(Shared::Only);
    let semel = Semel::over(store.open()?, promise, Payload::None);
    let result = key::result();
    for_a_while(arguments, |number| {
        let key = Key::of(number);
        semel.complete(&key, semel.claim(&key, Keep::Short)?, &result)
    })
}

/// Works at a Redis.
pub fn redis_work(arguments: &[String]) -> Outcome<()> {
    let mut redis = Redis::connect(Path::new(arguments.first().ok_or("no place")?))?;
    let result = key::result();
    for_a_while(arguments, |number| {
        redis.cycle(&Key::of(number), number, &result)
    })
}

/// Does cycles with numbers of its own for so many seconds, and tells how many a second.
fn for_a_while(arguments: &[String], mut cycle: impl FnMut(u64) -> Outcome<()>) -> Outcome<()> {
    let [_, at, seconds] = arguments else {
        return Err("three arguments".into());
    };
    let first = at.parse::<u64>()? << 32;
    let time = Duration::from_secs(seconds.parse()?);
    let (working, mut done) = (Stopwatch::start(), 0);
    while working.elapsed() < time {
        cycle(first + done)?;
        done += 1;
    }
    tell("per_s", done as f64 / working.elapsed().as_secs_f64());
    Ok(())
}

fn bounce(mut line: &UnixStream) -> Outcome<()> {
    let mut buffer = [7; ECHO_BYTES];
    line.write_all(&buffer)?;
    line.read_exact(&mut buffer)?;
    Ok(())
}

fn replay(store: &Store, key: &Key) -> Outcome<()> {
    match store.claim(&rivals::request(
        key,
        Promise::Relaxed,
        Payload::None,
        Keep::Long,
    )?)? {
        Claim::Replay(_) => Ok(()),
        other => Err(format!("a known key answered {}", other.name()).into()),
    }
}

/// The median of the calls, in nanoseconds.
fn p50(calls: usize, mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut took = Latencies::default();
    for _ in 0..calls {
        let watch = Stopwatch::start();
        call()?;
        took.push(watch.elapsed());
    }
    Ok(took.quantile_ns(0.5))
}

/// Nanoseconds a call.
fn each(calls: usize, mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    let watch = Stopwatch::start();
    for _ in 0..calls {
        call()?;
    }
    Ok(watch.elapsed().as_nanos() as f64 / calls as f64)
}
