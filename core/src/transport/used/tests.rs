// SPDX-License-Identifier: GPL-2.0
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::transport::paged::unlimited;
use crate::transport::testing::{steps, Std};

proptest! {
    #[test]
    fn is_an_ordered_set(
        changes in prop::collection::vec((any::<bool>(), 0_u32..80_000), 1..200),
        from in 0_u32..80_000,
    ) {
        let mut used = Used::<Std>::new();
        prop_assert!(used.reserve_some(80_000, &mut unlimited()));
        let mut model = BTreeSet::new();
        for (add, index) in changes {
            // Often the same ones.
            let index = index % 977 * 80;
            used.set(index, add);
            if add {
                model.insert(index);
            } else {
                model.remove(&index);
            }
        }
        prop_assert_eq!(used.next(from), model.range(from..).next().copied());
        let mut found = BTreeSet::new();
        let mut next = 0;
        while let Some(index) = used.next(next) {
            found.insert(index);
            next = index + 1;
        }
        prop_assert_eq!(found, model);
    }
}

#[test]
fn a_single_one_is_found_at_once_among_a_million() {
    let mut used = Used::<Std>::new();
    assert!(used.reserve_some(1 << 20, &mut unlimited()));
    used.set(1 << 20, true);
    let before = steps();
    assert_eq!(used.next(0), Some(1 << 20));
    assert_eq!(used.next((1 << 20) + 1), None);
    assert!(steps() - before < 200, "{} steps", steps() - before);
    assert!(!used.reserve_some(MAX, &mut unlimited()) && used.next(MAX).is_none());
}
