//! What holds for every value: one canonical form whichever way the value comes, and never that of another value.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use semel::{Canonical, canonical};
use serde::Serialize;
use serde_json::Value;

/// A value of every shape that serde knows.
#[derive(Clone, Debug, Serialize)]
enum Shape {
    Unit,
    Empty(Empty),
    Bool(bool),
    Small(i8, u16),
    Wide(i64, u64),
    Huge(i128, u128),
    Single(f32),
    Double(f64),
    Char(char),
    Text(String),
    Maybe(Option<Box<Shape>>),
    Wrapped(Wrapper),
    List(Vec<Shape>),
    Named(BTreeMap<String, Shape>),
    Numbered(BTreeMap<i32, Shape>),
    Flagged(BTreeMap<bool, Shape>),
    Record {
        text: String,
        inner: Box<Shape>,
        list: Vec<f64>,
    },
    Tagged(Tagged),
}

#[derive(Clone, Debug, Serialize)]
struct Empty;

#[derive(Clone, Debug, Serialize)]
struct Wrapper(Box<Shape>);

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type")]
enum Tagged {
    One { value: u32 },
    Two { other: String },
}

fn shape() -> impl Strategy<Value = Shape> {
    let double =
        proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO;
    let single =
        proptest::num::f32::NORMAL | proptest::num::f32::SUBNORMAL | proptest::num::f32::ZERO;
    let leaf = prop_oneof![
        Just(Shape::Unit),
        Just(Shape::Empty(Empty)),
        any::<bool>().prop_map(Shape::Bool),
        any::<(i8, u16)>().prop_map(|(a, b)| Shape::Small(a, b)),
        any::<(i64, u64)>().prop_map(|(a, b)| Shape::Wide(a, b)),
        any::<(i128, u128)>().prop_map(|(a, b)| Shape::Huge(a, b)),
        single.prop_map(Shape::Single),
        double.prop_map(Shape::Double),
        any::<i32>().prop_map(|whole| Shape::Double(f64::from(whole))),
        any::<char>().prop_map(Shape::Char),
        any::<String>().prop_map(Shape::Text),
        any::<u32>().prop_map(|value| Shape::Tagged(Tagged::One { value })),
        any::<String>().prop_map(|other| Shape::Tagged(Tagged::Two { other })),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::option::of(inner.clone()).prop_map(|inner| Shape::Maybe(inner.map(Box::new))),
            inner
                .clone()
                .prop_map(|inner| Shape::Wrapped(Wrapper(Box::new(inner)))),
            vec(inner.clone(), 0..6).prop_map(Shape::List),
            btree_map(any::<String>(), inner.clone(), 0..6).prop_map(Shape::Named),
            btree_map(any::<i32>(), inner.clone(), 0..6).prop_map(Shape::Numbered),
            btree_map(any::<bool>(), inner.clone(), 0..3).prop_map(Shape::Flagged),
            (any::<String>(), inner, vec(double, 0..3)).prop_map(|(text, inner, list)| {
                Shape::Record {
                    text,
                    inner: Box::new(inner),
                    list,
                }
            }),
        ]
    })
}

/// A JSON value; numbers of any length, since `serde_json` keeps their text here.
fn json() -> impl Strategy<Value = Value> {
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number.prop_map(|text| serde_json::from_str(&text).expect("a number")),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::Array),
            btree_map(any::<String>(), inner, 0..8)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// The text of a value with its members the other way round and every character of its strings as an escape.
fn otherwise(value: &Value, out: &mut String) {
    let list = |out: &mut String, count: usize, each: &mut dyn FnMut(&mut String, usize)| {
        for at in 0..count {
            out.push_str(if at == 0 { "\n" } else { " ,\t" });
            each(out, at);
        }
    };
    match value {
        Value::String(text) => escaped(text, out),
        Value::Array(elements) => {
            out.push('[');
            list(out, elements.len(), &mut |out, at| {
                otherwise(&elements[at], out)
            });
            out.push(']');
        }
        Value::Object(members) => {
            let members: Vec<_> = members.iter().rev().collect();
            out.push('{');
            list(out, members.len(), &mut |out, at| {
                escaped(members[at].0, out);
                out.push_str(" : ");
                otherwise(members[at].1, out);
            });
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn escaped(text: &str, out: &mut String) {
    out.push('"');
    for unit in text.encode_utf16() {
        out.push_str(&format!("\\u{unit:04X}"));
    }
    out.push('"');
}

fn form(text: &str) -> Vec<u8> {
    canonical(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The digits and the power of ten of a number, by arithmetic on its text alone.
fn exact(text: &str) -> (bool, String, i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = mantissa.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let all = all.trim_start_matches('0');
    let significant = all.trim_end_matches('0');
    if significant.is_empty() {
        return (false, String::new(), 0);
    }
    let power = exponent.parse::<i64>().unwrap() - fraction.len() as i64
        + (all.len() - significant.len()) as i64;
    (mantissa.starts_with('-'), significant.to_owned(), power)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_value_and_its_json_text_have_one_form(value in shape()) {
        let text = serde_json::to_vec(&value).unwrap();
        let direct = Canonical::from_serialize(&value).unwrap();
        let read = Canonical::from_json(&text).unwrap();
        prop_assert_eq!(direct.as_bytes(), read.as_bytes());
        prop_assert!(direct.fields().eq(read.fields()));
    }

    #[test]
    fn a_json_value_has_one_form_however_it_is_written(value in json()) {
        let direct = Canonical::from_serialize(&value).unwrap();
        let mut turned = String::new();
        otherwise(&value, &mut turned);
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap(), turned] {
            prop_assert_eq!(direct.as_bytes(), form(&text));
        }
        let again = std::str::from_utf8(direct.as_bytes()).unwrap();
        prop_assert_eq!(direct.as_bytes(), form(again));
    }

    #[test]
    fn members_are_where_fields_says(value in btree_map(any::<String>(), json(), 0..20)) {
        let payload = Canonical::from_serialize(&value).unwrap();
        let expected: Vec<_> = value.iter().map(|(name, value)| (name.clone(), form(&value.to_string()))).collect();
        let fields: Vec<_> = payload.fields().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
        prop_assert_eq!(fields, expected);
    }

    #[test]
    fn texts_are_equal_only_to_themselves(a in any::<String>(), b in any::<String>()) {
        let [one, other] = [&a, &b].map(|text| Canonical::from_serialize(text).unwrap());
        prop_assert_eq!(one == other, a == b);
        let decoded: String = serde_json::from_slice(one.as_bytes()).unwrap();
        prop_assert_eq!(decoded, a);
    }

    #[test]
    fn numbers_keep_their_exact_value_and_lose_their_spelling(
        a in "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?",
        b in "-?(0|[1-9]0{0,3})(\\.0{0,3}[0-9])?([eE][+-]?[0-3])?",
        c in "-?(0|[1-9]0{0,3})(\\.0{0,3}[0-9])?([eE][+-]?[0-3])?",
    ) {
        let spelled = String::from_utf8(form(&a)).unwrap();
        prop_assert_eq!(exact(&spelled), exact(&a));
        prop_assert_eq!(form(&b) == form(&c), exact(&b) == exact(&c));
    }

    #[test]
    fn a_double_reads_back_as_itself(value in proptest::num::f64::ANY) {
        match Canonical::from_serialize(&value) {
            Ok(form) => {
                let text = std::str::from_utf8(form.as_bytes()).unwrap();
                prop_assert_eq!(text.parse::<f64>().unwrap(), value);
            }
            Err(_) => prop_assert!(!value.is_finite()),
        }
    }

    #[test]
    fn any_text_is_refused_or_has_a_stable_form(
        bytes in vec(any::<u8>(), 0..64),
        text in "[\\[\\]{}:,\"\\\\ue0-9.+truefalsn -]{0,40}",
        (index, at, byte) in (0_u64..10_000, any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let mut broken = semel_tests::generator::text(index);
        let at = at.index(broken.len());
        broken[at] = byte;
        for input in [&bytes[..], text.as_bytes(), &broken] {
            let known = serde_json::from_slice::<Value>(input).is_ok();
            match canonical(input) {
                Ok(form) => {
                    prop_assert!(known);
                    prop_assert_eq!(&canonical(&form).unwrap(), &form);
                }
                Err(error) => {
                    let stricter = ["repeated", "exponent"].iter().any(|why| error.message().contains(why));
                    prop_assert!(stricter || !known, "{}", error);
                }
            }
        }
    }
}
