// SPDX-License-Identifier: GPL-2.0
use std::collections::HashMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::transport::testing::{chunks_left, Std};

proptest! {
    #[test]
    fn is_a_map_with_small_keys(
        steps in prop::collection::vec((any::<bool>(), any::<u16>()), 1..400),
    ) {
        let mut slab = Slab::<Std, u16>::new();
        let mut model: HashMap<(u32, u32), u16> = HashMap::new();
        let mut gone = Vec::new();
        for (add, value) in steps {
            if add || model.is_empty() {
                let vacant = slab.vacant().unwrap();
                prop_assert_eq!(slab.insert(value), Some(vacant.0));
                prop_assert!(model.insert(vacant, value).is_none());
            } else {
                let mut keys: Vec<_> = model.keys().copied().collect();
                keys.sort_unstable();
                let key = keys[usize::from(value) % keys.len()];
                prop_assert_eq!(slab.remove(key.0), model.remove(&key));
                prop_assert_eq!(slab.remove(key.0), None);
                gone.push(key);
            }
            prop_assert_eq!(slab.len() as usize, model.len());
        }
        for (key, value) in &model {
            prop_assert!(slab.is(key.0, key.1));
            prop_assert_eq!(slab.generation(key.0), key.1);
            prop_assert_eq!(slab.get(key.0), Some(value));
        }
        prop_assert!(gone.iter().all(|key| !slab.is(key.0, key.1)));
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(index) = slab.next(from) {
            found.push(index);
            from = index + 1;
        }
        let mut keys: Vec<_> = model.keys().map(|key| key.0).collect();
        keys.sort_unstable();
        prop_assert_eq!(found, keys);
    }
}

#[test]
fn without_memory_nothing_is_lost() {
    let mut slab = Slab::<Std, [u64; 200]>::new();
    // Each array takes a root, a directory and its first leaf; there are two.
    chunks_left(6);
    let fit = (0..100)
        .take_while(|i| slab.insert([*i; 200]).is_some())
        .count();
    assert_eq!(fit, 8);
    assert_eq!(slab.remove(3), Some([3; 200]));
    assert_eq!(slab.insert([9; 200]), Some(3));
    assert_eq!(slab.insert([9; 200]), None);
    chunks_left(usize::MAX);
    assert_eq!(slab.insert([9; 200]), Some(8));
}
