//! Durations as people write them: `30s`, `24h`, `1d12h`, `1.5s`, and the words `never` and `forever`; and moments.

use std::time::Duration;

use crate::{Lease, Retain};

use self::grammar::{NANOS_PER_SECOND, UNITS};

mod grammar;

pub use self::grammar::parse;

/// Reads a lease: a duration, or `never` for one without end.
pub fn lease(text: &str) -> Result<Lease, String> {
    match text {
        "never" => Ok(Lease::Never),
        "forever" => Err("a lease without end is written `never`".to_owned()),
        _ => parse(text).map(Lease::from),
    }
}

/// Reads how long to keep: a duration, or `forever`.
pub fn retain(text: &str) -> Result<Retain, String> {
    match text {
        "forever" => Ok(Retain::Forever),
        "never" => Err("to keep without end is written `forever`".to_owned()),
        _ => match parse(text)? {
            Duration::ZERO => Err("kept for no time at all, every repeat would be a first; give the time in which repeats can come".to_owned()),
            time => Ok(Retain::from(time)),
        },
    }
}

/// Writes a duration with its two largest units, so that a person sees its size at once.
pub fn readable(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let largest = UNITS
        .iter()
        .skip(1)
        .position(|(_, unit)| nanos >= *unit)
        .map_or(UNITS.len() - 1, |at| at + 1);
    let (name, unit) = UNITS[largest];
    let whole = nanos / unit;
    let smaller = UNITS
        .get(largest + 1)
        .map_or(0, |(_, next)| nanos % unit / next);
    match UNITS.get(largest + 1) {
        Some((next, _)) if smaller > 0 && unit > NANOS_PER_SECOND => {
            format!("{whole}{name}{smaller}{next}")
        }
        Some(_) if smaller >= 100 => format!("{whole}.{}{name}", smaller / 100),
        _ => format!("{whole}{name}"),
    }
}

/// Writes a moment, given in microseconds since the Unix epoch, to the second: `2026-12-01T06:00:00Z`.
#[cfg(feature = "cli")]
pub fn moment(unix_us: u64) -> String {
    crate::rfc3339(unix_us - unix_us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_belong_to_their_options() {
        assert!(matches!(lease("never"), Ok(Lease::Never)));
        assert!(matches!(retain("forever"), Ok(Retain::Forever)));
        assert!(lease("forever").is_err_and(|e| e.contains("`never`")));
        assert!(retain("never").is_err_and(|e| e.contains("`forever`")));
    }

    #[cfg(feature = "cli")]
    #[test]
    fn a_moment_is_written_to_the_second() {
        assert_eq!(moment(1_796_104_800_999_999), "2026-12-01T06:00:00Z");
    }

    #[test]
    fn a_person_sees_two_units() {
        let cases = [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5us"),
            (12_345_678, "12.3ms"),
            (1_000_000_000, "1s"),
            (12_340_000_000, "12.3s"),
            (90_000_000_000, "1m30s"),
            (86_400_000_000_000, "1d"),
            (129_600_000_000_000, "1d12h"),
        ];
        for (nanos, text) in cases {
            assert_eq!(readable(Duration::from_nanos(nanos)), text);
        }
    }
}
