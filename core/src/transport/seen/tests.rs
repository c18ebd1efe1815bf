// SPDX-License-Identifier: GPL-2.0
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

proptest! {
    /// Against a set of all numbers, without wrapping: each once, unless too old.
    #[test]
    fn each_is_accepted_once(
        steps in prop::collection::vec((0_u8..8, 0_i64..700), 1..400),
        start in 0_u16..3,
    ) {
        let mut seen = Seen::new();
        let mut all = HashSet::new();
        let mut highest: i64 = -1;
        let mut jump = i64::from(start) * 30_000;
        for (what, step) in steps {
            let number = match what {
                0 => highest - step,
                1 => highest + 1 + step + std::mem::take(&mut jump).min(32_000),
                2 => highest,
                _ => highest + 1 + step % 3,
            };
            if number < 0 {
                continue;
            }
            let wanted = number > highest - 512 && all.insert(number);
            highest = highest.max(number);
            prop_assert_eq!(seen.accept(number as u16), wanted, "{} {}", number, highest);
        }
    }
}

#[test]
fn the_first_may_be_late() {
    let mut seen = Seen::new();
    assert!(seen.accept(3) && seen.accept(0) && !seen.accept(0) && seen.accept(2));
}
