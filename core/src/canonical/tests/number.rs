//! Spellings of numbers.

use crate::canonical::number::{Decimal, integer};

fn spelled(text: &str) -> Option<String> {
    let mut out = Vec::new();
    Decimal::exactly(text.as_bytes())
        .ok()?
        .write(&mut out)
        .ok()?;
    String::from_utf8(out).ok()
}

#[test]
fn equal_values_have_one_spelling() {
    for (canonical, texts) in [
        (
            "0",
            &["-0", "0.000", "-0e9", "0e-999999999999999999999"][..],
        ),
        (
            "1",
            &[
                "1.0",
                "1e0",
                "1E+0",
                "10e-1",
                "0.1e1",
                "0.001e0003",
                "100000e-5",
            ],
        ),
        ("-12.5", &["-12.50", "-125e-1", "-0.0125e3"]),
        ("100000000000000000000", &["1e20", "0.1e21"]),
        ("1e+21", &["1000000000000000000000", "10e20", "0.01e23"]),
        ("1.234567890123456789012e+21", &["1234567890123456789012"]),
        ("123456789012345678901.2", &["1234567890123456789012e-1"]),
        ("0.000001", &["1e-6", "0.0000010", "10e-7"]),
        ("1e-7", &["0.0000001", "0.1e-6", "0.00000010"]),
        ("-1.05e-7", &["-0.000000105"]),
        (
            "9007199254740993",
            &["9007199254740993.0", "9.007199254740993e15"],
        ),
        ("1e+100000", &["10e99999", "1e100000"]),
        ("1.5e-100000", &["15e-100001"]),
    ] {
        for text in texts.iter().chain([&canonical]) {
            assert_eq!(spelled(text).as_deref(), Some(canonical), "{text}");
        }
    }
}

#[test]
fn what_is_no_number_or_too_large_is_refused() {
    for text in [
        "",
        "-",
        "+1",
        "01",
        "-01",
        ".5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "0x1",
        "1_0",
        " 1",
        "1 ",
        "NaN",
        "--1",
        "1e100001",
        "10e100000",
        "1e-100001",
        "0.1e-100000",
        "1e99999999999999999999",
        "1e-99999999999999999999",
    ] {
        assert_eq!(spelled(text), None, "{text:?}");
    }
}

#[test]
fn integers_are_exact_at_every_size() {
    for magnitude in (0..39)
        .flat_map(|power| [10_u128.pow(power) - 1, 10_u128.pow(power)])
        .chain([u128::MAX])
    {
        for negative in [false, magnitude != 0] {
            let mut out = Vec::new();
            integer(negative, magnitude, &mut out).unwrap();
            let text = format!("{}{magnitude}", if negative { "-" } else { "" });
            assert_eq!(spelled(&text).unwrap().into_bytes(), out);
        }
    }
}
