//! Values of serde: what they become.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::canonical::{Canonical, Number};

pub(super) fn canonical<T: Serialize + ?Sized>(value: &T) -> String {
    let payload = Canonical::from_serialize(value).unwrap();
    String::from_utf8(payload.as_bytes().to_vec()).unwrap()
}

#[track_caller]
pub(super) fn refused<T: Serialize + ?Sized>(value: &T, place: &str, what: &str) {
    let error = Canonical::from_serialize(value).unwrap_err();
    // A place that ends with a star is the beginning of the place.
    let place = place
        .strip_suffix('*')
        .map_or(format!("{place}: "), str::to_owned);
    let start = format!("payload refused at {place}");
    assert!(error.message().starts_with(&start), "{error}");
    assert!(error.message().contains(what), "{error}");
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Unit,
    Newtype(i32),
    Tuple(i32, bool),
    Struct { b: u8, a: u8 },
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Id(u32);

#[derive(Serialize)]
struct Empty;

#[derive(Serialize)]
struct Pair(i8, char);

#[derive(Serialize)]
pub(super) struct Order {
    pub(super) total: f64,
    pub(super) items: Vec<Item>,
    #[serde(flatten)]
    pub(super) rest: BTreeMap<String, u8>,
}

#[derive(Serialize)]
pub(super) struct Item {
    pub(super) price: f32,
}

#[test]
fn values_become_what_serde_json_makes_of_them() {
    assert_eq!(canonical(&(true, false, ())), "[true,false,null]");
    assert_eq!(canonical(&[Some(1), None]), "[1,null]");
    assert_eq!(canonical(&Some(Some("x"))), "\"x\"");
    assert_eq!(
        canonical(&(i8::MIN, u8::MAX, i64::MIN, u64::MAX)),
        "[-128,255,-9223372036854775808,18446744073709551615]"
    );
    assert_eq!(
        canonical(&i128::MIN),
        "-1.70141183460469231731687303715884105728e+38"
    );
    assert_eq!(
        canonical(&u128::MAX),
        "3.40282366920938463463374607431768211455e+38"
    );
    assert_eq!(
        canonical(&999_999_999_999_999_999_999_i128),
        "999999999999999999999"
    );
    assert_eq!(canonical(&('"', "a\u{1}é")), "[\"\\\"\",\"a\\u0001é\"]");
    assert_eq!(canonical(&Empty), "null");
    assert_eq!(canonical(&Pair(-1, 'x')), "[-1,\"x\"]");
    assert_eq!(canonical(&Id(7)), "7");
    assert_eq!(canonical(&Kind::Unit), "\"Unit\"");
    assert_eq!(canonical(&Kind::Newtype(1)), "{\"Newtype\":1}");
    assert_eq!(canonical(&Kind::Tuple(1, true)), "{\"Tuple\":[1,true]}");
    assert_eq!(
        canonical(&Kind::Struct { b: 1, a: 2 }),
        "{\"Struct\":{\"a\":2,\"b\":1}}"
    );
    let order = Order {
        total: 1.5,
        items: vec![Item { price: 0.1 }],
        rest: BTreeMap::from([("note".to_owned(), 1)]),
    };
    assert_eq!(
        canonical(&order),
        "{\"items\":[{\"price\":0.1}],\"note\":1,\"total\":1.5}"
    );
    struct Bytes;
    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&[0, 10, 255])
        }
    }
    assert_eq!(canonical(&Bytes), "[0,10,255]");
}

#[test]
fn floats_stand_for_their_shortest_text() {
    for (value, expected) in [
        (0.0, "0"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (-12345.0, "-12345"),
        (9_007_199_254_740_993.0, "9007199254740992"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (0.1 + 0.2, "0.30000000000000004"),
    ] {
        assert_eq!(canonical(&value), expected);
    }
    // A narrow float has a shortest text of its own, not that of the wide float next to it.
    assert_eq!(canonical(&0.1_f32), "0.1");
    assert_eq!(canonical(&f64::from(0.1_f32)), "0.10000000149011612");
    assert_eq!(canonical(&f32::MAX), "3.4028235e+38");
}

#[test]
fn map_keys_become_their_text() {
    assert_eq!(
        canonical(&BTreeMap::from([(10, 1), (9, 2), (-1, 3)])),
        "{\"-1\":3,\"10\":1,\"9\":2}"
    );
    assert_eq!(
        canonical(&BTreeMap::from([(true, 1), (false, 2)])),
        "{\"false\":2,\"true\":1}"
    );
    assert_eq!(
        canonical(&BTreeMap::from([('b', 1), ('a', 2)])),
        "{\"a\":2,\"b\":1}"
    );
    assert_eq!(canonical(&BTreeMap::from([(Id(2), 1)])), "{\"2\":1}");
    assert_eq!(
        canonical(&BTreeMap::from([(Kind::Unit, 1)])),
        "{\"Unit\":1}"
    );
    assert_eq!(canonical(&BTreeMap::from([(Some("a"), 1)])), "{\"a\":1}");
    assert_eq!(
        canonical(&BTreeMap::from([(u128::MAX, 1)])),
        format!("{{\"{}\":1}}", u128::MAX)
    );
}

#[test]
fn numbers_can_come_as_text() {
    assert_eq!(
        canonical(&[Number::new("1.50").unwrap(), Number::new("1E+2").unwrap()]),
        "[1.5,100]"
    );
    let long = "123456789012345678901234567890.5";
    assert_eq!(
        canonical(&Number::new(long).unwrap()),
        "1.234567890123456789012345678905e+29"
    );
    refused(
        &[Number::new("1e100001").unwrap()],
        "$[0]",
        "exponent is beyond 100000",
    );
    for text in ["", "NaN", "1 ", "0x1", "\"1\""] {
        assert!(Number::new(text).is_err(), "{text}");
    }
}

struct Spelled(&'static str, &'static [&'static str]);

impl Serialize for Spelled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut spelled = serializer.serialize_struct(self.0, self.1.len())?;
        for text in self.1 {
            spelled.serialize_field(self.0, text)?;
        }
        spelled.end()
    }
}

#[test]
fn the_raw_values_of_serde_json_are_read() {
    let raw = "$serde_json::private::RawValue";
    assert_eq!(
        canonical(&[Spelled(raw, &["{\"b\":1.0,\"a\":\"\\u0041\"}"])]),
        "[{\"a\":\"A\",\"b\":1}]"
    );
    refused(
        &[Spelled(raw, &["[1,]"])],
        "$[0][1]",
        "expected a value, found ']'",
    );
    refused(&Spelled(raw, &[]), "$", "out of turn");
    refused(&Spelled(raw, &["1", "2"]), "$", "out of turn");
    let payload = Canonical::from_serialize(&Spelled(raw, &["{\"b\":1,\"a\":2}"])).unwrap();
    assert_eq!(
        payload.fields().collect::<Vec<_>>(),
        [("a", &b"2"[..]), ("b", b"1")]
    );
}
