// SPDX-License-Identifier: GPL-2.0
use std::collections::BTreeMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::transport::testing::{chunks_left, Std};

proptest! {
    /// Items with equal hashes are told apart after any insertions and removals.
    #[test]
    fn finds_what_is_in(
        steps in prop::collection::vec((any::<bool>(), 0_u32..300, 0_u32..40), 1..800),
    ) {
        let mut index = Index::<Std>::new();
        prop_assert!(index.reserve(299));
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for (add, item, hash) in steps {
            let hash = hash.wrapping_mul(0x9e37_79b9);
            if add && !model.contains_key(&item) {
                index.insert(hash, item);
                model.insert(item, hash);
            } else {
                index.remove(item);
                model.remove(&item);
            }
        }
        for item in 0..300 {
            for hash in (0..40_u32).map(|h| h.wrapping_mul(0x9e37_79b9)) {
                let found = index.find(hash, |i| i == item);
                prop_assert_eq!(found.is_some(), model.get(&item) == Some(&hash));
            }
        }
    }
}

fn longest_chain(index: &Index<Std>) -> usize {
    let mut longest = 0;
    for bucket in 0..index.buckets.len() {
        let mut length = 0;
        let mut item = *index.buckets.get(bucket).unwrap();
        while item != NONE {
            length += 1;
            item = index.next(item);
        }
        longest = longest.max(length);
    }
    longest
}

#[test]
fn chains_stay_short() {
    let mut index = Index::<Std>::new();
    let hash = |i: u32| (u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    for i in 0..65_536 {
        assert!(index.reserve(i));
        index.insert(hash(i), i);
    }
    assert!(longest_chain(&index) <= 10, "{}", longest_chain(&index));
    assert!((0..65_536).all(|i| index.find(hash(i), |j| i == j).is_some()));
}

#[test]
fn works_without_memory_to_grow() {
    let mut index = Index::<Std>::new();
    assert!(index.reserve(9_999));
    let before: Vec<u32> = (0..10).collect();
    before.iter().for_each(|&i| index.insert(i, i));
    chunks_left(0);
    (10..10_000).for_each(|i| index.insert(i, i));
    chunks_left(usize::MAX);
    assert!((0..10_000).all(|i| index.find(i, |j| i == j).is_some()));
}
