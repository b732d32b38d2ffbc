//! What is counted for the user: each answer once, under its operation, and the rates that follow.

use std::collections::BTreeMap;

use semel::{Claim, Policy, Renew, Request, Store};

use super::fixture::{answer, execute, frozen, memory, seconds};

#[test]
fn each_answer_is_counted_once_under_its_operation() {
    let (store, clock) = frozen();
    let with = |id: &'static str, n: u32| {
        Request::new("pay", id)
            .payload(&n)
            .expect("a payload")
            .retain(seconds(60))
            .remember(seconds(60))
            .renew(Renew::Off)
    };
    execute(&store, &with("done", 1))
        .complete("x")
        .expect("completes");
    execute(&store, &with("failed", 1))
        .fail(semel::Failure::new("no", ""))
        .expect("fails");
    drop(execute(&store, &with("doubt", 1)));
    let running = execute(&store, &with("running", 1));
    execute(&store, &with("again", 1))
        .release()
        .expect("releases");
    execute(&store, &with("again", 1))
        .complete("x")
        .expect("completes");
    for _ in 0..3 {
        for id in ["done", "failed", "doubt", "running"] {
            answer(&store, &with(id, 1));
        }
    }
    answer(&store, &with("done", 2));
    clock.advance(seconds(60));
    answer(&store, &with("done", 1));
    execute(&store, &Request::new("ship", "1"))
        .complete("x")
        .expect("completes");

    let stats = store.stats();
    let pay = &stats.operations["pay"];
    let counts: BTreeMap<_, _> = pay.counts().filter(|(_, count)| *count > 0).collect();
    // The doubt of the running one began when its lease was over.
    let expected = BTreeMap::from([
        ("claims", 20),
        ("executed", 6),
        ("reexecuted", 1),
        ("replayed", 3),
        ("failed", 3),
        ("in_doubt", 3),
        ("busy", 3),
        ("mismatch", 1),
        ("gone", 1),
        ("unresolved", 2),
    ]);
    assert_eq!(counts, expected);
    assert!((pay.interception_rate() - 14.0 / 20.0).abs() < 1e-9);
    assert!((pay.hit_rate() - 15.0 / 20.0).abs() < 1e-9);
    assert_eq!(stats.operations["ship"].claims, 1);
    let totals = stats.totals();
    assert_eq!(
        (totals.claims, totals.executed, totals.unresolved),
        (21, 7, 2)
    );
    assert_eq!(stats.records, 6);
    drop(running);
}

#[test]
fn nothing_counted_gives_rates_of_nothing() {
    let totals = memory().stats().totals();
    assert_eq!((totals.interception_rate(), totals.hit_rate()), (0.0, 0.0));
}

#[test]
fn takeovers_lost_leases_and_late_ends_are_counted() {
    let (store, clock) = frozen();
    let request = Request::new("pay", "1")
        .in_doubt(Policy::Rerun)
        .renew(Renew::Off);
    let first = execute(&store, &request);
    clock.advance(seconds(30));
    let second = execute(&store, &request);
    let _ = first.complete("late");
    second.release().expect("releases");
    drop(execute(&store, &request));
    let totals = store.stats().totals();
    // The third attempt follows a doubt as well: that of the first was never ended.
    assert_eq!((totals.takeovers, totals.reexecuted), (2, 2));
    assert_eq!((totals.lost_leases, totals.possible_double_effects), (1, 1));
}

#[test]
fn waiting_counts_as_one_claim() {
    let store = memory();
    let request = Request::new("pay", "1").wait(super::fixture::LONG);
    let first = execute(&store, &request);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| answer(&store, &request));
        std::thread::sleep(std::time::Duration::from_millis(10));
        first.complete("x").expect("completes");
        assert_eq!(waiting.join().expect("no panic"), "replay");
    });
    let totals = store.stats().totals();
    assert_eq!((totals.claims, totals.busy, totals.replayed), (2, 0, 1));
}

#[test]
fn refused_input_is_not_counted() {
    let store = memory();
    store.claim(&Request::new("pay", "")).expect_err("blank");
    store.claim(&Request::new("", "1")).expect_err("blank");
    assert!(store.stats().operations.is_empty());
}

#[test]
fn times_are_kept_as_histograms() {
    let (_dir, path) = super::fixture::directory();
    let store = Store::open(&path).expect("opens");
    for n in 0..40 {
        let id = n.to_string();
        execute(&store, &Request::new("pay", id.as_str()))
            .complete("x")
            .expect("completes");
    }
    let stats = store.stats();
    let pay = &stats.operations["pay"];
    assert_eq!(pay.work.count(), 40);
    assert!(
        pay.claim.count() >= 40 / 8 - 1,
        "one in eight is timed: {}",
        pay.claim.count()
    );
    assert!(stats.commit.count() > 0 && stats.commits >= stats.commit.count());
    assert!(pay.work.quantile_us(0.5) <= pay.work.quantile_us(0.99));
}

#[test]
fn operations_beyond_the_first_256_are_counted_together() {
    let store = memory();
    for n in 0..300 {
        let operation = format!("op {n}");
        drop(store.claim(&Request::new(operation, "1")));
    }
    let stats = store.stats();
    assert!(stats.operations.len() <= 257, "{}", stats.operations.len());
    assert_eq!(
        (stats.totals().claims, stats.totals().unresolved),
        (300, 300)
    );
}

#[test]
fn two_stores_of_one_process_count_apart() {
    let (one, other) = (memory(), memory());
    let request = Request::new("pay", "1");
    let Claim::Execute(ticket) = one.claim(&request).expect("claims") else {
        panic!("first")
    };
    assert_eq!(answer(&other, &request), "execute");
    assert_eq!(answer(&one, &request), "busy");
    ticket.complete("x").expect("completes");
    assert_eq!(
        (one.stats().totals().claims, other.stats().totals().claims),
        (2, 1)
    );
}
