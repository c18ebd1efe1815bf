// SPDX-License-Identifier: GPL-2.0
//! Messages that tell what they are: each begins with its number, and every further byte follows
//! from that number and its place. What is cut, shifted, mixed up or delivered twice shows.

use std::collections::BTreeMap;

use anyhow::{ensure, Context, Result};

/// The shortest message that has room for its number.
pub(super) const MIN: u64 = 8;

/// The 8 bytes of message `number` from byte 8 x `place` on (splitmix64's mixer).
fn word(number: u64, place: u64) -> u64 {
    if place == 0 {
        return number;
    }
    let mut x = number ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Writes the bytes of message `number` from `offset` on.
pub(super) fn fill(number: u64, offset: u64, mut bytes: &mut [u8]) {
    let mut place = offset / 8;
    let within = (offset % 8) as usize;
    if within != 0 {
        let len = bytes.len().min(8 - within);
        let (first, rest) = bytes.split_at_mut(len);
        first.copy_from_slice(&word(number, place).to_le_bytes()[within..within + len]);
        bytes = rest;
        place += 1;
    }
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word(number, place).to_le_bytes());
        place += 1;
    }
    let last = chunks.into_remainder();
    last.copy_from_slice(&word(number, place).to_le_bytes()[..last.len()]);
}

/// The whole message `number` of `len` bytes.
pub(super) fn content(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(number, 0, &mut bytes);
    bytes
}

/// That `bytes` are those of message `number` from `offset` on.
pub(super) fn check(number: u64, offset: u64, bytes: &[u8]) -> Result<()> {
    let mut want = vec![0; bytes.len()];
    fill(number, offset, &mut want);
    if want == bytes {
        return Ok(());
    }
    let at = want.iter().zip(bytes).position(|(a, b)| a != b);
    let wrong = want.iter().zip(bytes).filter(|(a, b)| a != b).count();
    anyhow::bail!(
        "message {number}: {wrong} of {} bytes from {offset} on are wrong, the first at {}",
        bytes.len(),
        offset + at.unwrap_or(0) as u64
    )
}

/// What is under way, and whether each came once and intact.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The lengths of those that are still to come.
    expected: BTreeMap<u64, usize>,
    arrived: BTreeMap<u64, usize>,
}

impl Ledger {
    /// Of these numbers and lengths, at least [`MIN`].
    pub(super) fn of(messages: impl IntoIterator<Item = (u64, usize)>) -> Self {
        Self {
            expected: messages.into_iter().collect(),
            arrived: BTreeMap::new(),
        }
    }

    /// How many are still to come.
    pub(super) fn missing(&self) -> usize {
        self.expected.len()
    }

    /// One came.
    pub(super) fn arrived(&mut self, message: &[u8]) -> Result<()> {
        let number = message.first_chunk().with_context(|| {
            format!("a message of {} bytes came that nobody sent", message.len())
        })?;
        let number = u64::from_le_bytes(*number);
        ensure!(
            !self.arrived.contains_key(&number),
            "message {number} came twice"
        );
        let len = self
            .expected
            .remove(&number)
            .with_context(|| format!("message {number} came, which nobody sent"))?;
        self.arrived.insert(number, len);
        ensure!(
            message.len() == len,
            "message {number} of {len} bytes came with {}",
            message.len()
        );
        check(number, 0, message)
    }

    /// That none is missing.
    pub(super) fn complete(&self) -> Result<()> {
        ensure!(
            self.expected.is_empty(),
            "{} of {} messages did not come, the first is {:?}",
            self.expected.len(),
            self.expected.len() + self.arrived.len(),
            self.expected.first_key_value()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_of_the_whole() {
        let whole = content(77, 100);
        assert_eq!(whole[..8], 77u64.to_le_bytes());
        for start in 0..40 {
            for end in start..100 {
                let mut piece = vec![0; end - start];
                fill(77, start as u64, &mut piece);
                assert_eq!(piece, whole[start..end], "{start}..{end}");
                check(77, start as u64, &piece).unwrap();
            }
        }
    }

    #[test]
    fn faults_show() {
        let mut bytes = content(5, 64);
        assert!(check(6, 0, &bytes).is_err());
        assert!(check(5, 1, &bytes[..63]).is_err());
        bytes[63] ^= 1;
        let error = check(5, 0, &bytes).unwrap_err().to_string();
        assert!(error.contains("1 of 64 bytes"), "{error}");
    }

    #[test]
    fn a_ledger_knows_twice_never_and_cut() {
        let mut ledger = Ledger::of([(1, 20), (2, 30)]);
        ledger.arrived(&content(1, 20)).unwrap();
        assert!(ledger.arrived(&content(1, 20)).is_err());
        assert!(ledger.arrived(&content(3, 20)).is_err());
        assert!(ledger.complete().is_err());
        assert_eq!(ledger.missing(), 1);
        assert!(ledger.arrived(&content(2, 29)).is_err());
        assert!(Ledger::of([]).arrived(&[1, 2]).is_err());
    }
}
