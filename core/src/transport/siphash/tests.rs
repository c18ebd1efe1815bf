// SPDX-License-Identifier: GPL-2.0
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::vec::Vec;

use super::*;

/// As the algorithm takes a string of bytes.
fn of_bytes<const C: u32, const D: u32>(key: [u64; 2], bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[7] = bytes.len() as u8;
    let words: Vec<u64> = words
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    siphash::<C, D>(key, &words, u64::from_le_bytes(last))
}

/// The example of the paper, appendix A, which is of SipHash-2-4.
#[test]
fn the_papers_example_comes_out() {
    let bytes: Vec<u8> = (0..15).collect();
    let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
    assert_eq!(of_bytes::<2, 4>(key, &bytes), 0xa129_ca61_49be_45e5);
}

/// The standard library's default is SipHash-1-3 with a key of zeros.
#[test]
fn it_is_the_standard_librarys_with_one_and_three_rounds() {
    let bytes: Vec<u8> = (0_u8..64).map(|i| i.wrapping_mul(37)).collect();
    for len in 0..64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes[..len]);
        assert_eq!(of_bytes::<1, 3>([0; 2], &bytes[..len]), hasher.finish());
    }
}

#[test]
fn key_purpose_words_and_their_number_all_count() {
    let key = Key::new([1, 2]);
    let all = [
        key.hash([1, 2], 0, 0),
        key.hash([1, 2], 1, 0),
        key.hash([1, 2], 0, 1),
        key.hash([2, 1], 0, 0),
        key.hash([1, 2, 0], 0, 0),
        Key::new([2, 1]).hash([1, 2], 0, 0),
        Key::new([1, 3]).hash([1, 2], 0, 0),
    ];
    for (i, one) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|other| other != one), "{i}");
    }
}
