//! Fingerprints: whether two payloads are equal, and which of their fields differ, without keeping the payloads.

use serde::{Deserialize, Serialize};

use crate::canonical::{Canonical, head};
use crate::error::{Error, ErrorKind, Result};

/// The version with which new fingerprints are made.
pub const CURRENT_VERSION: u8 = 1;

/// How many top-level members of an object have a hash of their own: the first of them, in order.
pub const MAX_FIELDS: usize = 64;

/// How much of a member's name is kept, in bytes; a longer name is cut between characters.
pub const MAX_FIELD_NAME_BYTES: usize = 64;

/// What is hashed before the canonical bytes, so that a hash made for one purpose never equals one made for another.
const PUBLIC_V1: &[u8] = b"semel:fingerprint:1\n";
const PAYLOAD_V1: &[u8] = b"semel:payload:1\n";
const FIELD_V1: &[u8] = b"semel:field:1\n";

/// The canonical bytes of a JSON text.
///
/// Errors as [`Canonical::from_json`].
///
/// ```
/// # fn main() -> semel::Result<()> {
/// assert_eq!(semel::canonical(br#"{"b": 1.0, "a": "\u0041"}"#)?, br#"{"a":"A","b":1}"#);
/// # Ok(())
/// # }
/// ```
pub fn canonical(json: &[u8]) -> Result<Vec<u8>> {
    Ok(Canonical::from_json(json)?.into_bytes())
}

/// The public fingerprint of a JSON text: the same in every language, on every machine.
///
/// 64 lower-case hexadecimal digits: BLAKE3 (256 bits, hash mode) over the 20 ASCII bytes `semel:fingerprint:1` and
/// line feed, followed by the canonical bytes. It has no secret, so whoever can guess the payload can confirm the
/// guess. Errors as [`Canonical::from_json`].
///
/// ```
/// # fn main() -> semel::Result<()> {
/// let fingerprint = semel::fingerprint(br#"{"amount": 100}"#)?;
/// assert_eq!(fingerprint.len(), 64);
/// assert_eq!(fingerprint, semel::fingerprint(br#"{"amount": 1e2}"#)?);
/// # Ok(())
/// # }
/// ```
pub fn fingerprint(json: &[u8]) -> Result<String> {
    Ok(of_canonical(&Canonical::from_json(json)?))
}

/// [`fingerprint`] of a payload in its canonical form.
pub fn of_canonical(payload: &Canonical) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(PUBLIC_V1).update(payload.as_bytes());
    hasher.finalize().to_hex().to_string()
}

/// What a record keeps of its payload: a keyed hash of the whole, and short ones of the top-level members.
///
/// ```
/// use semel::{Canonical, Fingerprint, fingerprint::CURRENT_VERSION};
///
/// # fn main() -> semel::Result<()> {
/// let secret = [7; 32];
/// let first = Canonical::from_json(br#"{"amount": 100, "to": "Ann"}"#)?;
/// let again = Canonical::from_json(br#"{"to": "Ann", "amount": 1e2}"#)?;
/// let other = Canonical::from_json(br#"{"to": "Bob", "amount": 100}"#)?;
///
/// let kept = Fingerprint::keyed(&secret, CURRENT_VERSION, &first)?;
/// assert!(kept.matches(&Fingerprint::keyed(&secret, kept.version, &again)?));
/// let other = Fingerprint::keyed(&secret, kept.version, &other)?;
/// assert!(!kept.matches(&other));
/// assert_eq!(kept.differing_fields(&other), ["to"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The version it was made with, from 1 to [`CURRENT_VERSION`].
    pub version: u8,
    /// The keyed hash of the whole payload.
    pub hash: [u8; 32],
    /// The top-level members of the payload in the byte order of their names, at most [`MAX_FIELDS`].
    pub fields: Vec<FieldHash>,
}

/// One top-level member of a payload: its name, and a short keyed hash of name and value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldHash {
    /// The name, cut to [`MAX_FIELD_NAME_BYTES`].
    pub name: String,
    /// The first 8 bytes of the keyed hash. It tells equal values from others, and nothing about the value.
    pub hash: [u8; 8],
}

impl Fingerprint {
    /// The fingerprint of a payload, made as `version` made it. Compare with a record by the record's version.
    ///
    /// Version 1, with BLAKE3 in keyed mode: `hash` is over `semel:payload:1` and line feed, followed by the canonical
    /// bytes; a field's hash is over `semel:field:1` and line feed, the length of the name in bytes (32 bits, little
    /// endian), the whole name, and the canonical bytes of the value.
    ///
    /// A version above [`CURRENT_VERSION`] is [`Unsupported`](ErrorKind::Unsupported): a newer semel wrote it. Version 0
    /// is [`Corrupt`](ErrorKind::Corrupt): none did.
    pub fn keyed(secret: &[u8; 32], version: u8, payload: &Canonical) -> Result<Self> {
        match version {
            1 => Ok(Self::version_1(secret, payload)),
            0 => Err(Error::corrupt(
                "fingerprint of version 0, which no semel has written; restore a backup of the store",
            )),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "fingerprint of version {version}, and this semel knows versions up to {CURRENT_VERSION}: the \
                     store was written by a newer semel; open it with that version or a later one"
                ),
            )),
        }
    }

    fn version_1(secret: &[u8; 32], payload: &Canonical) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(PAYLOAD_V1).update(payload.as_bytes());
        let mut input = Vec::new();
        let fields = payload.fields().take(MAX_FIELDS).map(|(name, value)| {
            let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
            input.clear();
            input.extend_from_slice(FIELD_V1);
            input.extend_from_slice(&length.to_le_bytes());
            input.extend_from_slice(name.as_bytes());
            input.extend_from_slice(value);
            let hash = blake3::keyed_hash(secret, &input);
            let mut short = [0; 8];
            short.copy_from_slice(&hash.as_bytes()[..8]);
            FieldHash {
                name: head(name, MAX_FIELD_NAME_BYTES).to_owned(),
                hash: short,
            }
        });
        Self {
            version: 1,
            fields: fields.collect(),
            hash: *hasher.finalize().as_bytes(),
        }
    }

    /// Whether the payloads are equal. Both must have been made with the same secret; another version is no match.
    pub fn matches(&self, other: &Self) -> bool {
        self.version == other.version && self.hash == other.hash
    }

    /// The names of the top-level members that were added, removed or changed, sorted. Never a value.
    ///
    /// Empty when the payloads are equal, when neither is an object, and when the versions are not the same. Of a
    /// payload with [`MAX_FIELDS`] members or more, nothing is told beyond the last member that was kept.
    pub fn differing_fields(&self, other: &Self) -> Vec<String> {
        if self.version != other.version || self.matches(other) {
            return Vec::new();
        }
        let horizon = [self.horizon(), other.horizon()]
            .into_iter()
            .flatten()
            .min();
        let mut names = Vec::new();
        for (mine, others) in [(self, other), (other, self)] {
            for field in &mine.fields {
                let known = horizon.is_none_or(|last| field.name.as_str() <= last);
                if known && !others.fields.contains(field) {
                    names.push(field.name.clone());
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The last name that is known when members beyond it may have been left out.
    fn horizon(&self) -> Option<&str> {
        let full = self.fields.len() >= MAX_FIELDS;
        full.then(|| self.fields.last().map(|field| field.name.as_str()))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn keyed(json: &str) -> Fingerprint {
        let payload = Canonical::from_json(json.as_bytes()).unwrap();
        Fingerprint::keyed(&SECRET, 1, &payload).unwrap()
    }

    fn object(members: impl Iterator<Item = (String, u32)>) -> Fingerprint {
        let members: Vec<String> = members
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        keyed(&format!("{{{}}}", members.join(",")))
    }

    #[test]
    fn the_fields_that_differ_are_named() {
        for (a, b, names) in [
            (r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"#, &[][..]),
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":3}"#, &["b"]),
            (r#"{"a":1,"b":2}"#, r#"{"b":2}"#, &["a"]),
            (r#"{"z":1}"#, r#"{"a":1}"#, &["a", "z"]),
            (
                r#"{"b":{"x":1},"a":[1]}"#,
                r#"{"b":{"x":2},"a":[1,1]}"#,
                &["a", "b"],
            ),
            ("{}", r#"{"":0}"#, &[""]),
            ("[1]", "[2]", &[]),
            ("1", r#"{"a":1}"#, &["a"]),
        ] {
            assert_eq!(keyed(a).differing_fields(&keyed(b)), names, "{a} {b}");
            assert_eq!(keyed(b).differing_fields(&keyed(a)), names, "{b} {a}");
        }
    }

    #[test]
    fn fields_are_bounded_and_none_is_named_wrongly() {
        let members = |range: std::ops::Range<u32>| range.map(|n| (format!("m{n:03}"), n));
        let wide = object(members(0..200));
        assert_eq!(wide.fields.len(), MAX_FIELDS);
        // A new first member moves the last one that is kept; only the new one differs.
        let shifted = object(members(0..200).chain([("a".to_owned(), 0)]));
        assert_eq!(wide.differing_fields(&shifted), ["a"]);
        assert_eq!(shifted.differing_fields(&wide), ["a"]);
        let changed = object(members(0..200).map(|(name, n)| (name, if n == 5 { 0 } else { n })));
        assert_eq!(wide.differing_fields(&changed), ["m005"]);
        let beyond = object(members(0..200).map(|(name, n)| (name, if n == 150 { 0 } else { n })));
        assert!(!wide.matches(&beyond));
        assert_eq!(wide.differing_fields(&beyond), [""; 0]);
    }

    #[test]
    fn long_names_are_cut_between_characters_and_hashed_whole() {
        let name = "é".repeat(40);
        let (a, b) = (format!("x{name}1"), format!("x{name}2"));
        let (a, b) = (object([(a, 1)].into_iter()), object([(b, 1)].into_iter()));
        assert_eq!(a.fields[0].name, format!("x{}", "é".repeat(31)));
        assert_eq!(a.fields[0].name, b.fields[0].name);
        assert_ne!(a.fields[0].hash, b.fields[0].hash);
        assert_eq!(a.differing_fields(&b), [a.fields[0].name.clone()]);
    }

    #[test]
    fn hashes_show_neither_equal_fields_nor_equal_payloads_of_two_stores() {
        let payload = Canonical::from_json(br#"{"a":"same","b":"same"}"#).unwrap();
        let one = Fingerprint::keyed(&[1; 32], 1, &payload).unwrap();
        let other = Fingerprint::keyed(&[2; 32], 1, &payload).unwrap();
        assert!(!one.matches(&other));
        assert_ne!(one.fields[0].hash, one.fields[1].hash);
        assert_ne!(one.fields[0].hash, other.fields[0].hash);
    }

    #[test]
    fn version_1_stays_what_it_is() {
        let print = keyed(r#"{"amount":100,"to":"Ann"}"#);
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        assert_eq!(
            hex(&print.hash),
            "985ab3c3ed5001874edc5d206b97f8dd0eb6383105b4d4afcd4c32cf32950d99"
        );
        assert_eq!(hex(&print.fields[0].hash), "24bd44984a664904");
        assert_eq!(hex(&print.fields[1].hash), "a64b125b93570eb4");
    }

    #[test]
    fn other_versions_are_errors_and_never_match() {
        let payload = Canonical::from_bytes(b"x");
        let kind =
            |version| Fingerprint::keyed(&SECRET, version, &payload).map_err(|error| error.kind());
        assert_eq!(kind(0).unwrap_err(), ErrorKind::Corrupt);
        for version in CURRENT_VERSION + 1..=u8::MAX {
            assert_eq!(kind(version).unwrap_err(), ErrorKind::Unsupported);
        }
        let now = kind(CURRENT_VERSION).unwrap();
        let mut later = now.clone();
        later.version += 1;
        assert!(!now.matches(&later));
        assert_eq!(now.differing_fields(&later), [""; 0]);
    }

    #[test]
    fn every_byte_of_opaque_bytes_counts() {
        let bytes: Vec<u8> = (0..=255).collect();
        let keyed =
            |raw: &[u8]| Fingerprint::keyed(&SECRET, 1, &Canonical::from_bytes(raw)).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(!keyed(&bytes).matches(&keyed(&flipped)), "byte {at}");
        }
    }
}
