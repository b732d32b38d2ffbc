//! What callers bring: keys of 32 printable bytes, results of 200, and a payload.

use serde::Serialize;

/// The length of a result.
pub const RESULT_BYTES: usize = 200;
/// The operation of every key.
pub const OPERATION: &str = "order.create";

/// A key of 32 printable bytes; different numbers make different keys, in no order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of this number.
    pub fn of(number: u64) -> Self {
        let mut text = [0; 32];
        for (half, word) in text
            .chunks_exact_mut(16)
            .zip([mixed(number), mixed(!number)])
        {
            for (at, letter) in half.iter_mut().enumerate() {
                *letter = b"0123456789abcdef"[(word >> (4 * at)) as usize & 15];
            }
        }
        Self(text)
    }

    /// The key as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The key as bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The result of every operation.
pub fn result() -> [u8; RESULT_BYTES] {
    std::array::from_fn(|at| b' ' + (at % 90) as u8)
}

/// A payload of some hundred bytes, as a caller of an API sends it.
#[derive(Serialize)]
pub struct Order<'k> {
    order: &'k str,
    customer: u64,
    amount: f64,
    currency: &'static str,
    lines: [(&'static str, u32); 2],
}

impl<'k> Order<'k> {
    /// The payload that belongs to a key.
    pub fn of(key: &'k Key) -> Self {
        let lines = [("1001-A", 2), ("2002-B", 1)];
        Self {
            order: key.text(),
            customer: 4711,
            amount: 129.95,
            currency: "EUR",
            lines,
        }
    }
}

/// Numbers below `bound`, in an order that no cache foresees; the same in every run.
pub fn shuffled(count: usize, bound: usize) -> Vec<u32> {
    (0..count as u64)
        .map(|at| (mixed(at) % bound as u64) as u32)
        .collect()
}

/// A bijection of 64-bit numbers that leaves no pattern (the finaliser of SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
