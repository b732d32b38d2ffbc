//! JSON text: what it becomes, and why it is refused.

use crate::canonical::{Canonical, MAX_BYTES, MAX_DEPTH};

fn canonical(text: &str) -> String {
    let payload =
        Canonical::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    String::from_utf8(payload.as_bytes().to_vec()).unwrap()
}

#[track_caller]
fn refused(text: &[u8], place: &str, what: &str) {
    let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
    let error = Canonical::from_json(text).expect_err(&shown);
    // A place that ends with a star is the beginning of the place.
    let place = place
        .strip_suffix('*')
        .map_or(format!("{place}: "), str::to_owned);
    let start = format!("payload refused at {place}");
    assert!(error.message().starts_with(&start), "{shown}: {error}");
    assert!(error.message().contains(what), "{shown}: {error}");
}

#[test]
fn equal_values_become_one_text() {
    for (text, expected) in [
        (" null\t", "null"),
        ("\r\n[ true , false,null ]", "[true,false,null]"),
        ("\"true\"", "\"true\""),
        ("{ }", "{}"),
        ("[ ]", "[]"),
        ("[[],{},\"\",0]", "[[],{},\"\",0]"),
        (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (
            r#"{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":0}"#,
            r#"{"a":0,"b":{"c":[{"e":2,"f":1}],"d":1}}"#,
        ),
        (
            r#"[{"b":1,"a":2},{"d":1,"c":2}]"#,
            r#"[{"a":2,"b":1},{"c":2,"d":1}]"#,
        ),
        (
            r#"{"a":1,"":2,"aa":3,"A":4}"#,
            r#"{"":2,"A":4,"a":1,"aa":3}"#,
        ),
        // The order is that of the names, not of their escapes: U+0001 < '"' < 'A' < '\\'.
        (
            r#"{"\\":1,"A":2,"\"":3,"\u0001":4}"#,
            r#"{"\u0001":4,"\"":3,"A":2,"\\":1}"#,
        ),
        // U+FB33 < U+1F600 in UTF-8; in UTF-16 it is the other way round.
        (
            r#"{"\ud83d\ude00":1,"\ufb33":2}"#,
            "{\"\u{fb33}\":2,\"\u{1f600}\":1}",
        ),
        (
            r#"{"__proto__":{"x":1},"constructor":2}"#,
            r#"{"__proto__":{"x":1},"constructor":2}"#,
        ),
        (r#""\u0041\/\u00e9\u20AC""#, "\"A/é€\""),
        (
            r#""\b\f\n\r\t\"\\\u0008\u001F\u007f""#,
            "\"\\b\\f\\n\\r\\t\\\"\\\\\\b\\u001f\u{7f}\"",
        ),
        (
            r#""\u0000\u2028\ud83d\udE00\uFFFF""#,
            "\"\\u0000\u{2028}😀\u{ffff}\"",
        ),
        // No normalisation: é in one character and in two.
        ("[\"\u{e9}\",\"e\u{301}\"]", "[\"\u{e9}\",\"e\u{301}\"]"),
        ("[-0,1.0,1e0,10E-1,1e21,100e-2]", "[0,1,1,1,1e+21,1]"),
        ("{\"n\":9007199254740993}", "{\"n\":9007199254740993}"),
    ] {
        assert_eq!(canonical(text), expected, "{text}");
        assert_eq!(
            canonical(expected),
            expected,
            "the canonical text is its own canonical form"
        );
    }
}

#[test]
fn what_is_no_strict_json_is_refused_at_its_byte() {
    for (text, offset, what) in [
        ("", 0, "expected a value, found the end"),
        ("  ", 2, "found the end"),
        ("nul", 0, "expected true, false or null"),
        ("nulls", 4, "expected the end of the text, found 's'"),
        ("NaN", 0, "expected a value, found 'N'"),
        ("-Infinity", 1, "expected a number"),
        ("[1,]", 3, "expected a value, found ']'"),
        ("[1 2]", 3, "expected ',' or ']', found '2'"),
        ("[1", 2, "',' or ']', found the end"),
        ("{\"a\" 1}", 5, "expected ':'"),
        ("{\"a\":1,}", 7, "expected a member name in double quotes"),
        ("{a:1}", 1, "expected a member name in double quotes"),
        ("{'a':1}", 1, "expected a member name in double quotes"),
        ("{\"a\":1", 6, "',' or '}'"),
        ("{\"a\":}", 5, "expected a value"),
        ("1 1", 2, "expected the end of the text"),
        ("[]]", 2, "expected the end of the text"),
        ("// no\n1", 0, "expected a value"),
        ("\u{a0}1", 0, "expected a value"),
        ("01", 1, "expected a number"),
        ("-", 1, "expected a number"),
        ("1.", 2, "expected a number"),
        ("[1.e3]", 3, "expected a number"),
        ("1e", 2, "expected a number"),
        ("+1", 0, "expected a value"),
        (".5", 0, "expected a value"),
        ("1e100001", 0, "exponent is beyond 100000"),
        (
            "[0, 1e-999999999999999999999]",
            4,
            "exponent is beyond 100000",
        ),
        ("\"abc", 4, "expected the closing quote"),
        (
            "\"a\\x\"",
            3,
            "expected an escape that JSON knows, found 'x'",
        ),
        ("\"\\", 2, "expected an escape"),
        ("\"\\u12g4\"", 5, "expected four hexadecimal digits"),
        (
            "\"\\u00é0\"",
            5,
            "expected four hexadecimal digits, found 'é'",
        ),
        ("\"\\ud800\"", 1, "surrogate"),
        ("\"ab\\udc00\"", 3, "surrogate"),
        ("\"\\ud800\\u0041\"", 1, "surrogate"),
        ("\"\\ud800\\ud800\"", 1, "surrogate"),
        ("\"\\ud800\\n\"", 1, "surrogate"),
        ("\"\\ud800\\uzzzz\"", 9, "hexadecimal"),
        ("{\"\\udfff\":1}", 2, "surrogate"),
        ("\"a\nb\"", 2, "control character"),
        ("\"\u{0}\"", 1, "control character"),
        ("{\"a\u{1f}\":1}", 3, "control character"),
        (
            "{\"a\":1,\"b\":2,\"a\":1}",
            13,
            "the member name \"a\" is repeated",
        ),
        (
            "{\"a\":1,\"\\u0061\":2}",
            7,
            "the member name \"a\" is repeated",
        ),
        (
            "[{\"x\":{\"\":1,\"\":1}}]",
            12,
            "the member name \"\" is repeated",
        ),
        ("{\"__proto__\":1,\"__proto__\":2}", 15, "repeated"),
        ("\u{feff}{}", 0, "byte order mark"),
    ] {
        refused(text.as_bytes(), &format!("byte {offset}"), what);
    }
    refused(b"\"\xff\"", "byte 1", "not UTF-8");
    refused(b"[1]\xc0\xaf", "byte 3", "not UTF-8");
    refused(b"\"\xed\xa0\x80\"", "byte 1", "not UTF-8");
    refused(b"\xff\xfe1\x00", "byte 0", "not UTF-8");
}

#[test]
fn a_message_repeats_names_only_and_cuts_them() {
    let name = "n".repeat(1000);
    let text = format!("{{\"{name}\":\"secret\",\"{name}\":\"secret\"}}");
    let error = Canonical::from_json(text.as_bytes()).unwrap_err();
    assert!(
        error.message().len() < 300 && !error.message().contains("secret"),
        "{error}"
    );
}

#[test]
fn depth_is_limited_and_ends_the_recursion() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(canonical(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
    refused(
        nested(MAX_DEPTH + 1).as_bytes(),
        "byte 128",
        "more than 128 deep",
    );
    refused(
        "{\"a\":".repeat(1_000_000).as_bytes(),
        "byte 640",
        "more than 128 deep",
    );
    // Depth counts what is open, not what was.
    assert!(Canonical::from_json(format!("[{}[]]", "[],".repeat(1000)).as_bytes()).is_ok());
}

#[test]
fn size_is_limited_before_and_after() {
    let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    assert!(Canonical::from_json(text(MAX_BYTES).as_bytes()).is_ok());
    refused(
        text(MAX_BYTES + 1).as_bytes(),
        "byte 16777216",
        "longer than 16777216 bytes",
    );
    let grows = format!("[{}0]", "1e20,".repeat(MAX_BYTES / 6));
    refused(grows.as_bytes(), "byte *", "longer than 16777216 bytes");
}

#[test]
fn members_are_found_after_they_were_moved() {
    let fields = |text: &str| -> Vec<(String, String)> {
        let payload = Canonical::from_json(text.as_bytes()).unwrap();
        let owned = |(name, value): (&str, &[u8])| {
            (name.to_owned(), String::from_utf8(value.to_vec()).unwrap())
        };
        payload.fields().map(owned).collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        fields(r#"{"z" : {"y":1,"x":2}, "a\u000a":[1, {"k":0.10}], "m":"\u0041"}"#),
        [
            pair("a\n", r#"[1,{"k":0.1}]"#),
            pair("m", "\"A\""),
            pair("z", r#"{"x":2,"y":1}"#)
        ]
    );
    assert_eq!(
        fields(r#"{"a":1,"b":{}}"#),
        [pair("a", "1"), pair("b", "{}")]
    );
    for empty in ["{}", "[]", "1", "\"a\"", r#"[{"a":1}]"#] {
        assert_eq!(fields(empty), [], "{empty}");
    }
}

#[test]
fn bytes_equal_no_json_and_only_themselves() {
    let raw = Canonical::from_bytes(b"{\"a\":1}");
    assert_eq!(raw.as_bytes(), b"bytes:{\"a\":1}");
    assert_eq!(raw.fields().count(), 0);
    assert_ne!(raw, Canonical::from_json(b"{\"a\":1}").unwrap());
    assert_ne!(raw, Canonical::from_bytes(b"{\"a\": 1}"));
    assert_ne!(
        Canonical::from_bytes(b""),
        Canonical::from_json(b"\"\"").unwrap()
    );
    assert!(Canonical::from_json(raw.as_bytes()).is_err());
}

#[test]
fn debug_shows_no_payload() {
    let payload = Canonical::from_json(br#"{"card":"4111"}"#).unwrap();
    assert_eq!(format!("{payload:?}"), "Canonical(15 bytes)");
}
