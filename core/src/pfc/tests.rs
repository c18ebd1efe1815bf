// SPDX-License-Identifier: GPL-2.0
use super::*;

/// Bytes a second in a Gbit/s.
const GBIT: u64 = 125_000_000;

/// The exact time, rounded up: 512 bit times each. On these links a quantum is a whole number of
/// tens of picoseconds.
#[test]
fn every_pause_is_exact_on_usual_links() {
    for (gbit, quantum) in [
        (1, 51_200),
        (10, 5_120),
        (25, 2_048),
        (40, 1_280),
        (100, 512),
        (400, 128),
    ] {
        let rate = Rate::from_bytes_per_sec(gbit * GBIT).unwrap();
        for quanta in 0..=u16::MAX {
            let exact = u64::from(quanta) * quantum;
            let expected = exact.div_ceil(100);
            assert_eq!(time_of(&rate, quanta), Nanos(expected), "{gbit} {quanta}");
        }
    }
    let rate = Rate::from_bytes_per_sec(GBIT).unwrap();
    assert_eq!(time_of(&rate, MAX_QUANTA), Nanos(33_553_920));
}

/// Neither early nor late by more than it takes to be a whole nanosecond.
#[test]
fn every_pause_is_rounded_up_on_any_link() {
    for bytes in [1, 3, 999_999_937, 12_345_678_901, Rate::MAX_BYTES_PER_SEC] {
        let rate = Rate::from_bytes_per_sec(bytes).unwrap();
        for quanta in (0..=u16::MAX).step_by(13).chain([u16::MAX]) {
            let parts = u128::from(quanta) * 64 * 1_000_000_000;
            let expected = parts.div_ceil(u128::from(bytes));
            assert_eq!(u128::from(time_of(&rate, quanta).0), expected);
        }
    }
    assert_eq!(time_of(&Rate::UNLIMITED, MAX_QUANTA), Nanos::ZERO);
}
