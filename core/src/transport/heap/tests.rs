// SPDX-License-Identifier: GPL-2.0
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::transport::testing::{chunks_left, Std};

proptest! {
    #[test]
    fn the_first_is_the_least(
        steps in prop::collection::vec((0_u8..4, 0_u32..60, 0_u16..100), 1..600),
    ) {
        let mut heap = Heap::<Std, u16>::new();
        prop_assert!(heap.reserve(59));
        let mut model: BTreeMap<u32, u16> = BTreeMap::new();
        for (what, index, key) in steps {
            match what {
                0 => {
                    heap.remove(index);
                    model.remove(&index);
                }
                1 => {
                    let first = heap.first();
                    prop_assert_eq!(first.map(|(key, _)| key), model.values().min().copied());
                    if let Some((key, index)) = first {
                        prop_assert_eq!(model.remove(&index), Some(key));
                        heap.remove(index);
                    }
                }
                _ => {
                    heap.set(index, key);
                    model.insert(index, key);
                }
            }
            prop_assert_eq!(heap.len() as usize, model.len());
            prop_assert_eq!(heap.key(index), model.get(&index).copied());
            prop_assert_eq!(heap.first().map(|(key, _)| key), model.values().min().copied());
        }
    }
}

#[test]
fn what_has_no_room_is_not_taken() {
    let mut heap = Heap::<Std, u64>::new();
    chunks_left(0);
    assert!(!heap.reserve(0));
    chunks_left(usize::MAX);
    heap.set(0, 1);
    heap.remove(0);
    assert_eq!(heap.first(), None);
    assert!(heap.reserve(0));
    heap.set(0, 1);
    assert_eq!(heap.first(), Some((1, 0)));
}
