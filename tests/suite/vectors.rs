//! The vectors of the canonical form, played by every language; and what holds for every value.

use semel::{Canonical, ErrorKind, Fingerprint, canonical, fingerprint};
use semel_tests::generator;
use serde::Deserialize;

mod equality;

#[derive(Deserialize)]
struct Vectors {
    accepted: Vec<Accepted>,
    rejected: Vec<Rejected>,
    distinct: Vec<Pair>,
    same: Vec<Pair>,
}

#[derive(Deserialize)]
struct Accepted {
    name: String,
    json: String,
    canonical: String,
    fingerprint: String,
}

#[derive(Deserialize)]
struct Rejected {
    name: String,
    json: Option<String>,
    json_hex: Option<String>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    a: String,
    b: String,
}

#[derive(Deserialize)]
struct Rfc8785 {
    samples: Vec<Sample>,
    doubles: Vec<Double>,
    refused_doubles: Vec<String>,
}

#[derive(Deserialize)]
struct Sample {
    #[serde(flatten)]
    ours: Accepted,
    rfc8785: String,
    agrees: bool,
}

#[derive(Deserialize)]
struct Double {
    bits: String,
    canonical: String,
}

#[derive(Deserialize)]
struct Keyed {
    keyed: Vec<KeyedCase>,
}

#[derive(Deserialize)]
struct KeyedCase {
    name: String,
    secret: String,
    version: u8,
    json: String,
    hash: String,
    fields: Vec<KeyedField>,
}

#[derive(Deserialize, Debug, PartialEq)]
struct KeyedField {
    name: String,
    hash: String,
}

#[derive(Deserialize)]
struct Generated {
    count: u64,
    first: Vec<GeneratedCase>,
    checkpoints: Vec<String>,
    digest: String,
}

#[derive(Deserialize)]
struct GeneratedCase {
    json: String,
    canonical: String,
    fingerprint: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../vectors/canonical.json")).unwrap()
}

fn rfc8785() -> Rfc8785 {
    serde_json::from_str(include_str!("../vectors/rfc8785.json")).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn double(bits: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(bits, 16).unwrap())
}

#[test]
fn accepted_texts_have_their_canonical_form_and_fingerprint() {
    let samples = rfc8785().samples.into_iter().map(|sample| sample.ours);
    for case in vectors().accepted.into_iter().chain(samples) {
        let form = canonical(case.json.as_bytes())
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(
            String::from_utf8(form).unwrap(),
            case.canonical,
            "{}",
            case.name
        );
        assert_eq!(
            fingerprint(case.json.as_bytes()).unwrap(),
            case.fingerprint,
            "{}",
            case.name
        );
        assert_eq!(
            fingerprint(case.canonical.as_bytes()).unwrap(),
            case.fingerprint,
            "{}",
            case.name
        );
    }
}

#[test]
fn rejected_texts_are_invalid_input_that_says_where() {
    for case in vectors().rejected {
        let text = match (case.json, case.json_hex) {
            (Some(json), None) => json.into_bytes(),
            (None, Some(hex)) => from_hex(&hex),
            _ => panic!("{}: one of json and json_hex", case.name),
        };
        let error = canonical(&text).expect_err(&case.name);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", case.name);
        assert!(
            error.message().starts_with("payload refused at byte "),
            "{}: {error}",
            case.name
        );
        assert!(fingerprint(&text).is_err(), "{}", case.name);
    }
}

#[test]
fn pairs_are_distinct_or_the_same() {
    let vectors = vectors();
    for (pairs, same) in [(vectors.same, true), (vectors.distinct, false)] {
        for Pair { name, a, b } in pairs {
            let forms = [&a, &b].map(|text| canonical(text.as_bytes()).unwrap());
            let prints = [&a, &b].map(|text| fingerprint(text.as_bytes()).unwrap());
            assert_eq!(forms[0] == forms[1], same, "{name}");
            assert_eq!(prints[0] == prints[1], same, "{name}");
        }
    }
}

#[test]
fn rfc_8785_agrees_where_it_is_said_to() {
    let Rfc8785 {
        samples,
        doubles,
        refused_doubles,
    } = rfc8785();
    for sample in samples {
        assert_eq!(
            sample.ours.canonical == sample.rfc8785,
            sample.agrees,
            "{}",
            sample.ours.name
        );
    }
    for Double {
        bits,
        canonical: expected,
    } in doubles
    {
        let form = Canonical::from_serialize(&double(&bits)).unwrap();
        assert_eq!(form.as_bytes(), expected.as_bytes(), "{bits}");
        assert_eq!(
            canonical(expected.as_bytes()).unwrap(),
            expected.as_bytes(),
            "{bits}"
        );
    }
    for bits in refused_doubles {
        assert!(Canonical::from_serialize(&double(&bits)).is_err(), "{bits}");
    }
}

#[test]
fn keyed_fingerprints_stay_as_stored_records_have_them() {
    let Keyed { keyed } = serde_json::from_str(include_str!("../vectors/keyed.json")).unwrap();
    for case in keyed {
        let secret = from_hex(&case.secret).try_into().unwrap();
        let payload = Canonical::from_json(case.json.as_bytes()).unwrap();
        let print = Fingerprint::keyed(&secret, case.version, &payload).unwrap();
        assert_eq!(print.version, case.version, "{}", case.name);
        assert_eq!(hex(&print.hash), case.hash, "{}", case.name);
        let fields = print.fields.iter().map(|field| KeyedField {
            name: field.name.clone(),
            hash: hex(&field.hash),
        });
        assert_eq!(fields.collect::<Vec<_>>(), case.fields, "{}", case.name);
    }
}

#[test]
fn generated_texts_have_the_golden_digest() {
    let golden: Generated =
        serde_json::from_str(include_str!("../vectors/generated.json")).unwrap();
    for (index, case) in (0..).zip(&golden.first) {
        let text = generator::text(index);
        assert_eq!(
            String::from_utf8(text.clone()).unwrap(),
            case.json,
            "text {index}"
        );
        assert_eq!(
            canonical(&text).unwrap(),
            case.canonical.as_bytes(),
            "text {index}"
        );
        assert_eq!(
            fingerprint(&text).unwrap(),
            case.fingerprint,
            "text {index}"
        );
    }
    let mut digest = "0".repeat(64);
    for index in 0..golden.count {
        let text = generator::text(index);
        let (form, print) = (hex(&canonical(&text).unwrap()), fingerprint(&text).unwrap());
        digest = fingerprint(format!(r#"["{digest}","{form}","{print}"]"#).as_bytes()).unwrap();
        if (index + 1).is_multiple_of(1000) {
            let checkpoint = &golden.checkpoints[(index / 1000) as usize];
            assert_eq!(digest, *checkpoint, "up to text {index}");
        }
    }
    assert_eq!(digest, golden.digest);
}

#[test]
fn every_byte_of_a_text_counts() {
    let text = "Pay 100.00 EUR to Zoë, IBAN DE02 1203 0000 0000 2020 51; reference 7 (naïve café)"
        .repeat(30);
    let member = |text: &str| format!("{{\"text\":\"{text}\",\"to\":1}}");
    let (secret, mut seen) = ([9; 32], std::collections::HashSet::new());
    let keyed = |json: &str| {
        let payload = Canonical::from_json(json.as_bytes()).unwrap();
        Fingerprint::keyed(&secret, semel::fingerprint::CURRENT_VERSION, &payload).unwrap()
    };
    let original = keyed(&member(&text));
    assert!(seen.insert(fingerprint(member(&text).as_bytes()).unwrap()));
    for at in 0..text.len() {
        let mut flipped = text.clone().into_bytes();
        flipped[at] ^= 1;
        let json = member(std::str::from_utf8(&flipped).unwrap());
        assert!(
            seen.insert(fingerprint(json.as_bytes()).unwrap()),
            "byte {at}"
        );
        let other = keyed(&json);
        assert!(!original.matches(&other), "byte {at}");
        assert_eq!(original.differing_fields(&other), ["text"], "byte {at}");
    }
}
