// SPDX-License-Identifier: GPL-2.0
//! What shares a cache line. The kernel module asserts the same of the port that it has.

use super::*;
use crate::port::layout::{lines_of, CACHE_LINE};
use core::mem::{align_of, offset_of, size_of};

/// As large as the kernel's list of packets.
#[derive(Debug)]
struct TwoWords([usize; 2]);

impl Queue for TwoWords {
    const EMPTY: Self = Self([0; 2]);
    type Packet = P;
    fn push(&mut self, _packet: P) {}
    fn pop(&mut self) -> Option<P> {
        None
    }
    fn front(&self) -> Option<Meta> {
        None
    }
    fn set_front_enqueued(&mut self, _now: Nanos) {}
    fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

type Small = Port<TwoWords>;

#[test]
fn a_token_touches_three_cache_lines_of_the_port() {
    assert_eq!(Small::TOKEN_LINES, 3);
    assert_eq!(
        Small::LATE_TOKEN_LINES,
        4,
        "and one for the wait, if it had to"
    );
    assert_eq!(align_of::<Small>(), CACHE_LINE);
}

#[test]
fn the_hot_words_of_a_band_are_one_line() {
    assert_eq!(offset_of!(Line<TwoWords>, waits), CACHE_LINE);
    assert_eq!(align_of::<Line<TwoWords>>(), CACHE_LINE);
    assert!(
        size_of::<Line<TwoWords>>().is_power_of_two(),
        "a shift finds it"
    );
}

#[test]
fn lines_are_counted_once() {
    assert_eq!(lines_of(&[]), 0);
    assert_eq!(lines_of(&[(0, 64)]), 1);
    assert_eq!(lines_of(&[(60, 8)]), 2);
    assert_eq!(lines_of(&[(0, 8), (56, 8)]), 1);
    assert_eq!(lines_of(&[(0, 8), (64, 64), (120, 16), (8, 8)]), 3);
    assert_eq!(lines_of(&[(640, 192)]), 3);
}
