//! Input that cannot be used is refused before anything is touched, in words that say what to do.

use std::time::Duration;

use semel::{Confirmation, ErrorKind, Identity, Lease, Policy, Request, Store};

use super::fixture::{directory, memory, seconds};

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn unusable_requests_are_refused_and_leave_nothing() {
    let good = || Request::new("pay", "P-1");
    let rerun = || good().in_doubt(Policy::Rerun);
    let cases: Vec<(Request<'_>, &[&str])> = vec![
        (Request::new("", "1"), &["operation", "blank"]),
        (Request::new(" \u{3000}", "1"), &["operation", "blank"]),
        (Request::new("pay", ""), &["id", "blank", "pass"]),
        (Request::new("pay", "\t"), &["id"]),
        (good().scope(""), &["scope", "blank", "GLOBAL"]),
        (good().scope("  "), &["scope", "blank", "GLOBAL"]),
        (Request::new(long(129), "1"), &["operation", "129", "128"]),
        (good().scope(long(129)), &["scope", "129", "128"]),
        (
            Request::new("pay", long(256)),
            &["id", "256", "255", "hash"],
        ),
        (Request::new("pay", "ü".repeat(128)), &["id", "256"]),
        (Request::new("pay", "a\0b"), &["id", "U+0000", "byte 1"]),
        (Request::new("pay\r\n", "1"), &["operation", "U+000D"]),
        (good().scope("a\u{7f}"), &["scope", "U+007F"]),
        (Request::new("pay", "a\u{9b}"), &["id", "U+009B"]),
        (good().holder("a\nb"), &["holder", "U+000A"]),
        (good().holder(""), &["holder", "blank"]),
        (good().holder(long(256)), &["holder", "255"]),
        (good().lease(Duration::ZERO), &["lease", "zero", "never"]),
        (good().lease(Duration::MAX), &["lease", "never"]),
        (
            good().lease(semel::MAX_LEASE + Duration::from_nanos(1)),
            &["lease", "never"],
        ),
        (good().retain(Duration::ZERO), &["retain", "zero"]),
        (rerun().lease(Lease::Never), &["lease", "hold"]),
        (
            good().in_doubt(Policy::Ask).lease(Lease::Never),
            &["lease", "hold"],
        ),
        (rerun().lease(Duration::MAX), &["lease"]),
        (good().max_attempts(0), &["max_attempts", "zero"]),
        (good().renew_limit(Duration::ZERO), &["renew_limit", "Off"]),
        (good().twin_window(Duration::ZERO), &["twin_window", "zero"]),
        (good().twin_window(seconds(1)), &["twin_window", "payload"]),
        (
            good().retain(seconds(1)).retry_window(seconds(2)),
            &["retry_window", "retain"],
        ),
    ];
    let (_dir, path) = directory();
    for place in ["memory:", path.as_str()] {
        let store = Store::open(place).expect("opens");
        for (request, words) in &cases {
            for error in [
                store.claim(request).expect_err("refused"),
                match store.run(request, |_| -> Result<(), std::io::Error> {
                    panic!("it has run")
                }) {
                    Err(semel::RunError::Store(error)) => error,
                    other => panic!("{other:?}"),
                },
            ] {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                for word in *words {
                    assert!(error.message().contains(word), "{word}: {error}");
                }
            }
        }
        assert_eq!((store.len(), store.stats().operations.len()), (0, 0));
    }
}

#[test]
fn what_is_just_within_the_limits_is_taken() {
    let store = memory();
    for request in [
        Request::new(long(128), long(255)).scope(long(128)),
        Request::new("pay", " a "),
        Request::new("pay", "訂單 №1 \u{200b}\u{1f980}"),
        Request::new("pay", "GLOBAL").scope("GLOBAL"),
        Request::new("pay", "1")
            .lease(Duration::from_nanos(1))
            .in_doubt(Policy::Rerun),
        Request::new("pay", "2")
            .lease(semel::MAX_LEASE)
            .retain(Duration::MAX)
            .wait(Duration::ZERO),
        Request::new("pay", "3")
            .holder(long(255))
            .max_attempts(1)
            .renew_limit(Duration::from_nanos(1)),
    ] {
        let claim = store.claim(&request).expect("is taken");
        assert_eq!(claim.name(), "execute");
    }
}

#[test]
fn every_verb_checks_the_name() {
    let store = memory();
    let blank = Identity::new("pay", "");
    let errors = [
        store.lookup(&blank).map(drop).expect_err("refused"),
        store.forget(&blank).map(drop).expect_err("refused"),
        store
            .resolve(&blank, semel::Resolution::Rerun)
            .map(drop)
            .expect_err("refused"),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn payloads_without_one_meaning_are_refused_before_the_claim() {
    let with = |json: &str| {
        Request::new("pay", "1")
            .payload_json(json.as_bytes())
            .map(drop)
    };
    for json in [
        "",
        "{",
        r#"{"a":1,"a":1}"#,
        r#""\ud800""#,
        "NaN",
        "[1,]",
        "1 2",
        "{\"a\":1e99999999999}",
    ] {
        let error = with(json).expect_err(json);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{json}: {error}");
    }
    for float in [f64::NAN, f64::INFINITY] {
        let error = Request::new("pay", "1")
            .payload(&float)
            .map(drop)
            .expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn places_that_are_no_store_are_refused_in_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "a file").expect("writes");
    let file = file.to_str().expect("UTF-8");
    for (place, words) in [
        ("", &["blank", "memory:"][..]),
        ("  ", &["blank"]),
        ("memory:x", &["memory:"]),
        ("sled:", &["sled:PATH"]),
        ("postgres://host/db", &["postgres", "directory"]),
        ("http://host", &["http", "unknown"]),
        ("a\0b", &["NUL"]),
        (file, &["file"]),
        (&format!("sled:{file}"), &["file"]),
        (&format!("{file}/below"), &["file"]),
    ] {
        let error = Store::open(place).map(drop).expect_err(place);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{place}: {error}");
        for word in words {
            assert!(error.message().contains(word), "{place}: {error}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(file).expect("reads"),
        "a file",
        "nothing was touched"
    );
}

#[test]
fn options_that_cannot_be_kept_are_refused_before_a_directory_is_made() {
    let (_dir, path) = directory();
    let builder = || Store::builder(&path);
    for (builder, word) in [
        (
            builder().commit_interval(Duration::from_millis(51)),
            "commit_interval",
        ),
        (builder().cache_bytes(0), "cache_bytes"),
        (builder().max_records(0), "max_records"),
        (builder().max_result_bytes(usize::MAX), "max_result_bytes"),
        (builder().sweep_interval(Duration::ZERO), "sweep_interval"),
    ] {
        let error = builder.open().map(drop).expect_err(word);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains(word), "{error}");
        assert!(!std::path::Path::new(&path).exists());
    }
}

#[test]
fn a_result_that_is_too_long_cannot_be_resolved_to() {
    let store = Store::builder("memory:")
        .max_result_bytes(4)
        .open()
        .expect("opens");
    let request = Request::new("pay", "1").confirm(|_| Confirmation::Still);
    drop(store.claim(&request));
    let value = semel::Value::bytes(*b"12345");
    let error = store
        .resolve(&(&request).into(), semel::Resolution::Value(value))
        .expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        super::fixture::answer(&store, &request),
        "in_doubt",
        "nothing was changed"
    );
}
