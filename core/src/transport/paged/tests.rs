// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::testing::{chunks, chunks_left, steps, Std};

#[test]
fn grows_and_keeps() {
    let mut array = Paged::<Std, u64>::new();
    assert!(array.get(0).is_none() && array.get_mut(u32::MAX).is_none());
    for i in 0..100_000 {
        assert!(array.reserve(i, || 7));
        *array.get_mut(i).unwrap() += u64::from(i);
    }
    assert!((0..100_000).all(|i| *array.get(i).unwrap() == 7 + u64::from(i)));
    assert!(array.len() >= 100_000 && array.get(array.len()).is_none());
}

#[test]
fn ends_at_its_bound_and_when_memory_does() {
    let mut array = Paged::<Std, [u64; 128]>::new();
    assert_eq!(Paged::<Std, [u64; 128]>::MAX, 1 << 19);
    chunks_left(1);
    assert!(array.reserve(7, || [0; 128]));
    assert!(!array.reserve(8, || [0; 128]));
    assert_eq!(array.len(), 8);
    chunks_left(usize::MAX);
    assert!(array.reserve(8, || [0; 128]));
    assert!(!array.reserve(1 << 19, || [0; 128]));
    assert_eq!(array.len(), 16);
}

/// Each call allocates as many chunks as it may, and the next one goes on; each item is a step.
#[test]
fn grows_by_some_chunks_at_a_time() {
    let mut array = Paged::<Std, [u64; 128]>::new();
    let (all, count) = (chunks(), steps());
    let mut calls = 1;
    loop {
        let (mut left, before) = (3, chunks());
        let done = array.reserve_some(300 * 8 - 1, &mut left, || [7; 128]);
        assert_eq!(chunks() - before + left as usize, 3);
        if done {
            break;
        }
        assert_eq!(left, 0);
        calls += 1;
    }
    // Leaves, two directories, and the root.
    assert_eq!((array.len(), chunks() - all), (300 * 8, 303));
    assert_eq!((calls, steps() - count), (101, 300 * 8 + 3 * 256));
    assert!(array.reserve_some(300 * 8 - 1, &mut 0, || [7; 128]));
    assert_eq!(array.get(300 * 8 - 1), Some(&[7; 128]));
}

#[test]
fn shrinks_to_its_first_leaf_and_grows_again() {
    let mut array = Paged::<Std, [u64; 128]>::new();
    let before = chunks();
    for leaves in [1, 2, 256, 257, 258, 600, 3] {
        assert!(array.reserve(leaves * 8 - 1, || [u64::from(leaves); 128]));
        assert_eq!(array.len(), leaves * 8);
        assert_eq!(array.get(leaves * 8 - 1), Some(&[u64::from(leaves); 128]));
        let directories = match leaves {
            1 => 0,
            2..=256 => 1,
            257..=512 => 3,
            _ => 4,
        };
        assert_eq!(chunks() - before, leaves as usize + directories);
        while array.shrink(0) {}
        assert_eq!((array.len(), chunks() - before), (8, 1));
        assert!(array.get(8).is_none());
    }
    assert_eq!(array.get(7), Some(&[1; 128]));
}
