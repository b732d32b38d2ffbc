//! The alert rules and the page of measures name what the store really tells.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use semel::{Request, Store};
use yaml_rust2::{Yaml, YamlLoader};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    fs::read_to_string(path).expect("readable")
}

/// Every metric of a store, with the names that Prometheus makes of a histogram.
fn told() -> (BTreeSet<String>, BTreeSet<String>) {
    let store = Store::open("memory:").expect("opens");
    store
        .run(&Request::new("op", "1"), |_| Ok::<_, std::io::Error>(1))
        .expect("runs");
    let text = store.metrics();
    let kinds: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let names = kinds.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut series = BTreeSet::new();
    for (name, kind) in kinds {
        match kind {
            "histogram" => {
                series.extend(["bucket", "sum", "count"].map(|end| format!("{name}_{end}")))
            }
            _ => drop(series.insert(name.to_owned())),
        }
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        assert!(series.contains(name), "{line} has no # TYPE");
    }
    (names, series)
}

fn metrics_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("semel_"))
        .map(str::to_owned)
        .collect()
}

fn rules() -> Vec<Yaml> {
    let documents = YamlLoader::load_from_str(&page("alerts.yml")).expect("YAML");
    assert_eq!(documents.len(), 1);
    let groups = documents[0]["groups"].as_vec().expect("groups");
    let of_group = |group: &Yaml| {
        assert!(group["name"].as_str().is_some());
        group["rules"].as_vec().expect("rules").clone()
    };
    groups.iter().flat_map(of_group).collect()
}

#[test]
fn alerts_are_rules_over_metrics_that_exist() {
    let (_, series) = told();
    let page = page("metrics.md");
    let mut names = BTreeSet::new();
    for rule in rules() {
        let name = rule["alert"].as_str().expect("a name").to_owned();
        let expr = rule["expr"].as_str().expect("an expression");
        let used = metrics_in(expr);
        assert!(!used.is_empty(), "{name}: {expr}");
        assert!(used.is_subset(&series), "{name}: {used:?}");
        for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
            let count = |c| expr.matches(c).count();
            assert_eq!(count(open), count(close), "{name}: {expr}");
        }
        assert!(rule["annotations"]["summary"].as_str().is_some(), "{name}");
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("warning" | "critical")), "{name}");
        assert!(
            page.contains(&format!("| {name} |")),
            "{name} is not in metrics.md"
        );
        assert!(names.insert(name), "given twice");
    }
    for needed in [
        "Unresolved",
        "PossibleDoubleEffect",
        "LostLeases",
        "SlowCommits",
        "QueueFilling",
        "OutboxBlocked",
    ] {
        assert!(names.contains(&format!("Semel{needed}")), "{needed}");
    }
}

#[test]
fn the_page_of_measures_lists_all_of_them_and_no_other() {
    let (names, series) = told();
    let page = page("metrics.md");
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `semel_")?.split('`').next())
        .map(|rest| format!("semel_{rest}"))
        .collect();
    assert_eq!(listed, names);
    for used in metrics_in(&page) {
        assert!(names.contains(&used) || series.contains(&used), "{used}");
    }
}
