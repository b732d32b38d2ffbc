//! The store's measures as Prometheus text (exposition format 0.0.4).

use std::fmt::Write;

use crate::histogram::Histogram;
use crate::stats::{OperationStats, Stats};

/// Writes all measures of a store.
pub(crate) fn text(stats: &Stats) -> String {
    let mut out = String::with_capacity(4096);
    gauge(
        &mut out,
        "semel_records",
        "Records and rows that are stored.",
        stats.records as f64,
    );
    gauge(
        &mut out,
        "semel_unresolved",
        "Operations whose effect is unknown and that somebody must resolve.",
        stats.unresolved as f64,
    );
    let oldest = stats.oldest_unresolved_us.map_or(0.0, |us| us as f64 / 1e6);
    gauge(
        &mut out,
        "semel_oldest_unresolved_timestamp_seconds",
        "Since when the oldest unresolved operation is in doubt; 0 when there is none.",
        oldest,
    );
    gauge(
        &mut out,
        "semel_queued_bytes",
        "Changes on their way to the disk.",
        stats.queued_bytes as f64,
    );
    gauge(
        &mut out,
        "semel_log_bytes",
        "The log.",
        stats.log_bytes as f64,
    );
    gauge(
        &mut out,
        "semel_live_bytes",
        "What of the log is the newest of its key.",
        stats.live_bytes as f64,
    );
    counter(
        &mut out,
        "semel_swept_total",
        "Records that were swept.",
        stats.swept,
    );
    counter(
        &mut out,
        "semel_commits_total",
        "Batches written, each with one sync.",
        stats.commits,
    );
    counter(
        &mut out,
        "semel_cold_reads_total",
        "Reads of a record that had to go to the log.",
        stats.cold_reads,
    );
    blocked_topics(&mut out, stats);
    claims(&mut out, stats);
    for (name, help, of) in SINGLE {
        head(&mut out, name, help, "counter");
        for (operation, counted) in &stats.operations {
            let _ = writeln!(
                out,
                "{name}{{operation=\"{}\"}} {}",
                escaped(operation),
                of(counted)
            );
        }
    }
    let name = "semel_unresolved_operations";
    head(
        &mut out,
        name,
        "Operations whose effect is unknown, by their name.",
        "gauge",
    );
    for (operation, counted) in &stats.operations {
        let _ = writeln!(
            out,
            "{name}{{operation=\"{}\"}} {}",
            escaped(operation),
            counted.unresolved
        );
    }
    head(
        &mut out,
        "semel_commit_seconds",
        "How long batches took.",
        "histogram",
    );
    histogram(&mut out, "semel_commit_seconds", "", &stats.commit);
    for (name, help, of) in TIMES {
        head(&mut out, name, help, "histogram");
        for (operation, counted) in &stats.operations {
            histogram(
                &mut out,
                name,
                &format!("operation=\"{}\"", escaped(operation)),
                of(counted),
            );
        }
    }
    out
}

type Count = fn(&OperationStats) -> u64;
type Times = fn(&OperationStats) -> &Histogram;

const SINGLE: [(&str, &str, Count); 7] = [
    (
        "semel_reexecuted_total",
        "Executions of an operation that had been attempted before.",
        |s| s.reexecuted,
    ),
    (
        "semel_takeovers_total",
        "Executions after an attempt that ended with unknown effect.",
        |s| s.takeovers,
    ),
    (
        "semel_possible_double_effects_total",
        "Completions by holders whose lease was over. Its right value is 0.",
        |s| s.possible_double_effects,
    ),
    (
        "semel_lost_leases_total",
        "Tickets that lost their key.",
        |s| s.lost_leases,
    ),
    (
        "semel_twins_total",
        "Claims whose payload came under another id before.",
        |s| s.twins,
    ),
    (
        "semel_results_not_kept_total",
        "Results that were too large or could not be encoded.",
        |s| s.results_not_kept,
    ),
    (
        "semel_swept_records_total",
        "Records that were swept, by operation.",
        |s| s.swept,
    ),
];

const TIMES: [(&str, &str, Times); 2] = [
    (
        "semel_claim_seconds",
        "How long claims took; one in eight is timed.",
        |s| &s.claim,
    ),
    (
        "semel_work_seconds",
        "How long the work took, from claim to end.",
        |s| &s.work,
    ),
];

fn blocked_topics(out: &mut String, stats: &Stats) {
    gauge(
        out,
        "semel_outbox_blocked_topics",
        "Topics whose first message could not be sent, and holds up those behind it.",
        stats.blocked_topics.len() as f64,
    );
    let name = "semel_outbox_blocked_failures";
    head(
        out,
        name,
        "How often the message that blocks a topic could not be sent.",
        "gauge",
    );
    for (topic, failures) in &stats.blocked_topics {
        let _ = writeln!(out, "{name}{{topic=\"{}\"}} {failures}", escaped(topic));
    }
}

fn claims(out: &mut String, stats: &Stats) {
    let name = "semel_claims_total";
    head(out, name, "Claims by their answer.", "counter");
    for (operation, s) in &stats.operations {
        let known = s.executed + s.replayed + s.failed + s.busy + s.mismatch + s.in_doubt + s.gone;
        let answers = [
            ("execute", s.executed),
            ("replay", s.replayed),
            ("failed", s.failed),
            ("busy", s.busy),
            ("mismatch", s.mismatch),
            ("in_doubt", s.in_doubt),
            ("gone", s.gone),
            ("twin", s.claims.saturating_sub(known)),
        ];
        for (answer, count) in answers {
            let _ = writeln!(
                out,
                "{name}{{operation=\"{}\",answer=\"{answer}\"}} {count}",
                escaped(operation)
            );
        }
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn gauge(out: &mut String, name: &str, help: &str, value: f64) {
    head(out, name, help, "gauge");
    let _ = writeln!(out, "{name} {value}");
}

fn counter(out: &mut String, name: &str, help: &str, value: u64) {
    head(out, name, help, "counter");
    let _ = writeln!(out, "{name} {value}");
}

fn histogram(out: &mut String, name: &str, labels: &str, times: &Histogram) {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut total = 0;
    for (bound_us, count) in times.classes() {
        total += count;
        let bound = bound_us.map_or("+Inf".to_owned(), |us| format!("{}", us as f64 / 1e6));
        let _ = writeln!(
            out,
            "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}"
        );
    }
    let braces = if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    };
    let _ = writeln!(
        out,
        "{name}_sum{braces} {}\n{name}_count{braces} {total}",
        times.total_us() as f64 / 1e6
    );
}

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
