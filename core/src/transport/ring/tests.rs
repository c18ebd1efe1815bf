// SPDX-License-Identifier: GPL-2.0
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

#[test]
fn nothing_fits_into_nothing() {
    let mut ring = Ring::new(Vec::new());
    assert!(!ring.push(1));
    assert_eq!(ring.pop(), None);
    assert_eq!((ring.take_lost(), ring.take_lost()), (1, 0));
}

proptest! {
    /// `Some`: push; `None`: pop.
    #[test]
    fn it_is_a_queue_with_an_end(
        room in 1..9_usize,
        steps in prop::collection::vec(prop::option::weighted(0.6, any::<u16>()), 0..200),
    ) {
        let mut ring = Ring::new(vec![0; room]);
        let mut model = VecDeque::new();
        let mut lost = 0;
        for step in steps {
            match step {
                Some(item) => {
                    let fits = model.len() < room;
                    prop_assert_eq!(ring.push(item), fits);
                    if fits {
                        model.push_back(item);
                    } else {
                        lost += 1;
                    }
                }
                None => prop_assert_eq!(ring.pop(), model.pop_front()),
            }
        }
        prop_assert_eq!(ring.take_lost(), lost);
        while let Some(item) = model.pop_front() {
            prop_assert_eq!(ring.pop(), Some(item));
        }
        prop_assert_eq!(ring.pop(), None);
    }
}
