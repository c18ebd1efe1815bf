// SPDX-License-Identifier: GPL-2.0
use proptest::prelude::*;

use super::*;
use crate::transport::testing::steps;

#[test]
fn nothing_is_first_until_there_is_something() {
    let mut wakes = Wakes::NEW;
    assert_eq!(wakes.first(), (NEVER, 0));
    wakes.cover(1);
    wakes.set(0, Nanos(5));
    assert_eq!(wakes.first(), (Nanos(5), 0));
    wakes.set(LINKS as u32, Nanos(1));
    wakes.set(u32::MAX, Nanos(1));
    assert_eq!(wakes.first(), (Nanos(5), 0));
    // What was set before is found when more are in use.
    wakes.cover(7);
    wakes.set(6, Nanos(4));
    wakes.cover(LINKS);
    assert_eq!(wakes.first(), (Nanos(4), 6));
    wakes.set(6, NEVER);
    wakes.set(0, NEVER);
    assert_eq!(wakes.first().0, NEVER);
}

#[test]
fn a_change_takes_as_many_steps_as_the_tree_is_high() {
    for (links, most) in [(1, 0), (2, 1), (3, 2), (8, 3), (9, 4), (LINKS, 5)] {
        let mut wakes = Wakes::NEW;
        wakes.cover(links);
        for i in 0..1000_u64 {
            let before = steps();
            wakes.set((i % links as u64) as u32, Nanos(i * 7919 % 1009));
            assert!(steps() - before <= most, "{links} links");
            // The same again is no change.
            let before = steps();
            wakes.set((i % links as u64) as u32, Nanos(i * 7919 % 1009));
            assert_eq!(steps(), before);
        }
    }
}

proptest! {
    #[test]
    fn the_first_is_that_of_a_scan(
        used in 1..=LINKS,
        changes in prop::collection::vec((0..LINKS as u32, 0_u64..50, any::<bool>()), 1..200),
    ) {
        let mut wakes = Wakes::NEW;
        wakes.cover(used);
        let mut times = [NEVER; LINKS];
        for (link, at, never) in changes {
            let link = link % used as u32;
            let at = if never { NEVER } else { Nanos(at) };
            times[link as usize] = at;
            wakes.set(link, at);
            let (at, first) = wakes.first();
            let least = times.iter().min().copied().unwrap_or(NEVER);
            prop_assert_eq!(at, least);
            if least != NEVER {
                prop_assert_eq!(times.iter().position(|it| *it == least), Some(first as usize));
            }
        }
    }
}
