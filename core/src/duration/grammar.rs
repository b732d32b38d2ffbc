//! Durations as people write them: numbers with units. The attribute's crate compiles this very file in, so that a text means
//! the same in both.

use std::time::Duration;

pub(super) const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The units, longest first: name and length in nanoseconds.
pub(super) const UNITS: [(&str, u128); 8] = [
    ("w", 7 * 86_400 * NANOS_PER_SECOND),
    ("d", 86_400 * NANOS_PER_SECOND),
    ("h", 3_600 * NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("s", NANOS_PER_SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The most digits of a number before or after its point; more mean nothing here.
const MAX_DIGITS: usize = 18;

/// Reads a duration: numbers with units, longest unit first, each at most once. `0` needs no unit.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(advice("it is empty"));
    }
    let (mut rest, mut nanos, mut longest_allowed) = (text, 0u128, 0);
    while !rest.is_empty() {
        let (part, at, tail) = component(rest)?;
        if at < longest_allowed {
            return Err(advice(&format!(
                "`{}` is out of order or given twice; write the longest unit first",
                UNITS[at].0
            )));
        }
        (longest_allowed, rest) = (at + 1, tail);
        nanos = nanos
            .checked_add(part)
            .ok_or_else(|| advice("it is too long"))?;
    }
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).map_err(|_| advice("it is too long"))?;
    Ok(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
}

/// One number with its unit at the head of `text`: nanoseconds, the unit's place among the units, and the rest.
fn component(text: &str) -> Result<(u128, usize, &str), String> {
    if text.starts_with(['-', '+']) {
        return Err(advice("a duration has no sign"));
    }
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, tail) = text.split_at(number_end);
    let unit_end = tail
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(tail.len());
    let (unit, rest) = tail.split_at(unit_end);
    if number.is_empty() {
        let words = match text {
            "never" | "forever" => ": only a lease can be `never`, and only what is kept `forever`",
            _ => "",
        };
        return Err(advice(&format!(
            "`{text}` does not begin with a number{words}"
        )));
    }
    if unit.is_empty() {
        return Err(advice(&format!(
            "`{number}` has no unit; seconds are `{number}s`"
        )));
    }
    let at = UNITS
        .iter()
        .position(|(name, _)| *name == unit)
        .ok_or_else(|| advice(&format!("`{unit}` is no unit")))?;
    Ok((scaled(number, UNITS[at].1)?, at, rest))
}

/// `number` times `unit_ns`, exact but for parts below a nanosecond, which are dropped.
fn scaled(number: &str, unit_ns: u128) -> Result<u128, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| {
        let fits = !part.is_empty()
            && part.len() <= MAX_DIGITS
            && part.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| part.parse::<u128>().ok()).flatten()
    };
    let broken = || {
        advice(&format!(
            "`{number}` is no number of at most {MAX_DIGITS} digits"
        ))
    };
    let (whole, part) = (
        digits(whole).ok_or_else(broken)?,
        digits(fraction).ok_or_else(broken)?,
    );
    Ok(whole * unit_ns + part * unit_ns / 10u128.pow(fraction.len() as u32))
}

fn advice(fault: &str) -> String {
    format!(
        "{fault}; write a duration like 500ms, 30s, 24h, 7d or 1d12h (units: w, d, h, m, s, ms, us, ns)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        let cases = [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000_000_000),
            ("24h", 86_400_000_000_000),
            ("7d", 604_800_000_000_000),
            ("1d12h", 129_600_000_000_000),
            ("1w", 604_800_000_000_000),
            ("1h30m15s500ms", 5_415_500_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1s", 100_000_000),
            ("250us", 250_000),
            ("7ns", 7),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text).map(|d| d.as_nanos()), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_advice() {
        let cases = [
            ("", "empty"),
            ("30", "has no unit; seconds are `30s`"),
            ("-5s", "no sign"),
            ("s", "does not begin with a number"),
            ("5 s", "has no unit"),
            ("5y", "`y` is no unit"),
            ("NaN", "does not begin with a number"),
            ("1.s", "is no number"),
            ("1..5s", "is no number"),
            ("5s5s", "given twice"),
            ("5s1h", "longest unit first"),
            ("9999999999999999999s", "is no number"),
            ("999999999999999999w", "too long"),
            ("never", "only what is kept `forever`"),
        ];
        for (text, fault) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.contains(fault), "{text}: {error}");
        }
    }
}
