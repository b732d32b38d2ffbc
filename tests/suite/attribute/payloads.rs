//! What counts as the same request: all arguments, what is named, or nothing.

use semel::{Identity, Store};

use super::fixture::{Fault, Order, memory, no_answer};

/// The one key of these tests.
const ONE: u32 = 1;

/// Names of the members of the payload that was kept.
fn fields(store: &Store, operation: &str) -> Vec<String> {
    let info = store.lookup(&Identity::new(operation, "1"));
    info.expect("looks up").expect("a record").fields
}

#[test]
fn all_arguments_by_name_but_self_and_where_the_store_comes_from() {
    struct Shop;
    impl Shop {
        #[semel::idempotent(store = state.0, operation = "all", key = id)]
        fn all(
            &self,
            state: &(Store, u8),
            id: u32,
            r#type: &str,
            more: Option<&[u8]>,
        ) -> Result<(), Fault> {
            let _ = (r#type, more, state.1);
            Ok(())
        }
    }
    let state = (memory(), 0);
    Shop.all(&state, 1, "a", None).expect("runs");
    assert_eq!(fields(&state.0, "all"), ["id", "more", "type"]);
    Shop.all(&(state.0.clone(), 7), 1, "a", None)
        .expect("replays");
    let mismatch = no_answer!(Mismatch, Shop.all(&state, 1, "b", Some(&[1])));
    assert_eq!(mismatch.fields, ["more", "type"]);
}

#[test]
fn a_place_is_the_payload_itself() {
    #[semel::idempotent(store = store, operation = "place", key = ONE, payload = "order")]
    fn placed(store: &Store, order: Order, note: &str) -> Result<String, Fault> {
        Ok(format!("{} {note}", order.order_no))
    }
    let store = memory();
    assert_eq!(
        placed(&store, Order::new("a", 1), "first").expect("runs"),
        "a first"
    );
    assert_eq!(
        placed(&store, Order::new("a", 1), "second").expect("replays"),
        "a first"
    );
    let mismatch = no_answer!(Mismatch, placed(&store, Order::new("b", 2), "first"));
    assert_eq!(mismatch.fields, ["amount", "order_no"]);
}

#[test]
fn an_expression_is_computed_before_the_arguments_are_moved() {
    #[semel::idempotent(store = store, operation = "computed", key = ONE, payload = order.amount / 10)]
    fn computed(store: &Store, order: Order) -> Result<Order2, Fault> {
        Ok(Order2(order.order_no, order.amount))
    }
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Order2(String, u32);
    let store = memory();
    let first = Order2("a".to_owned(), 11);
    assert_eq!(computed(&store, Order::new("a", 11)).expect("runs"), first);
    assert_eq!(
        computed(&store, Order::new("b", 19)).expect("replays"),
        first
    );
    no_answer!(Mismatch, computed(&store, Order::new("a", 20)));
}

#[test]
fn with_none_nothing_is_compared() {
    #[semel::idempotent(store = store, operation = "bare", key = ONE, payload = none)]
    fn bare(store: &Store, n: u32) -> Result<u32, Fault> {
        Ok(n)
    }
    #[semel::idempotent(store = store, operation = "quoted", key = ONE, payload = "none")]
    fn quoted(store: &Store, n: u32) -> Result<u32, Fault> {
        Ok(n)
    }
    let store = memory();
    for function in [bare, quoted] {
        assert_eq!(function(&store, 5).expect("runs"), 5);
        assert_eq!(function(&store, 6).expect("replays"), 5);
    }
}

#[test]
fn what_has_no_canonical_form_is_an_error_before_anything_runs() {
    #[semel::idempotent(store = store, operation = "float", key = ONE)]
    fn float(store: &Store, n: f64) -> Result<f64, Fault> {
        Ok(n)
    }
    let store = memory();
    let error = no_answer!(Store, float(&store, f64::NAN));
    assert_eq!(error.kind(), semel::ErrorKind::InvalidInput);
    let none = store.lookup(&Identity::new("float", "1"));
    assert!(none.expect("looks up").is_none());
    assert_eq!(float(&store, 0.5).expect("runs"), 0.5);
}
