//! Times as they stand in the log: how far they are from the record's version, which is a time as well. Most are a few
//! milliseconds from it, and take two or three bytes instead of nine.

use crate::record::Record;

/// The record as it is written.
pub(super) fn from_version(record: &Record) -> Record {
    let mut written = record.clone();
    let version = written.version;
    for time in written.times() {
        *time = zigzag(time.wrapping_sub(version));
    }
    written
}

/// The record that was written.
pub(super) fn to_version(mut written: Record) -> Record {
    let version = written.version;
    for time in written.times() {
        *time = unzigzag(*time).wrapping_add(version);
    }
    written
}

/// A difference as a number that is small when the difference is, to either side: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_to_either_side_are_small_numbers() {
        for (difference, number) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (2, 4), (-63, 125)] {
            assert_eq!(zigzag(difference as u64), number);
            assert_eq!(unzigzag(number), difference as u64);
        }
    }

    #[test]
    fn any_time_comes_back_from_any_version() {
        for version in [0, 1, 1_800_000_000_000_000, u64::MAX] {
            for time in [0, 1, 1_799_999_999_999_999, u64::MAX - 1, u64::MAX] {
                let written = zigzag(time.wrapping_sub(version));
                assert_eq!(unzigzag(written).wrapping_add(version), time);
            }
        }
    }
}
