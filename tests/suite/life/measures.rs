//! What is counted for the user: stats, their rates, and the same as Prometheus text.

use std::collections::{BTreeMap, HashSet};

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

/// One line of the exposition format 0.0.4: name, labels, value.
fn sample(line: &str) -> Option<(&str, Vec<(String, String)>, f64)> {
    let (head, value) = line.rsplit_once(' ')?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        number => number.parse().ok()?,
    };
    let Some((name, rest)) = head.split_once('{') else {
        return Some((head, Vec::new(), value));
    };
    let mut rest = rest.strip_suffix('}')?;
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, tail) = rest.split_once("=\"")?;
        let mut text = String::new();
        let mut chars = tail.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    escaped @ ('"' | '\\') => escaped,
                    _ => return None,
                }),
                (_, '\n') => return None,
                (_, plain) => text.push(plain),
            }
        };
        labels.push((label.to_owned(), text));
        rest = &tail[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some((name, labels, value))
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'))
}

#[test]
fn metrics_are_prometheus_text_and_agree_with_the_stats() {
    let store = memory();
    let odd = "pay \"all\" \\ über";
    for n in 0..20 {
        let id = n.to_string();
        let request = Request::new(odd, id.as_str());
        execute(&store, &request).complete("x").expect("completes");
        answer(&store, &request);
    }
    drop(store.claim(&Request::new("ship", "secret-key")));
    let text = store.metrics();
    assert!(text.ends_with('\n') && !text.contains("secret-key"));
    let (mut types, mut helped, mut seen) = (BTreeMap::new(), HashSet::new(), HashSet::new());
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("words");
            assert!(!words.is_empty() && helped.insert(name), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(
                is_name(name) && types.insert(name, kind).is_none(),
                "{line}"
            );
        } else {
            let (name, labels, value) = sample(line).unwrap_or_else(|| panic!("{line}"));
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|end| name.strip_suffix(end))
                .find(|family| types.get(family) == Some(&"histogram"))
                .unwrap_or(name);
            let kind = types
                .get(family)
                .unwrap_or_else(|| panic!("no type before {line}"));
            assert!(
                helped.contains(family) && is_name(name) && !value.is_nan(),
                "{line}"
            );
            assert!(*kind != "counter" || name.ends_with("_total"), "{line}");
            assert!(*kind != "counter" || value >= 0.0, "{line}");
            assert!(
                labels
                    .iter()
                    .all(|(label, _)| ["operation", "answer", "le"].contains(&label.as_str())),
                "{line}"
            );
            assert!(
                seen.insert((name.to_owned(), labels.clone())),
                "twice: {line}"
            );
            samples.push((name.to_owned(), labels, value));
        }
    }
    let value = |name: &str, labels: &[(&str, &str)]| {
        let wanted: Vec<_> = labels
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect();
        samples
            .iter()
            .find(|(found, labels, _)| found == name && *labels == wanted)
            .unwrap_or_else(|| panic!("{name} {labels:?} in\n{text}"))
            .2
    };
    assert_eq!(
        value(
            "semel_claims_total",
            &[("operation", odd), ("answer", "execute")]
        ),
        20.0
    );
    assert_eq!(
        value(
            "semel_claims_total",
            &[("operation", odd), ("answer", "replay")]
        ),
        20.0
    );
    assert_eq!(value("semel_unresolved", &[]), 1.0);
    assert_eq!(
        value("semel_unresolved_operations", &[("operation", "ship")]),
        1.0
    );
    assert_eq!(value("semel_records", &[]), 21.0);
    let of = [("operation", odd)];
    assert_eq!(value("semel_work_seconds_count", &of), 20.0);
    assert_eq!(
        value(
            "semel_work_seconds_bucket",
            &[("operation", odd), ("le", "+Inf")]
        ),
        20.0
    );
    // The buckets of a histogram only rise.
    let buckets: Vec<f64> = samples
        .iter()
        .filter(|(name, labels, _)| name == "semel_work_seconds_bucket" && labels[0].1 == odd)
        .map(|(.., value)| *value)
        .collect();
    assert!(buckets.len() > 10 && buckets.is_sorted(), "{buckets:?}");
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
