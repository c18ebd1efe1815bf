// SPDX-License-Identifier: GPL-2.0
use std::collections::HashMap;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::transport::testing::{chunks_left, steps, Std};

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
    // Each array takes its first leaf; there are three.
    chunks_left(3);
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

proptest! {
    /// However items come and go, the room follows their number, ids stay unambiguous, and a step
    /// gives back one leaf at most.
    #[test]
    fn shrinks_and_grows_again(
        sizes in prop::collection::vec((0_usize..3000, any::<bool>()), 1..6),
        keep in 0_u32..500,
    ) {
        let mut slab = Slab::<Std, u32>::new();
        let mut ids: Vec<(u32, u32)> = Vec::new();
        let mut gone = std::collections::HashSet::new();
        for (size, newest) in sizes {
            while ids.len() < size {
                let id = slab.vacant().unwrap();
                prop_assert!(!gone.contains(&id), "{:?} again", id);
                slab.insert(id.1).unwrap();
                ids.push(id);
            }
            while ids.len() > size {
                let id = if newest { ids.pop() } else { Some(ids.swap_remove(0)) }.unwrap();
                prop_assert_eq!(slab.remove(id.0), Some(id.1));
                gone.insert(id);
            }
            loop {
                let before = slab.room();
                let more = slab.shrink(keep);
                prop_assert!(before - slab.room() <= 1024);
                if !more {
                    break;
                }
            }
            for id in &ids {
                prop_assert_eq!(slab.get(id.0), Some(&id.1));
            }
            let end = ids.iter().map(|id| id.0 + 1).max().unwrap_or(0).max(keep);
            prop_assert!(!slab.is_large(keep) || slab.room() < end + 2 * 1024);
            prop_assert!(slab.room() >= keep.min(slab.room()));
        }
    }
}

#[test]
fn few_items_are_at_the_front() {
    let mut slab = Slab::<Std, u32>::new();
    for i in 0..10_000 {
        slab.insert(i).unwrap();
    }
    for i in 0..9990 {
        slab.remove(i);
    }
    // The last ones hold the end.
    while slab.shrink(0) {}
    assert!(slab.room() >= 10_000);
    for i in 9990..10_000 {
        slab.insert(i).unwrap();
        slab.remove(i);
    }
    while slab.shrink(0) {}
    assert!(slab.room() <= 2048, "{}", slab.room());
    assert_eq!(slab.len(), 10);
}

/// What comes and goes alone, as most messages do, is neither looked for nor noted as free.
#[test]
fn one_that_comes_and_goes_takes_no_step() {
    let mut slab = Slab::<Std, u64>::new();
    slab.insert(7);
    assert_eq!(slab.remove(0), Some(7));
    let before = steps();
    for turn in 0..100 {
        assert_eq!(slab.insert(turn), Some(0));
        assert_eq!(slab.remove(0), Some(turn));
    }
    assert_eq!(steps(), before);
    // Ids are told apart all the same.
    let (index, generation) = slab.vacant().unwrap();
    slab.insert(1);
    assert!(slab.is(index, generation));
    slab.remove(index);
    assert!(!slab.is(index, generation) && slab.vacant() != Some((index, generation)));
}
