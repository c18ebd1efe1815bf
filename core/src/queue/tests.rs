// SPDX-License-Identifier: GPL-2.0
use super::*;

#[test]
fn the_wire_carries_overhead_and_pads_short_packets() {
    assert_eq!(wire_len(60, 1, 24, 84), 84);
    assert_eq!(wire_len(42, 1, 24, 84), 84);
    assert_eq!(wire_len(61, 1, 24, 84), 85);
    assert_eq!(wire_len(1514, 1, 24, 84), 1538);
    assert_eq!(wire_len(1514, 1, 0, 0), 1514);
    assert_eq!(wire_len(0, 1, 0, 0), 0);
}

#[test]
fn each_segment_carries_its_own() {
    // tc counts the headers of each segment: 10 x 1514.
    assert_eq!(wire_len(15_140, 10, 24, 84), 15_380);
    assert_eq!(wire_len(100, 10, 24, 84), 840);
}

#[test]
fn absurd_lengths_saturate() {
    assert_eq!(wire_len(u32::MAX, u32::MAX, 256, 256), u32::MAX);
    assert_eq!(wire_len(0, u32::MAX, 0, 2), u32::MAX);
}

#[test]
fn no_leaf_has_nothing() {
    assert!(Child::<u8>::is_empty(&NoChild));
    assert_eq!(Child::<u8>::dequeue(&mut NoChild), None);
}
