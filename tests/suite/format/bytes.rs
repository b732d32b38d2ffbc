//! Bytes read from the front, as docs/format.md lays them out.

/// What is left to be read.
pub(super) struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    pub(super) fn of(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().expect("2 bytes"))
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("4 bytes"))
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("8 bytes"))
    }

    /// A varint.
    pub(super) fn number(&mut self) -> u64 {
        match self.u8() {
            0xfb => self.u16().into(),
            0xfc => self.u32().into(),
            0xfd => self.u64(),
            small => {
                assert!(small <= 250, "{small}");
                small.into()
            }
        }
    }

    /// A time, told by its difference from another.
    pub(super) fn time(&mut self, from_us: u64) -> u64 {
        let number = self.number();
        match number % 2 {
            0 => from_us.wrapping_add(number / 2),
            _ => from_us.wrapping_sub(number / 2).wrapping_sub(1),
        }
    }

    /// A length and so many bytes.
    pub(super) fn text(&mut self) -> Vec<u8> {
        let length = self.number() as usize;
        self.take(length).to_vec()
    }
}

/// Scope, operation and id of a payload's key, and its body.
pub(super) fn key(payload: &[u8]) -> (&[u8], &[u8], &[u8], Bytes<'_>) {
    let mut payload = Bytes::of(payload);
    let length = payload.u16() as usize;
    let mut key = Bytes::of(payload.take(length));
    assert_eq!(key.u8(), 1, "the namespace of operations");
    let mut part = || {
        let length = key.u8() as usize;
        key.take(length)
    };
    let parts = (part(), part(), part());
    assert!(key.is_empty());
    (parts.0, parts.1, parts.2, payload)
}

/// CRC-32C (Castagnoli), bit by bit.
pub(super) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
