//! A time as people read it: RFC 3339, in UTC.

/// `2026-12-01T06:00:00.123456Z`, from microseconds since the Unix epoch; fractions only when there are any.
pub fn rfc3339(us: u64) -> String {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match fraction {
        0 => String::new(),
        fraction => format!(".{fraction:06}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Year, month and day of a day since the Unix epoch, in the Gregorian calendar. Years are counted from March, so that
/// the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // days from 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn known_days_are_written_as_the_calendar_has_them() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
            (1_796_106_599_000_001, "2026-12-01T06:29:59.000001Z"),
        ];
        for (us, text) in cases {
            assert_eq!(rfc3339(us), text);
        }
    }
}
