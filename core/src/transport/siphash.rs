// SPDX-License-Identifier: GPL-2.0
//! SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): a keyed hash that who
//! does not know the key can neither predict nor steer.
//!
//! Whatever a stranger chooses is looked up by it, so that nobody can make entries of a table
//! collide; and what proves an address is made with it. The kernel's own hash tables and SYN
//! cookies use the same function.

use super::host::Address;

/// A key: random, and known to nobody.
#[derive(Clone, Copy)]
pub(crate) struct Key([u64; 2]);

impl Key {
    pub(crate) const fn new(key: [u64; 2]) -> Self {
        Self(key)
    }

    /// The hash of some words. Values for different `purpose` have nothing to do with each other.
    #[inline]
    pub(crate) fn hash<const N: usize>(&self, words: [u64; N], purpose: u8, more: u32) -> u64 {
        // As in the last word of a string, the highest byte is not data. The length in words and
        // the purpose are told apart by it.
        let last = ((N as u64) << 40) | (u64::from(purpose) << 32) | u64::from(more);
        siphash::<1, 3>(self.0, &words, last)
    }

    /// The hash of a number and an address.
    pub(crate) fn hash_address(&self, number: u64, address: &Address, purpose: u8) -> u64 {
        let Address { ip, local, scope } = address;
        if address.is_ipv4() {
            let (ip, local) = (low(ip) as u32, low(local) as u32);
            let both = (u64::from(ip) << 32) | u64::from(local);
            return self.hash([number, both], purpose, *scope);
        }
        let words = [number, high(ip), low(ip), high(local), low(local)];
        self.hash(words, purpose, *scope)
    }
}

/// The first half of an address.
#[inline]
fn high(ip: &[u8; 16]) -> u64 {
    (u128::from_be_bytes(*ip) >> 64) as u64
}

/// The second half.
#[inline]
fn low(ip: &[u8; 16]) -> u64 {
    u128::from_be_bytes(*ip) as u64
}

#[inline]
fn round(v: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *v;
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32).wrapping_add(d);
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    c = c.rotate_left(32);
    *v = [a, b, c, d];
}

/// SipHash-C-D of whole words, and of a last one that has the rest of the input and its length.
#[inline]
fn siphash<const C: u32, const D: u32>(key: [u64; 2], words: &[u64], last: u64) -> u64 {
    let [k0, k1] = key;
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        v[3] ^= word;
        for _ in 0..C {
            round(&mut v);
        }
        v[0] ^= word;
    };
    for &word in words {
        take(word);
    }
    take(last);
    v[2] ^= 0xff;
    for _ in 0..D {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests;
