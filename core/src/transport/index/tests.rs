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

#[test]
fn shrinks_and_finds_what_is_left() {
    let mut index = Index::<Std>::new();
    let hash = |i: u32| (u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    for round in 0..3 {
        for i in 0..40_000 {
            assert!(index.reserve(i));
            index.insert(hash(i), i);
        }
        let left = 10 * round;
        for i in (left..40_000).rev() {
            index.remove(i);
        }
        for _ in 0..1000 {
            index.shrink(left);
        }
        let room = (index.buckets.len(), index.links.len());
        assert!(room.0 <= 2048 && room.1 <= 2048, "{room:?}");
        assert!((0..left).all(|i| index.find(hash(i), |j| i == j).is_some()));
        (0..left).for_each(|i| index.remove(i));
    }
}

proptest! {
    /// As the other one, with steps of shrinking between.
    #[test]
    fn finds_what_is_in_while_it_shrinks(
        steps in prop::collection::vec((0_u8..3, 0_u32..3000), 1..3000),
    ) {
        let mut index = Index::<Std>::new();
        let hash = |i: u32| i.wrapping_mul(0x9e37_79b9) >> (i % 3);
        let mut model = std::collections::BTreeSet::new();
        for i in 0..3000 {
            prop_assert!(index.reserve(i));
            index.insert(hash(i), i);
            model.insert(i);
        }
        for (what, item) in steps {
            match what {
                0 if model.insert(item) => {
                    prop_assert!(index.reserve(item));
                    index.insert(hash(item), item);
                }
                1 => {
                    // Most of them.
                    for item in (item..3000).take(40) {
                        index.remove(item);
                        model.remove(&item);
                    }
                }
                _ => index.shrink(model.last().map_or(0, |last| last + 1)),
            }
        }
        for item in 0..3000 {
            let found = index.find(hash(item), |i| i == item);
            prop_assert_eq!(found.is_some(), model.contains(&item));
        }
    }
}
