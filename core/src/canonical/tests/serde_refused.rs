//! Values of serde that are refused, and where.

use std::collections::{BTreeMap, BTreeSet};

use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::serde::{Item, Kind, Order, canonical, refused};
use crate::canonical::{Canonical, MAX_BYTES, MAX_DEPTH};

#[test]
fn what_has_no_exact_form_is_refused_at_its_path() {
    refused(&f64::NAN, "$", "NaN and the infinities");
    refused(&[1.0, f32::INFINITY], "$[1]", "NaN and the infinities");
    let item = |price| Item { price };
    let order = Order {
        total: 0.0,
        items: vec![item(1.0), item(f32::NAN)],
        rest: BTreeMap::new(),
    };
    refused(&order, "$.items[1].price", "NaN and the infinities");
    refused(
        &BTreeMap::from([("a b", [f64::NEG_INFINITY])]),
        "$[\"a b\"][0]",
        "send a finite number, null or text",
    );
    let rest = BTreeMap::from([("total".to_owned(), 1)]);
    refused(
        &[Order {
            total: 0.0,
            items: vec![],
            rest,
        }],
        "$[0]",
        "the member name \"total\" is repeated",
    );
    refused(
        &BTreeMap::from([("k", BTreeMap::from([((1, 2), 1)]))]),
        "$.k",
        "a map key is a tuple",
    );
    refused(
        &BTreeMap::from([(None, 1), (Some("a"), 2)]),
        "$",
        "a map key is None",
    );
    refused(&BTreeMap::from([((), 1)]), "$", "a map key is the unit");
    refused(
        &BTreeMap::from([(vec![1], 1)]),
        "$",
        "a map key is a sequence",
    );
    refused(
        &BTreeMap::from([(BTreeSet::from([1]), 1)]),
        "$",
        "a map key is a sequence",
    );
    refused(
        &BTreeMap::from([(Kind::Newtype(1), 1)]),
        "$",
        "a map key is an enum variant with content",
    );
    refused(
        &BTreeMap::from([(Kind::Struct { a: 1, b: 1 }, 1)]),
        "$",
        "a map key is an enum variant with content",
    );
    let long = BTreeMap::from([("n".repeat(1000), f64::NAN)]);
    let error = Canonical::from_serialize(&vec![long; 1]).unwrap_err();
    assert!(error.message().len() < 300, "{error}");
}

struct Keys<K>(Vec<K>);

impl<K: Serialize> Serialize for Keys<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|key| (key, 0)))
    }
}

#[test]
fn names_repeated_in_a_map_are_refused() {
    refused(
        &Keys(vec!["a", "b", "a"]),
        "$",
        "the member name \"a\" is repeated",
    );
    refused(&Keys(vec![1.5]), "$", "a map key is a float");
    assert_eq!(canonical(&Keys(vec!["b", "a"])), "{\"a\":0,\"b\":0}");
}

#[test]
fn depth_is_limited_and_ends_the_recursion() {
    struct Nested(usize, Wrap);
    #[derive(Clone, Copy)]
    enum Wrap {
        Array,
        Some,
    }
    impl Serialize for Nested {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self {
                Nested(0, _) => serializer.serialize_unit(),
                Nested(depth, Wrap::Array) => {
                    serializer.collect_seq([Nested(depth - 1, Wrap::Array)])
                }
                Nested(depth, Wrap::Some) => {
                    serializer.serialize_some(&Nested(depth - 1, Wrap::Some))
                }
            }
        }
    }
    let arrays = |depth: usize| format!("{}null{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(
        canonical(&Nested(MAX_DEPTH, Wrap::Array)),
        arrays(MAX_DEPTH)
    );
    refused(
        &Nested(1_000_000, Wrap::Array),
        "$[0][0]*",
        "more than 128 deep",
    );
    assert_eq!(canonical(&Nested(4 * MAX_DEPTH, Wrap::Some)), "null");
    refused(&Nested(1_000_000, Wrap::Some), "$", "are inside each other");
}

#[test]
fn size_is_limited() {
    refused(
        &"x".repeat(MAX_BYTES + 1),
        "$",
        "longer than 16777216 bytes",
    );
    refused(&"x".repeat(MAX_BYTES), "$", "longer than 16777216 bytes");
    assert_eq!(canonical(&"x".repeat(MAX_BYTES - 2)).len(), MAX_BYTES);
    struct Endless;
    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(std::iter::repeat("endless"))
        }
    }
    refused(&Endless, "$[*", "longer than 16777216 bytes");
}

#[test]
fn a_failing_serialize_implementation_is_named() {
    struct Fails;
    impl Serialize for Fails {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("lock \"poisoned\""))
        }
    }
    refused(
        &BTreeMap::from([("a", [Fails])]),
        "$.a[0]",
        r#"failed with "lock \"poisoned\"""#,
    );
}

#[test]
fn a_serialize_implementation_out_of_turn_is_refused() {
    struct Deaf;
    impl Serialize for Deaf {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut array = serializer.serialize_seq(None)?;
            let _ = array.serialize_element(&[[f64::NAN]]);
            let _ = array.serialize_element(&1);
            array.end()
        }
    }
    refused(&[Deaf], "$[0]*", "goes on after an error");
    struct Calls(&'static str);
    impl Serialize for Calls {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            for call in self.0.bytes() {
                let _ = if call == b'k' {
                    map.serialize_key("k")
                } else {
                    map.serialize_value(&1)
                };
            }
            map.end()
        }
    }
    assert_eq!(canonical(&Calls("kv")), "{\"k\":1}");
    for calls in ["k", "v", "kk", "kvv", "vkv", "kkv"] {
        refused(&Calls(calls), "$*", "out of turn");
    }
}
