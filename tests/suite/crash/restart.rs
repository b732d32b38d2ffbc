//! What holds across restarts: fences, clocks, forgetting, backups, and a log that was set back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel::{
    Claim, Clock, Copied, Durability, ErrorKind, Identity, Policy, Request, Store, Ticket,
};
use semel_tests::image::Tree;
use semel_tests::scratch::in_memory;
use semel_tests::victim::goods::Dice;
use tempfile::TempDir;

use super::process::{Process, victim};

const START: Duration = Duration::from_secs(1_800_000_000);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const LEASE: Duration = Duration::from_secs(30);

/// A place for a store whose clock the test owns.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(in_memory())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn text(&self) -> String {
        self.path().to_str().expect("a path of text").to_owned()
    }

    fn open(&self, clock: &Clock) -> Store {
        let store = Store::builder(self.text())
            .clock(clock.clone())
            .sweep_by_hand()
            .open();
        store.expect("opens")
    }
}

fn execute(store: &Store, request: &Request<'_>) -> Ticket {
    match store.claim(request).expect("claims") {
        Claim::Execute(ticket) => ticket,
        other => panic!("answered {}", other.name()),
    }
}

fn answer(store: &Store, request: &Request<'_>) -> &'static str {
    store.claim(request).expect("claims").name()
}

#[test]
fn the_fence_never_falls_even_in_an_empty_store_with_its_clock_set_back() {
    let place = Place::new();
    let request = Request::new("fence", "f").retain(Duration::from_secs(1));
    let mut last = 0;
    for round in 0..6_u32 {
        // Each life begins an hour earlier than the last one.
        let clock = Clock::manual(START - HOUR * round);
        let store = place.open(&clock);
        let ticket = execute(&store, &request);
        assert!(
            ticket.fence() > last,
            "round {round}: {} after {last}",
            ticket.fence()
        );
        last = ticket.fence();
        ticket.complete("done").expect("completes");
        if round % 3 == 1 {
            store.forget(&(&request).into()).expect("forgets");
        } else {
            clock.advance(DAY);
        }
        if round % 3 == 0 {
            // What the committer has in hand at this moment is left to the next sweep.
            while store.sweep().expect("sweeps") == 0 {
                std::thread::yield_now();
            }
        }
        // Another change tells the log how late it is and what was swept.
        let other = format!("other-{round}");
        execute(&store, &Request::new("fence", other))
            .release()
            .expect("releases");
        store.close().expect("closes");
    }
}

#[test]
fn the_fence_rises_over_release_and_claim_within_a_microsecond() {
    let place = Place::new();
    let clock = Clock::manual(START);
    let request = Request::new("fence", "f");
    let mut last = 0;
    for _ in 0..5 {
        let store = place.open(&clock);
        for _ in 0..20 {
            let ticket = execute(&store, &request);
            assert!(ticket.fence() > last);
            last = ticket.fence();
            ticket.release().expect("releases");
        }
        store.close().expect("closes");
    }
}

#[test]
fn a_clock_a_year_ahead_is_refused_unless_it_is_accepted() {
    let place = Place::new();
    let request = Request::new("clock", "c").retain(DAY);
    let store = place.open(&Clock::manual(START));
    execute(&store, &request)
        .complete("done")
        .expect("completes");
    drop(store);
    let ahead = Clock::manual(START + 401 * DAY);
    let builder = || {
        Store::builder(place.text())
            .clock(ahead.clone())
            .sweep_by_hand()
    };
    let refused = builder().open().expect_err("a year ahead");
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(
        refused.message().contains("accept_clock") && refused.message().contains("401 days"),
        "{refused}"
    );
    // Nothing was changed by the refusal.
    let store = place.open(&Clock::manual(START + HOUR));
    assert_eq!(answer(&store, &request), "replay");
    drop(store);
    let store = builder().accept_clock().open().expect("accepted");
    drop(store);
    // Accepted once is accepted, also where nothing was written since.
    let store = builder().open().expect("remembered");
    assert_eq!(answer(&store, &request), "execute");
}

#[test]
fn a_clock_that_was_set_back_ends_leases_after_their_time_all_the_same() {
    let place = Place::new();
    let request = Request::new("clock", "c")
        .lease(LEASE)
        .in_doubt(Policy::Rerun);
    let store = place.open(&Clock::manual(START));
    std::mem::forget(execute(&store, &request));
    store.close().expect("closes");
    let back = Clock::manual(START - HOUR);
    let store = place.open(&back);
    assert_eq!(answer(&store, &request), "busy");
    back.advance(LEASE - Duration::from_millis(1));
    assert_eq!(answer(&store, &request), "busy");
    back.advance(Duration::from_millis(2));
    let ticket = execute(&store, &request);
    assert_eq!(ticket.attempt(), 2);
    // A step while it runs moves nothing.
    back.step_wall(START + 300 * DAY);
    assert_eq!(
        answer(&store, &Request::new("clock", "c").in_doubt(Policy::Rerun)),
        "busy"
    );
    back.step_wall(START - DAY);
    back.advance(LEASE + Duration::from_millis(1));
    assert_eq!(answer(&store, &Request::new("clock", "c")), "execute");
}

/// Copies the files as they are, like a crash: what the store still has in memory is lost.
fn crashed(place: &Place) -> Place {
    let copy = Place::new();
    Tree::read(&place.path())
        .expect("read")
        .write(&copy.path())
        .expect("written");
    copy
}

#[test]
fn what_expired_or_was_forgotten_does_not_come_back_after_a_crash() {
    let place = Place::new();
    let clock = Clock::manual(START);
    let store = place.open(&clock);
    let expiring =
        |index: u32| Request::new("expiring", format!("e-{index}")).retain(Duration::from_secs(5));
    let forgotten = |index: u32| Request::new("forgotten", format!("f-{index}"));
    for index in 0..40 {
        execute(&store, &expiring(index))
            .complete(&index)
            .expect("completes");
        execute(&store, &forgotten(index))
            .complete(&index)
            .expect("completes");
    }
    clock.advance(Duration::from_secs(6));
    assert_eq!(store.sweep().expect("sweeps"), 40);
    for index in 0..40 {
        store.forget(&(&forgotten(index)).into()).expect("forgets");
    }
    let earlier = Clock::manual(START - HOUR);
    for clock in [&clock, &earlier] {
        let copy = crashed(&place);
        let store = copy.open(clock);
        assert_eq!(store.len(), 0, "something came back");
        for index in 0..40 {
            assert_eq!(answer(&store, &expiring(index)), "execute");
            assert_eq!(answer(&store, &forgotten(index)), "execute");
        }
    }
}

#[test]
fn a_rerun_after_release_and_forget_is_the_newest_after_a_crash() {
    let place = Place::new();
    let clock = Clock::manual(START);
    let store = place.open(&clock);
    let request = Request::new("again", "a");
    execute(&store, &request)
        .complete("first")
        .expect("completes");
    store.forget(&(&request).into()).expect("forgets");
    execute(&store, &request).release().expect("releases");
    execute(&store, &request)
        .complete("second")
        .expect("completes");
    let copy = crashed(&place);
    let Claim::Replay(replay) = copy.open(&clock).claim(&request).expect("claims") else {
        panic!("the second result is there");
    };
    assert_eq!(replay.decode::<String>().expect("text"), "second");
}

#[test]
fn a_log_that_was_set_back_is_noticed() {
    let place = Place::new();
    let clock = Clock::manual(START);
    let run = |key: &str| {
        let store = place.open(&clock);
        execute(&store, &Request::new("back", key))
            .complete(key)
            .expect("completes");
        store.close().expect("closes");
    };
    run("early");
    let log = place.path().join("log");
    let older = Tree::read(&log).expect("read");
    run("late");
    fs::remove_dir_all(&log).expect("removed");
    older.write(&log).expect("written");
    let refused = Store::open(place.text()).expect_err("set back");
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.message().contains("accept_rollback"), "{refused}");
}

#[test]
fn a_closed_store_lets_go_although_tickets_live() {
    let place = Place::new();
    let clock = Clock::manual(START);
    let store = place.open(&clock);
    let request = Request::new("close", "c");
    let ticket = execute(&store, &request);
    store.close().expect("closes");
    let again = place.open(&clock);
    assert_eq!(answer(&again, &request), "busy");
    assert_eq!(
        ticket.complete("late").expect_err("closed").kind(),
        ErrorKind::Closed
    );
    drop((store, ticket));
    assert_eq!(answer(&again, &request), "busy");
    assert_eq!(answer(&again, &Request::new("close", "d")), "execute");
}

fn backed_up(dir: &Path) -> (PathBuf, Copied, Vec<String>) {
    let store = Store::open(dir.join("source").to_str().expect("a path of text")).expect("opens");
    let keys: Vec<String> = (0..300).map(|index| format!("b-{index}")).collect();
    for key in &keys {
        execute(&store, &Request::new("backup", key.as_str()))
            .complete(key)
            .expect("completes");
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    let copied = std::thread::scope(|scope| {
        scope.spawn(|| {
            for index in 0.. {
                if stop.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
                let request = Request::new("meanwhile", format!("m-{index}"))
                    .durability(Durability::Relaxed)
                    .in_doubt(Policy::Rerun);
                execute(&store, &request)
                    .complete(&index)
                    .expect("completes");
            }
        });
        std::thread::sleep(Duration::from_millis(30));
        let copied = store
            .backup(dir.join("backup"))
            .expect("backs up while others write");
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        copied
    });
    (dir.join("backup"), copied, keys)
}

#[test]
fn a_backup_made_while_others_write_restores_whole_and_with_higher_fences() {
    let dir = in_memory();
    let (backup, copied, keys) = backed_up(dir.path());
    assert!(copied.blocks > 0);
    let into = dir.path().join("restored");
    semel::restore(&backup, &into).expect("restores");
    let refused = semel::restore(&backup, &into).expect_err("there is a store");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let store = Store::open(into.to_str().expect("a path of text")).expect("opens");
    for key in &keys {
        assert_eq!(
            answer(&store, &Request::new("backup", key.as_str())),
            "replay"
        );
    }
    assert!(store.verify().expect("verifies").problems.is_empty());
    let newest = store
        .list()
        .map(|info| info.expect("reads").fence)
        .max()
        .expect("records");
    let fresh = execute(&store, &Request::new("backup", "fresh"));
    assert!(fresh.fence() > newest);
    // A relaxed writer's records are a prefix.
    let mut meanwhile: Vec<u32> = store
        .list()
        .filter_map(|info| info.expect("reads").id.strip_prefix("m-")?.parse().ok())
        .collect();
    meanwhile.sort_unstable();
    let prefix: Vec<u32> = (0..meanwhile.len() as u32).collect();
    assert_eq!(meanwhile, prefix);
    assert!(
        store
            .lookup(&Identity::new("backup", "b-7"))
            .expect("looks")
            .is_some()
    );
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_nothing_behind() {
    let dir = in_memory();
    let (backup, ..) = backed_up(dir.path());
    let whole = fs::read(&backup).expect("read");
    let (damaged, into) = (dir.path().join("damaged"), dir.path().join("into"));
    let mut dice = Dice(5);
    let check = |bytes: &[u8], what: String| {
        fs::write(&damaged, bytes).expect("written");
        let refused = semel::restore(&damaged, &into).expect_err(&what);
        assert!(
            matches!(refused.kind(), ErrorKind::Corrupt | ErrorKind::InvalidInput),
            "{what}: {refused:?}"
        );
        assert!(refused.message().contains("backup"), "{what}: {refused}");
        assert!(!into.exists(), "{what} left something behind");
    };
    for _ in 0..40 {
        let cut = dice.below(whole.len() as u64) as usize;
        check(&whole[..cut], format!("a cut at {cut}"));
        let at = dice.below(whole.len() as u64) as usize;
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << dice.below(8);
        check(&flipped, format!("a flip at {at}"));
    }
    semel::restore(&backup, &into).expect("the whole one restores");
}

#[test]
fn relaxed_work_loses_at_most_its_end_in_a_kill() {
    let place = Place::new();
    let mut victim = Process::start(&mut victim(&["relaxed", &place.text()]));
    assert_eq!(victim.line(), "open");
    std::thread::sleep(Duration::from_millis(250));
    victim.kill();
    let store = Store::open(place.text()).expect("opens");
    let mut done: Vec<u64> = Vec::new();
    for info in store.list() {
        let info = info.expect("reads");
        let index = info
            .id
            .strip_prefix("relaxed-")
            .and_then(|index| index.parse().ok())
            .expect("an index");
        if info.state == "succeeded" {
            done.push(index);
        }
    }
    done.sort_unstable();
    assert!(
        done.len() > 100,
        "{} operations in a quarter of a second",
        done.len()
    );
    assert_eq!(
        done.last(),
        Some(&(done.len() as u64 - 1)),
        "what survives is a prefix"
    );
}

#[test]
fn backups_beside_each_other_are_whole_and_touch_no_file_but_their_own() {
    let dir = in_memory();
    let path = |name: &str| dir.path().join(name);
    let store = Store::open(path("source").to_str().expect("a path of text")).expect("opens");
    for index in 0..3_000 {
        let request = Request::new("backup", format!("b-{index}"))
            .durability(Durability::Relaxed)
            .in_doubt(Policy::Rerun);
        execute(&store, &request)
            .complete(&"x".repeat(300))
            .expect("completes");
    }
    for own in ["data.part", "data"] {
        fs::write(path(own), "mine").expect("written");
    }
    let files: Vec<PathBuf> = (0..4).map(|n| path(&format!("data.{n}"))).collect();
    std::thread::scope(|scope| {
        let backups: Vec<_> = files
            .iter()
            .map(|file| {
                let store = &store;
                scope.spawn(move || store.backup(file))
            })
            .collect();
        for backup in backups {
            backup.join().expect("no panic").expect("backs up");
        }
    });
    for (at, file) in files.iter().enumerate() {
        let into = path(&format!("restored {at}"));
        semel::restore(file, &into).expect("restores");
        let copy = Store::open(into.to_str().expect("a path of text")).expect("opens");
        assert_eq!(copy.len(), 3_000);
    }
    for own in ["data.part", "data"] {
        assert_eq!(fs::read_to_string(path(own)).expect("there"), "mine");
    }
}
