//! The measures as Prometheus text: every line is what a scraper takes, and says what the stats say.

use std::collections::{BTreeMap, HashSet};

use semel::Request;

use super::fixture::{answer, execute, memory};

type Labels = Vec<(String, String)>;

/// One line of the exposition format 0.0.4: name, labels, value.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
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
                    .all(|(label, _)| ["operation", "answer", "le", "topic"]
                        .contains(&label.as_str())),
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
