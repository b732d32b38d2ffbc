//! The power fails at any moment of a victim's life: every image of the disk opens and has all that was acknowledged.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;

use semel::Store;
use semel_tests::image::{Base, Choice, Image, Sweep, build, cuts, second_crash};
use semel_tests::recording::{Call, Event, Recording};
use semel_tests::scratch::{in_memory, say};
use semel_tests::shim::{Fault, Shim};

use super::process::{Process, victim};
use super::story::Story;

const SEED: u64 = 20_261_201;
/// Deep enough that several names have to be durable.
const STORE: &str = "deep/er/store";
/// How many processes use the store, one after the other.
const SESSIONS: usize = 3;
const IMAGES: usize = 300;
/// Images whose recovery meets a power cut too, and how many images of each such recovery.
const SECOND: (usize, usize) = (12, 5);
const IMAGES_WITHOUT_FDATASYNC: usize = 48;
const IMAGES_AFTER_FAILURE: usize = 40;

fn record(dir: &Path, sessions: &[&str], prepare: impl Fn(Shim) -> Shim) -> io::Result<Recording> {
    let shim = prepare(Shim::new(&dir.join("root"), &dir.join("side"))?);
    let store = shim.dir().join(STORE);
    let store = store.to_str().expect("a path of text");
    for session in sessions {
        let mut command = victim(&["life", store, session]);
        shim.apply(&mut command);
        assert!(
            command.status()?.success(),
            "session {session} of the victim failed"
        );
    }
    shim.recording()
}

/// The life of a store over several processes, recorded once for all tests.
fn recorded() -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let dir = in_memory();
        let sessions: Vec<String> = (0..SESSIONS).map(|session| format!("s{session}")).collect();
        let sessions: Vec<&str> = sessions.iter().map(String::as_str).collect();
        record(dir.path(), &sessions, |shim| shim).expect("the victims are recorded")
    })
}

fn judge(image: &Image) -> Result<(), String> {
    let store = image.dir.join(STORE);
    let place = store.to_str().expect("a path of text");
    let story = Story::of(&image.marks);
    let open = || Store::open(place).map_err(|e| format!("does not open: {e}"));
    let store = open()?;
    story.compare(&store)?;
    let verified = store.verify().map_err(|e| e.to_string())?;
    if let Some(problem) = verified.problems.first() {
        return Err(format!("verify: {problem}"));
    }
    store.close().map_err(|e| format!("does not close: {e}"))?;
    // The recovery has to hold as well.
    let store = open()?;
    story.compare(&store)?;
    story.claim_again(&store)
}

fn sweep(base: Base, images: usize, seed: u64, scratch: &Path) -> Sweep {
    let scratch = scratch.to_owned();
    Sweep {
        base,
        images,
        seed,
        threads: 2,
        scratch,
    }
}

#[test]
fn no_power_cut_takes_what_was_acknowledged() {
    say(&format!("power cuts: seed {SEED}"));
    let scratch = in_memory();
    let report = sweep(Base::default(), IMAGES, SEED, scratch.path())
        .run(&recorded().ops, judge)
        .expect("images are built");
    assert_eq!((report.images, &report.failures[..]), (IMAGES, &[][..]));
}

#[test]
fn no_power_cut_in_a_recovery_takes_what_was_acknowledged() {
    let ops = &recorded().ops;
    for (index, cut) in cuts(ops, SECOND.0, SEED + 1).into_iter().enumerate() {
        let home = in_memory();
        let choice = Choice::nth(SEED + 1, index);
        let image = build(ops, cut, &choice, &home.path().join("first")).expect("an image");
        let session = format!("r{index}");
        let (base, recovery) = second_crash(&image, |root| {
            let shim = Shim::new(root, &home.path().join("side"))?;
            let store = shim.dir().join(STORE);
            let mut command = victim(&["life", store.to_str().expect("a path of text"), &session]);
            shim.apply(&mut command);
            assert!(
                command.status()?.success(),
                "no recovery after cut {cut}, {choice:?}"
            );
            shim.recording()
        })
        .expect("a recovery");
        let report = sweep(base, SECOND.1, SEED + index as u64, home.path())
            .run(&recovery.ops, judge)
            .expect("images are built");
        assert_eq!(report.failures, [], "after cut {cut}, {choice:?}");
    }
}

#[test]
fn without_the_fdatasync_power_cuts_do_take_it() {
    let dir = in_memory();
    let spoiled = record(dir.path(), &["s0", "s1"], Shim::without_fdatasync).expect("recorded");
    let report = sweep(Base::default(), IMAGES_WITHOUT_FDATASYNC, SEED, dir.path())
        .run(&spoiled.ops, judge)
        .expect("images are built");
    say(&format!(
        "without fdatasync: {} of {} images lost something",
        report.failures.len(),
        report.images
    ));
    assert!(
        report.failures.len() > IMAGES_WITHOUT_FDATASYNC / 8,
        "the test could not fail"
    );
}

/// What a killed process had written and not synced is read back by the next: from then on it has to stay.
#[test]
fn what_an_opening_has_found_is_on_disk() {
    let dir = in_memory();
    let shim = Shim::new(&dir.path().join("root"), &dir.path().join("side")).expect("a shim");
    let store = shim.dir().join(STORE);
    let store = store.to_str().expect("a path of text");
    let mut command = victim(&["steps", store, "60000"]);
    shim.apply(&mut command);
    let mut first = Process::start(&mut command);
    assert_eq!(first.line(), "open");
    shim.set_faults(&[Fault::on(Call::Fdatasync).path("db").hang()])
        .expect("faults");
    first.send("go");
    let hangs = || {
        shim.recording()
            .is_ok_and(|recording| recording.faults() > 0)
    };
    while !hangs() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    first.kill();
    shim.set_faults(&[]).expect("no faults");
    let mut command = victim(&["life", store, "next"]);
    shim.apply(&mut command);
    assert!(command.status().expect("a victim").success());
    let ops = shim.recording().expect("a recording").ops;
    let is_census = |bytes: &[u8]| bytes.starts_with(b"= census");
    let found = ops
        .iter()
        .position(|op| matches!(&op.event, Event::Mark { bytes } if is_census(bytes)));
    let cut = found.expect("the next process tells what it found") + 1;
    let image = build(
        &ops,
        cut,
        &Choice {
            seed: SEED,
            keep: semel_tests::image::Keep::Nothing,
        },
        &dir.path().join("image"),
    )
    .expect("an image");
    assert!(
        image.marks.iter().any(|mark| mark == "= s-done running"),
        "{:?}",
        image.marks
    );
    let store =
        Store::open(image.dir.join(STORE).to_str().expect("a path of text")).expect("opens");
    let kept = store
        .lookup(&semel::Identity::new("step", "s-done"))
        .expect("looks");
    assert!(
        kept.is_some(),
        "an opening has shown what a power cut could still take"
    );
}

/// After a failed sync the kernel takes for written what it could not write: it is read back, and no later sync writes it.
#[test]
fn what_follows_a_failed_sync_is_not_lost_with_it() {
    let dir = in_memory();
    for (round, nth) in [3, 8, 15].into_iter().enumerate() {
        let home = dir.path().join(nth.to_string());
        let shim = Shim::new(&home.join("root"), &home.join("side")).expect("a shim");
        let store = shim.dir().join(STORE);
        let store = store.to_str().expect("a path of text");
        let fault = Fault::on(Call::Fdatasync)
            .path("db")
            .after(nth)
            .errno(libc::EIO);
        for (session, faults) in [("s0", vec![fault]), ("s1", vec![])] {
            shim.set_faults(&faults).expect("faults");
            let mut command = victim(&["life", store, session]);
            shim.apply(&mut command);
            let status = command.stderr(Stdio::null()).status().expect("a victim");
            let ends_well = faults.is_empty();
            assert_eq!(
                status.success(),
                ends_well,
                "session {session} with fault {nth}"
            );
        }
        let recording = shim.recording().expect("a recording");
        assert_eq!(recording.faults(), 1);
        let report = sweep(
            Base::default(),
            IMAGES_AFTER_FAILURE,
            SEED + round as u64,
            &home,
        )
        .run(&recording.ops, judge)
        .expect("images are built");
        assert_eq!(report.failures, [], "after fault {nth}");
    }
}
