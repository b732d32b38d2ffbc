//! The payment callback of a shop, killed at every step: all or nothing, and the next callback gets the one answer.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use semel::{Edges, Store};

const STEPS: [&str; 8] = [
    "opened",
    "claimed",
    "unique",
    "fired",
    "posted",
    "emitted",
    "completed",
    "committed",
];

fn example() -> std::path::PathBuf {
    semel_tests::sibling("examples/payment_callback")
}

fn kill_at(step: &str, dir: &str) {
    let mut child = Command::new(example())
        .args([dir, "ORDER_1", "PAY_77", "100", "--stop-at", step])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example runs; build it with the suite");
    let mut said = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut said)
        .expect("it says where it is");
    assert_eq!(said.trim(), format!("at {step}"));
    child.kill().expect("SIGKILL");
    child.wait().expect("ended");
}

/// What the store holds of the order: state, money, messages, and whether the callback has its answer.
fn found(dir: &str) -> (Option<String>, i64, usize) {
    let store = Store::open(dir).expect("opens after the kill");
    let machine = Edges::new(
        "order",
        &[
            ("WAIT_PAY", &["PAID", "CANCELLED"]),
            ("PAID", &["REFUNDED"]),
        ],
        "WAIT_PAY",
    )
    .expect("declared");
    let state = store
        .transaction(|tx| tx.machine(&machine).state("ORDER_1"))
        .expect("reads");
    let money = store.ledger("shop").balance("revenue").expect("reads");
    let messages = store.outbox("orders.paid").len().expect("reads");
    (state, money, messages)
}

#[test]
fn killed_at_any_step_the_callback_took_effect_whole_or_not_at_all() {
    for step in STEPS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("store").to_str().expect("UTF-8").to_owned();
        kill_at(step, &path);
        let nothing = (Some("WAIT_PAY".to_owned()), 0, 0);
        let all = (Some("PAID".to_owned()), 100, 1);
        let expected = if step == "committed" { &all } else { &nothing };
        assert_eq!(found(&path), *expected, "killed at {step}");
        // The provider calls again, and again.
        let mut answers = Vec::new();
        for _ in 0..40 {
            let again = Command::new(example())
                .args([&path, "ORDER_1", "PAY_77", "100"])
                .output()
                .expect("runs");
            if again.status.success() {
                answers.push(String::from_utf8(again.stdout).expect("UTF-8"));
            }
            if answers.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(30)); // until the dead attempt's lease is over
        }
        assert_eq!(
            answers, ["ok: order ORDER_1 is paid by PAY_77\n"; 2],
            "killed at {step}"
        );
        assert_eq!(found(&path), all, "after calling again, killed at {step}");
    }
}

#[test]
fn a_second_payment_is_told_from_the_same_payment_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("store").to_str().expect("UTF-8").to_owned();
    let call = |pay_no: &str, amount: &str| {
        let output = Command::new(example())
            .args([&path, "ORDER_1", pay_no, amount])
            .output()
            .expect("runs");
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(
        call("PAY_77", "100").0,
        "ok: order ORDER_1 is paid by PAY_77\n"
    );
    assert_eq!(
        call("PAY_78", "100").0,
        "order ORDER_1 was paid by PAY_77; refund PAY_78\n"
    );
    assert!(call("PAY_77", "101").1.contains("mismatch"));
    assert_eq!(found(&path), (Some("PAID".to_owned()), 100, 1));
}
