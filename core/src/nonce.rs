//! Numbers that no other event of any process has: the same event again has the same one.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

static BASE: OnceLock<u64> = OnceLock::new();
/// Where the next block of counts begins.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(0);
/// Counts that a thread takes at a time, so that threads do not meet at every nonce.
const BLOCK: u64 = 1 << 16;

thread_local! {
    /// The counts that this thread has left: the next, and the end.
    static COUNTS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A new nonce; never 0.
pub(crate) fn fresh() -> u64 {
    let base = *BASE.get_or_init(random);
    let count = COUNTS.with(|counts| {
        let (mut next, mut end) = counts.get();
        if next == end {
            next = NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed);
            end = next + BLOCK;
        }
        counts.set((next + 1, end));
        next
    });
    mix(base ^ crate::fork::process_salt() ^ mix(count)) | 1
}

/// A random number from the system, or the best there is without it.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => {
            mix(crate::time::Clock::system().read().wall_us ^ u64::from(std::process::id()) << 40)
        }
    }
}

/// Random bytes from the system, for what nobody may guess.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(e) => Err(Error::unavailable(format!(
            "the system gave no random bytes: {e}"
        ))),
    }
}

/// A bijection that spreads neighbouring numbers over all bits (the finaliser of MurmurHash3).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hundred_thousand_nonces_are_all_different() {
        let all: std::collections::HashSet<u64> = (0..100_000).map(|_| super::fresh()).collect();
        assert_eq!(all.len(), 100_000);
    }
}
