//! Sweeping: what is forgotten goes, once and archived; what is not stays; and nobody waits for it.

use std::collections::BTreeMap;

use super::*;

const START: Duration = Duration::from_secs(1_800_000_000);

fn short() -> Terms {
    Terms {
        retain_us: 10_000_000,
        ..terms()
    }
}

fn put_for(local: &Local, id: &str, terms: Terms) {
    let told = claim_with(local, id, terms, Durability::Relaxed).expect("claims");
    assert!(
        matches!(told.answer, Answer::Execute { .. }),
        "{id}: {:?}",
        told.answer
    );
    let fence = told.record.expect("a record").fence;
    complete(local, id, fence, &[1; 50], Durability::Relaxed);
}

/// A store whose time stands still.
fn frozen(place: &Place) -> (Local, Clock) {
    let clock = Clock::manual(START);
    (open_at(&place.path, options(), clock.clone()), clock)
}

/// The same with an archive, and where that is.
fn archiving(place: &Place) -> (Local, Clock, PathBuf) {
    let clock = Clock::manual(START);
    let archive = place.path.with_extension("archive");
    let with_archive = Options {
        archive: Some(archive.clone()),
        ..options()
    };
    let local = open_at(&place.path, with_archive, clock.clone());
    (local, clock, archive)
}

/// Puts so many records that have expired, on disk.
fn put_expired(local: &Local, clock: &Clock, count: u32) {
    for at in 0..count {
        put_for(local, &format!("old-{at}"), short());
    }
    local.barrier().wait().expect("on disk");
    clock.advance(Duration::from_secs(11));
}

/// How often each id is in the archive.
fn archived(path: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        let id = line["id"].as_str().or(line["key"].as_str()).expect("an id");
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_hundred_thousand_expired_records_go_while_claims_go_on() {
    let place = Place::new();
    let (local, clock, archive) = archiving(&place);
    for at in 0..100_000 {
        put_for(&local, &format!("old-{at}"), short());
    }
    put_for(&local, "kept", terms());
    claim_with(&local, "running", terms(), Durability::Sync).expect("claims");
    local.barrier().wait().expect("on disk");
    clock.advance(Duration::from_secs(11));
    // What has expired and is not swept yet stands in nobody's way.
    put_for(&local, "old-5", terms());
    std::thread::scope(|scope| {
        let sweeping = scope.spawn(|| local.sweep().expect("sweeps"));
        for at in 0..5_000 {
            put_for(&local, &format!("new-{at}"), terms());
        }
        assert_eq!(sweeping.join().expect("no panic"), 99_999);
    });
    let counts = archived(&archive);
    assert_eq!(counts.len(), 99_999);
    assert!(counts.values().all(|count| *count == 1));
    assert_eq!(local.sweep().expect("sweeps"), 0);
    assert_eq!(local.facts().entries, 5_003);
    assert_sound(&local);
    drop(local);
    // Opened again they are not even looked at.
    let local = open_at(&place.path, options(), clock);
    assert_eq!(local.facts().entries, 5_003);
    assert_eq!(replay(&local, "kept"), [1; 50]);
    assert_eq!(local.sweep().expect("sweeps"), 0);
}

#[test]
fn doubts_and_live_leases_are_never_swept() {
    let place = Place::new();
    let (local, clock) = frozen(&place);
    let hold = Terms {
        in_doubt: Policy::Hold,
        ..short()
    };
    claim_with(&local, "doubt", hold, Durability::Relaxed).expect("claims");
    let told = claim_with(&local, "live", short(), Durability::Relaxed).expect("claims");
    let fence = told.record.expect("a record").fence;
    claim_with(&local, "lapsed", short(), Durability::Relaxed).expect("claims");
    for _ in 0..40 {
        local.barrier().wait().expect("on disk");
        clock.advance(Duration::from_secs(20));
        let told = tell(&local, "live", Verb::Renew { fence }, Durability::Relaxed);
        assert_eq!(told.expect("renews").answer, Answer::Done { late: false });
        local.sweep().expect("sweeps");
    }
    assert_eq!(local.facts().entries, 2);
    let told = claim_with(&local, "doubt", hold, Durability::Relaxed).expect("answers");
    assert!(matches!(told.answer, Answer::InDoubt { .. }));
    assert_eq!(local.open_records(NEVER_US, 10).expect("lists").len(), 2);
}

#[test]
fn what_a_sweep_could_not_archive_stays_and_goes_with_the_next() {
    let place = Place::new();
    let (local, clock, folder) = archiving(&place);
    put_expired(&local, &clock, 100);
    // A device that is always full takes no line.
    std::os::unix::fs::symlink("/dev/full", &folder).expect("links");
    assert!(local.sweep().is_err());
    assert_eq!(local.facts().entries, 100);
    assert_sound(&local);
    std::fs::remove_file(&folder).expect("removes");
    assert_eq!(local.sweep().expect("sweeps"), 100);
    assert!(archived(&folder).values().all(|count| *count == 1));
    assert_eq!(archived(&folder).len(), 100);
}

#[test]
fn the_cost_of_a_sweep_follows_what_has_expired() {
    let place = Place::new();
    let (local, clock) = frozen(&place);
    for at in 0..5_000 {
        put_for(&local, &format!("kept-{at}"), terms());
    }
    for at in 0..20 {
        put_for(&local, &format!("old-{at}"), short());
    }
    drop(local);
    let local = open_at(&place.path, options(), clock.clone());
    clock.advance(Duration::from_secs(11));
    assert_eq!(local.sweep().expect("sweeps"), 20);
    let reads = local.facts().cold_reads;
    assert!(reads <= 3, "{reads} blocks were read for 20 records");
    assert_eq!(local.sweep().expect("sweeps"), 0);
    assert_eq!(local.facts().cold_reads, reads);
}

#[test]
fn a_line_of_the_archive_that_was_cut_short_spoils_no_other() {
    let place = Place::new();
    let (local, clock, archive) = archiving(&place);
    put_expired(&local, &clock, 3);
    // The power went, or the disk was full, in the middle of a line.
    std::fs::write(&archive, r#"{"operation":"test","id":"cu"#).expect("written");
    assert_eq!(local.sweep().expect("sweeps"), 3);
    let text = std::fs::read_to_string(&archive).expect("read");
    let whole = text
        .lines()
        .filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
    assert_eq!(whole.count(), 3, "{text}");
}
