//! Numbers by the exact decimal value of their text, in one spelling for each value.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::MAX_EXPONENT;
use super::refusal::{Refusal, quoted};
use crate::error::Result;

/// A struct of this name with one field of this name carries a number as text: how `serde_json` hands its own exact
/// numbers to any serializer.
pub(super) const NUMBER_TOKEN: &str = "$serde_json::private::Number";

/// The last position of the point, counted from the first digit, at which a number is still written without exponent.
/// This and [`FIRST_PLAIN_POINT`] are the thresholds of ECMAScript, and so of RFC 8785.
const LAST_PLAIN_POINT: i64 = 21;
const FIRST_PLAIN_POINT: i64 = -5;

/// An exponent beyond this is out of range whatever the digits before it, since a text is shorter than this.
const EXPONENT_CEILING: i64 = 1_000_000_000_000;

/// The digits of the largest `u128`.
const MAX_INTEGER_DIGITS: usize = 39;

const ZEROS: &[u8] = b"000000000000000000000";

/// A number by its decimal text, for payloads whose numbers fit no type of Rust.
///
/// The text is a number as JSON spells it. Anything else is [`InvalidInput`](crate::ErrorKind::InvalidInput).
///
/// ```
/// use semel::Canonical;
/// use semel::canonical::Number;
///
/// # fn main() -> semel::Result<()> {
/// let price = Number::new("10.50")?;
/// assert_eq!(Canonical::from_serialize(&price)?.as_bytes(), b"10.5");
/// assert!(Number::new("NaN").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a>(&'a str);

impl<'a> Number<'a> {
    /// The number that this text spells.
    pub fn new(text: &'a str) -> Result<Self> {
        match Decimal::exactly(text.as_bytes()) {
            Ok(_) => Ok(Self(text)),
            Err(refusal) => Err(refusal.into_error(|| "the number".to_owned())),
        }
    }
}

impl Serialize for Number<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut number = serializer.serialize_struct(NUMBER_TOKEN, 1)?;
        number.serialize_field(NUMBER_TOKEN, self.0)?;
        number.end()
    }
}

/// A number as its text spells it: `int.fraction` times ten to the `exponent`.
pub(super) struct Decimal<'a> {
    negative: bool,
    int: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Reads the number at the start of `text`: what it is and how long, or the offset of the byte that does not fit.
    pub(super) fn scan(text: &'a [u8]) -> Result<(Self, usize), usize> {
        let negative = text.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let int = match digits(text, at) {
            [] => return Err(at),
            [b'0', _, ..] => return Err(at + 1),
            int => int,
        };
        at += int.len();
        let mut fraction: &[u8] = &[];
        if text.get(at) == Some(&b'.') {
            fraction = digits(text, at + 1);
            if fraction.is_empty() {
                return Err(at + 1);
            }
            at += 1 + fraction.len();
        }
        let mut exponent = 0;
        if let Some(b'e' | b'E') = text.get(at) {
            let sign = text.get(at + 1).copied();
            at += 1 + usize::from(matches!(sign, Some(b'+' | b'-')));
            let power = digits(text, at);
            if power.is_empty() {
                return Err(at);
            }
            at += power.len();
            exponent = magnitude(power);
            if sign == Some(b'-') {
                exponent = -exponent;
            }
        }
        let number = Self {
            negative,
            int,
            fraction,
            exponent,
        };
        Ok((number, at))
    }

    /// The number that the whole of `text` spells.
    pub(super) fn exactly(text: &'a [u8]) -> Result<Self, Refusal> {
        match Self::scan(text) {
            Ok((number, length)) if length == text.len() => Ok(number),
            _ => Err(Refusal::new(
                format!("{} is no number", quoted(&String::from_utf8_lossy(text))),
                "send a number as JSON spells it, as -12.5e3, or send text",
            )),
        }
    }

    /// Appends the one spelling of this value: that of ECMAScript's Number::toString, but with all its digits.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (mut int, mut fraction, mut point) = (self.int, self.fraction, self.exponent);
        // From here on `int` and `fraction` are the significant digits, and the point stands `point` digits after the
        // first of them.
        if int == b"0" {
            let zeros = fraction.iter().take_while(|digit| **digit == b'0').count();
            (int, fraction) = (&[], &fraction[zeros..]);
            point -= length(zeros);
        } else {
            point += length(int.len());
        }
        fraction = trim_zeros(fraction);
        if fraction.is_empty() {
            int = trim_zeros(int);
        }
        let digits = Digits(int, fraction);
        if digits.count() == 0 {
            out.push(b'0');
            return Ok(());
        }
        if self.negative {
            out.push(b'-');
        }
        digits.write(point, out)
    }
}

/// Significant digits: neither the first nor the last is zero. In two pieces, as they stood around the point.
struct Digits<'a>(&'a [u8], &'a [u8]);

impl Digits<'_> {
    fn count(&self) -> usize {
        self.0.len() + self.1.len()
    }

    fn push(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let Self(int, fraction) = self;
        let split = int.len();
        out.extend_from_slice(&int[from.min(split)..to.min(split)]);
        out.extend_from_slice(&fraction[from.saturating_sub(split)..to.saturating_sub(split)]);
    }

    fn write(&self, point: i64, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let count = self.count();
        match point {
            1..=LAST_PLAIN_POINT => {
                let point = point as usize;
                self.push(0, point.min(count), out);
                if point < count {
                    out.push(b'.');
                    self.push(point, count, out);
                } else {
                    out.extend_from_slice(&ZEROS[..point - count]);
                }
            }
            FIRST_PLAIN_POINT..=0 => {
                out.extend_from_slice(b"0.");
                out.extend_from_slice(&ZEROS[..point.unsigned_abs() as usize]);
                self.push(0, count, out);
            }
            _ => {
                let exponent = point - 1;
                if exponent.abs() > MAX_EXPONENT {
                    return Err(out_of_range());
                }
                self.push(0, 1, out);
                if count > 1 {
                    out.push(b'.');
                    self.push(1, count, out);
                }
                out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
                let mut text = [0; MAX_INTEGER_DIGITS];
                let exponent = u128::from(exponent.unsigned_abs());
                out.extend_from_slice(decimal_digits(exponent, &mut text));
            }
        }
        Ok(())
    }
}

/// Appends an integer of any size of Rust, by its sign and magnitude.
pub(super) fn integer(negative: bool, magnitude: u128, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut text = [0; MAX_INTEGER_DIGITS];
    let int = decimal_digits(magnitude, &mut text);
    if int.len() <= LAST_PLAIN_POINT as usize {
        if negative {
            out.push(b'-');
        }
        out.extend_from_slice(int);
        return Ok(());
    }
    let number = Decimal {
        negative,
        int,
        fraction: &[],
        exponent: 0,
    };
    number.write(out)
}

fn decimal_digits(magnitude: u128, text: &mut [u8; MAX_INTEGER_DIGITS]) -> &[u8] {
    let mut at = text.len();
    let mut push = |digit: u8| {
        at -= 1;
        text[at] = b'0' + digit;
    };
    let mut rest = magnitude;
    // Division is slow at 128 bits: go on at 64 as soon as the rest fits.
    let mut rest = loop {
        match u64::try_from(rest) {
            Ok(rest) => break rest,
            Err(_) => push((rest % 10) as u8),
        }
        rest /= 10;
    };
    loop {
        push((rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    &text[at..]
}

fn digits(text: &[u8], from: usize) -> &[u8] {
    let text = text.get(from..).unwrap_or_default();
    let count = text.iter().take_while(|byte| byte.is_ascii_digit());
    &text[..count.count()]
}

fn trim_zeros(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0');
    &digits[..digits.len() - zeros.count()]
}

/// The value of an exponent's digits, held at a ceiling: nobody makes a number of them that overflows.
fn magnitude(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |value: i64, digit| {
        (value * 10 + i64::from(digit - b'0')).min(EXPONENT_CEILING)
    })
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(EXPONENT_CEILING)
}

fn out_of_range() -> Refusal {
    Refusal::new(
        format!("a number's exponent is beyond {MAX_EXPONENT} up or down"),
        "send a number nearer to 1, or send it as text",
    )
}
