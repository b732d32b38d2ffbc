//! Functions of every shape: methods, generics, lifetimes, `impl` arguments, patterns, aliases of `Result`.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{GLOBAL, Identity, Scope, Store};
use serde::Serialize;

use super::fixture::{Fault, Order, memory, no_answer};

type Answer<T> = Result<T, Fault>;

struct Shop {
    store: Store,
    id: u64,
    sold: AtomicU32,
}

impl Shop {
    fn new() -> Self {
        Self {
            store: memory(),
            id: 9,
            sold: AtomicU32::new(0),
        }
    }

    #[semel::idempotent(store = self.store, operation = "sell", key = order_no, scope = self.id)]
    fn sell(&self, order_no: &str, amount: u32) -> Answer<u32> {
        self.sold.fetch_add(amount, Ordering::SeqCst);
        Ok(self.sold.load(Ordering::SeqCst))
    }

    #[semel::idempotent(store = "self.store", operation = "restock", key = "delivery")]
    fn restock(&mut self, delivery: u32, mut amount: u32) -> Answer<Self2> {
        amount += 1;
        *self.sold.get_mut() -= amount;
        Ok(Self2(*self.sold.get_mut()))
    }

    #[semel::idempotent(store = self.store, operation = "close", key = self.id)]
    fn close(self) -> Answer<u32> {
        Ok(self.sold.into_inner())
    }

    fn store(&self) -> &Store {
        &self.store
    }

    #[semel::idempotent(store = self.store(), operation = OPERATION, key = format!("{}/{n}", self.id))]
    fn by_expressions(&self, n: u8) -> Answer<u8> {
        Ok(n)
    }
}

const OPERATION: &str = "by.expressions";

#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
struct Self2(u32);

#[test]
fn methods_take_self_in_every_way() {
    let mut shop = Shop::new();
    assert_eq!(shop.sell("A", 5).expect("runs"), 5);
    assert_eq!(shop.sell("B", 5).expect("runs"), 10);
    assert_eq!(shop.sell("A", 5).expect("replays"), 5);
    no_answer!(Mismatch, shop.sell("A", 6));
    let sold = Identity::new("sell", "A").scope("9");
    assert!(shop.store.lookup(&sold).expect("looks up").is_some());
    assert_eq!(shop.restock(1, 2).expect("runs"), Self2(7));
    assert_eq!(shop.restock(1, 2).expect("replays"), Self2(7));
    assert_eq!(shop.by_expressions(3).expect("runs"), 3);
    let named = Identity::new("by.expressions", "9/3");
    assert!(shop.store.lookup(&named).expect("looks up").is_some());
    let other = Shop {
        store: shop.store.clone(),
        id: 9,
        sold: AtomicU32::new(99),
    };
    assert_eq!(shop.close().expect("runs"), 7);
    assert_eq!(
        other.close().expect("replays"),
        7,
        "the first answer, not this shop's"
    );
}

trait Sells {
    fn sell(&self, id: u32) -> Answer<u32>;
}

impl Sells for Shop {
    #[semel::idempotent(store = self.store, operation = "trait.sell", key = id)]
    fn sell(&self, id: u32) -> Answer<u32> {
        Ok(self.sold.fetch_add(1, Ordering::SeqCst) + id)
    }
}

#[test]
fn a_method_of_a_trait_is_made_so_where_it_is_implemented() {
    let shop = Shop::new();
    for _ in 0..2 {
        assert_eq!(Sells::sell(&shop, 40).expect("answers"), 40);
    }
}

#[test]
fn generics_lifetimes_and_impl_arguments_stay_as_they_are() {
    #[semel::idempotent(store = store, operation = "generic", key = "key", payload = (key, value))]
    fn doubled<'a, K: Display + Serialize, const N: usize>(
        store: &'a Store,
        key: K,
        value: &'a [u8; N],
        run: impl FnOnce(&'a [u8; N]) -> Vec<u8>,
    ) -> Answer<Vec<u8>>
    where
        [u8; N]: Serialize,
    {
        Ok(run(value))
    }
    let store = memory();
    let first = doubled(&store, 1u64, &[1, 2], |v| [v.as_slice(), v].concat());
    assert_eq!(first.expect("runs"), [1, 2, 1, 2]);
    let again = doubled(&store, 1u64, &[1, 2], |_| panic!("a repeat runs nothing"));
    assert_eq!(again.expect("replays"), [1, 2, 1, 2]);
    no_answer!(Mismatch, doubled(&store, 1u64, &[1, 3], |v| v.to_vec()));
}

#[test]
fn arguments_are_taken_apart_when_the_payload_is_named() {
    #[semel::idempotent(store = store, operation = "patterns", key = order_no, payload = (order_no, amount))]
    fn apart(
        store: &Store,
        Order {
            order_no, amount, ..
        }: Order,
        (_, [first, ..]): (u8, [u8; 2]),
    ) -> Answer<String> {
        Ok(format!("{order_no}: {amount}, {first}"))
    }
    let store = memory();
    let order = || Order::new("P", 3);
    assert_eq!(
        apart(&store, order(), (0, [1, 2])).expect("runs"),
        "P: 3, 1"
    );
    assert_eq!(
        apart(&store, order(), (0, [9, 9])).expect("replays"),
        "P: 3, 1"
    );
    no_answer!(Mismatch, apart(&store, Order::new("P", 4), (0, [1, 2])));
}

#[test]
fn a_scope_is_a_place_a_text_or_a_scope() {
    fn tenant(order: &Order) -> String {
        order.tenant.clone()
    }
    #[semel::idempotent(store = store, operation = "scope", key = one(), scope = tenant(&order), payload = none)]
    fn computed(store: &Store, order: Order) -> Answer<u32> {
        Ok(order.amount)
    }
    #[semel::idempotent(store = store, operation = "scope", key = one(), scope = scope, payload = none)]
    fn given(store: &Store, scope: Scope<'_>) -> Answer<u32> {
        Ok(0)
    }
    #[semel::idempotent(store = store, operation = "scope", key = one(), scope = scope, payload = none)]
    fn borrowed(store: &Store, scope: &Scope<'_>) -> Answer<u32> {
        Ok(1)
    }
    #[semel::idempotent(store = store, operation = "scope", key = one(), scope = GLOBAL)]
    fn global(store: &Store) -> Answer<u32> {
        Ok(2)
    }
    fn one() -> u8 {
        1
    }
    let store = memory();
    computed(&store, Order::new("x", 5)).expect("runs");
    assert_eq!(given(&store, Scope::from("tenant-7")).expect("replays"), 5);
    assert_eq!(global(&store).expect("runs"), 2);
    assert_eq!(given(&store, GLOBAL).expect("replays"), 2);
    assert_eq!(borrowed(&store, &GLOBAL).expect("replays"), 2);
}
