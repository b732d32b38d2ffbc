//! Results that can be told from their key: whoever knows a key knows what its replay must be.

use semel::Value;

/// One result in so many is long.
const LONG_ONE_IN: u64 = 14;
/// Short results are at most this long, in bytes.
const SHORT_BYTES: u64 = 600;
/// Long results are this long, in bytes: they span several blocks.
const LONG_BYTES: std::ops::Range<u64> = 10_000..300_000;

/// A small generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// A generator that a text starts.
    pub fn of(text: &str) -> Self {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(text.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }
}

/// The result that belongs to a key.
pub fn result_of(key: &str) -> Value {
    let mut dice = Dice::of(key);
    let bytes = match dice.below(LONG_ONE_IN) {
        0 => LONG_BYTES.start + dice.below(LONG_BYTES.end - LONG_BYTES.start),
        _ => dice.below(SHORT_BYTES),
    };
    let byte = |_| (dice.below(256)) as u8;
    Value::bytes((0..bytes).map(byte).collect::<Vec<u8>>())
}

/// The short result that belongs to a key.
pub fn short_result_of(key: &str) -> Value {
    Value::bytes(format!("the result of {key}").into_bytes())
}
