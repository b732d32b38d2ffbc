//! Results replay exactly: the first caller and every repeat get equal values of equal types.

use std::collections::BTreeMap;
use std::fmt::Debug;

use semel::{Content, Request, Store, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fixture::{answered, directory, execute, memory};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    Newtype(Option<Box<Shape>>),
    Tuple(i8, f32),
    Struct { name: String, parts: Vec<Shape> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Wrapped(u64);

/// Runs it twice on both sorts of store, and on disk once more after reopening.
#[track_caller]
fn same<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned>(value: T) {
    let (_dir, path) = directory();
    for place in ["memory:", &path, &path] {
        let store = Store::open(place).expect("opens");
        for round in 0..2 {
            let got = store.run(&Request::new("op", "id"), |_| {
                Ok::<_, std::io::Error>(value.clone())
            });
            assert_eq!(got.expect("a value"), value, "{place}, {round}");
        }
    }
}

#[test]
fn what_reads_as_nothing_in_other_places_is_a_result_like_any_other() {
    same(());
    same(false);
    same(0);
    same(String::new());
    same(Vec::<String>::new());
    same(BTreeMap::<String, u8>::new());
    same(None::<u8>);
    same(Some(0));
    same(Marker);
    same(vec![None, Some(0), None]);
}

#[test]
fn numbers_keep_their_value_to_the_last_bit() {
    same((u64::MAX, i64::MIN, u128::MAX, i128::MIN, u8::MAX, i8::MIN));
    same((f64::MIN_POSITIVE, f64::MAX, 0.1 + 0.2, f32::EPSILON));
    same(9_007_199_254_740_993_u64);
    for float in [-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324] {
        let store = memory();
        for _ in 0..2 {
            let got = store.run(&Request::new("op", "id"), |_| {
                Ok::<_, std::io::Error>(float)
            });
            assert_eq!(got.expect("a value").to_bits(), float.to_bits());
        }
    }
}

#[test]
fn texts_enums_and_structs_keep_their_shape() {
    same("a\0b\u{10ffff}\u{301}".to_owned());
    same(('\u{1f980}', 'x'));
    same(Wrapped(7));
    same(BTreeMap::from([(1, "one".to_owned()), (-1, String::new())]));
    same(Shape::Unit);
    same(Shape::Newtype(None));
    same(Shape::Newtype(Some(Box::new(Shape::Tuple(-1, 0.5)))));
    same(Shape::Struct {
        name: String::new(),
        parts: vec![Shape::Unit, Shape::Newtype(Some(Box::new(Shape::Unit)))],
    });
    same(Ok::<u8, String>(0));
    same(Err::<u8, String>(String::new()));
    same(std::time::Duration::new(1, 999_999_999));
}

#[test]
fn bytes_are_kept_as_they_are_also_none_of_them() {
    let store = memory();
    for (id, bytes) in [("empty", &b""[..]), ("some", b"\0\xff\0")] {
        let request = Request::new("op", id);
        execute(&store, &request)
            .complete_value(Value::bytes(bytes))
            .expect("completes");
        let replay = answered!(Replay, store.claim(&request).expect("claims"));
        assert_eq!(
            (replay.value.as_bytes(), replay.value.content()),
            (bytes, Content::Bytes)
        );
        let wrong = replay.decode::<String>().expect_err("bytes are no text");
        assert!(wrong.message().contains("as_bytes"), "{wrong}");
    }
}

#[test]
fn a_replay_that_does_not_read_as_the_type_asked_for_is_an_error_and_does_not_run() {
    let store = memory();
    let request = Request::new("op", "id");
    execute(&store, &request)
        .complete("text")
        .expect("completes");
    let got = store.run(&request, |_| -> Result<u32, std::io::Error> {
        panic!("it has run")
    });
    let Err(semel::RunError::Store(error)) = got else {
        panic!("{got:?}")
    };
    assert_eq!(error.kind(), semel::ErrorKind::InvalidInput);
    assert!(error.message().contains("type"), "{error}");
}

#[test]
fn a_lookup_shows_the_value_and_its_kind() {
    let store = memory();
    let request = Request::new("op", "id").scope("t");
    execute(&store, &request)
        .complete(&("paid", 100))
        .expect("completes");
    let info = store
        .lookup(&(&request).into())
        .expect("looks up")
        .expect("a record");
    assert_eq!(
        (info.state, info.scope.as_deref(), info.id.as_str()),
        ("succeeded", Some("t"), "id")
    );
    let value = info.value.expect("a value");
    assert_eq!(value.content(), Content::Cbor);
    assert_eq!(
        value.decode::<(String, u32)>().expect("decodes"),
        ("paid".to_owned(), 100)
    );
    assert!(info.finished_us.is_some() && info.forgotten_at_us > info.finished_us);
}
