// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::testing::{chunks, chunks_left, Std};

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
