//! What any function with the attribute does: once, the same answer, no other request under the same key.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use semel::{Identity, Store};

use super::fixture::{Fault, Order, Receipt, memory, no_answer};

static STORE: LazyLock<Store> = LazyLock::new(memory);

/// Makes one receipt for each run.
#[semel::idempotent(store = STORE, operation = "order.create", key = "order.order_no", scope = "order.tenant")]
fn create(runs: &AtomicRuns, order: Order) -> Result<Receipt, Fault> {
    let number = runs.0.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(Receipt {
        number,
        note: (order.amount > 100).then_some(order.order_no),
    })
}

/// A counter that takes no part in what is asked for.
#[derive(Default)]
struct AtomicRuns(AtomicU32);

impl serde::Serialize for AtomicRuns {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_unit()
    }
}

#[test]
fn a_repeat_gets_the_first_answer_and_runs_nothing() {
    let runs = AtomicRuns::default();
    let first = create(&runs, Order::new("repeat", 200)).expect("runs");
    let note = Some("repeat".to_owned());
    assert_eq!(first, Receipt { number: 1, note });
    for _ in 0..3 {
        assert_eq!(
            create(&runs, Order::new("repeat", 200)).expect("replays"),
            first
        );
    }
    assert_eq!(runs.0.into_inner(), 1);
}

#[test]
fn the_same_key_with_other_arguments_is_a_mismatch_that_names_them() {
    let runs = AtomicRuns::default();
    create(&runs, Order::new("mismatch", 1)).expect("runs");
    let mismatch = no_answer!(Mismatch, create(&runs, Order::new("mismatch", 2)));
    assert_eq!(mismatch.fields, ["order"]);
    assert_eq!(runs.0.into_inner(), 1);
}

#[test]
fn scopes_keep_the_same_key_apart() {
    let runs = AtomicRuns::default();
    let mut order = Order::new("scoped", 1);
    let ours = create(&runs, order.clone()).expect("runs");
    order.tenant = "tenant-8".to_owned();
    let theirs = create(&runs, order).expect("runs");
    assert_eq!((ours.number, theirs.number), (1, 2));
    for tenant in ["tenant-7", "tenant-8"] {
        let identity = Identity::new("order.create", "scoped").scope(tenant);
        let info = STORE
            .lookup(&identity)
            .expect("looks up")
            .expect("a record");
        assert_eq!(info.state, "succeeded");
    }
}

#[test]
fn a_key_that_cannot_be_one_is_an_error_before_anything_runs() {
    let runs = AtomicRuns::default();
    let error = no_answer!(Store, create(&runs, Order::new("", 1)));
    assert!(error.to_string().contains("blank"), "{error}");
    assert_eq!(runs.0.into_inner(), 0);
}

#[test]
fn of_thirty_two_threads_one_runs_and_all_others_get_its_answer() {
    #[semel::idempotent(store = STORE, operation = "crowd", key = "id", wait = "20s", payload = none)]
    fn one(id: u32, runs: &AtomicU32) -> Result<u32, Fault> {
        Ok(runs.fetch_add(1, Ordering::SeqCst) + 1)
    }
    let runs = AtomicU32::new(0);
    let answers: Vec<u32> = thread::scope(|scope| {
        let all: Vec<_> = (0..32)
            .map(|_| scope.spawn(|| one(7, &runs).expect("an answer")))
            .collect();
        all.into_iter()
            .map(|one| one.join().expect("ends"))
            .collect()
    });
    assert_eq!(answers, [1; 32]);
    assert_eq!(runs.into_inner(), 1);
}

#[test]
fn a_repeat_while_it_runs_is_busy() {
    #[semel::idempotent(store = STORE, operation = "busy", key = id)]
    fn nested(id: &str, deep: bool) -> Result<(), Fault> {
        if !deep {
            no_answer!(Mismatch, nested(id, true));
            let busy = no_answer!(Busy, nested(id, false));
            assert_eq!(busy.attempt, 1);
        }
        Ok(())
    }
    nested("nested", false).expect("runs");
}
