// SPDX-License-Identifier: GPL-2.0
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn bytes<const N: usize>(ranges: &Ranges<N>) -> BTreeSet<u32> {
    ranges
        .as_slice()
        .iter()
        .flat_map(|r| r.start..r.end)
        .collect()
}

fn is_canonical<const N: usize>(ranges: &Ranges<N>) -> bool {
    let all = ranges.as_slice();
    all.iter().all(|r| r.start < r.end) && all.windows(2).all(|w| w[0].end < w[1].start)
}

proptest! {
    #[test]
    fn is_a_set_with_a_bound(
        steps in prop::collection::vec((0_u8..3, 0_u32..100, 0_u32..12), 1..200),
    ) {
        let mut ranges = Ranges::<5>::new();
        for (what, start, len) in steps {
            let end = start + len;
            let before = bytes(&ranges);
            let span: BTreeSet<u32> = (start..end).collect();
            let first_missing = span.iter().find(|b| !before.contains(b)).copied();
            let missing = ranges.missing(start, end);
            prop_assert_eq!(missing.map(|r| r.start), first_missing);
            if let Some(r) = missing {
                prop_assert!((r.start..r.end).all(|b| !before.contains(&b)));
                prop_assert!(r.end == end || before.contains(&r.end));
            }
            let wanted: BTreeSet<u32> = if what == 0 {
                before.difference(&span).copied().collect()
            } else {
                before.union(&span).copied().collect()
            };
            let done = if what == 0 {
                ranges.remove(start, end)
            } else {
                ranges.insert(start, end)
            };
            let runs = wanted.iter().filter(|&&b| b == 0 || !wanted.contains(&(b - 1))).count();
            prop_assert_eq!(done, runs <= 5);
            prop_assert_eq!(&bytes(&ranges), if done { &wanted } else { &before });
            let overlap = span.iter().any(|b| bytes(&ranges).contains(b));
            prop_assert_eq!(ranges.overlaps(start, end), overlap);
            prop_assert!(is_canonical(&ranges));
            prop_assert_eq!(ranges.bytes() as usize, bytes(&ranges).len());
            prop_assert_eq!(ranges.end(), bytes(&ranges).last().map_or(0, |b| b + 1));
            let contiguous = (0..200).find(|b| !bytes(&ranges).contains(b)).unwrap();
            prop_assert_eq!(ranges.contiguous(), contiguous);
        }
    }
}
