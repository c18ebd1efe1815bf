// SPDX-License-Identifier: GPL-2.0
use proptest::prelude::*;

use super::*;

#[test]
fn with_the_defaults_each_priority_takes_in_five_times_as_long_messages() {
    let function = PriorityFunction::new(6, 20_000, 1000, 0);
    // 20000^(i/6): 5.2, 27.1, 141.4, 736.8, 3838.9.
    let first = [
        (0, 0),
        (5, 0),
        (6, 1),
        (27, 1),
        (28, 2),
        (141, 2),
        (142, 3),
        (736, 3),
        (737, 4),
        (3838, 4),
        (3839, 5),
    ];
    for (packets, priority) in first {
        assert_eq!(function.of(packets), priority, "{packets}");
    }
    assert_eq!(function.of(20_000), 5);
    assert_eq!(function.of(u64::MAX), 5);
}

#[test]
fn powers_are_exact() {
    // K = 2, p = 10^6: the threshold is exactly 1000.
    let function = PriorityFunction::new(2, 1_000_000, 1000, 0);
    assert_eq!([function.of(999), function.of(1000)], [0, 1]);
    // K = 8, p = 2^16: 4, 16, 64, ….
    let function = PriorityFunction::new(8, 1 << 16, 1000, 0);
    for i in 1..8 {
        let threshold = 1 << (2 * i);
        assert_eq!(
            [function.of(threshold - 1), function.of(threshold)],
            [i - 1, i]
        );
    }
    // a and b: 0.5 x + 3 reaches 4 at 2 packets.
    let function = PriorityFunction::new(8, 1 << 16, 500, 3000);
    assert_eq!([function.of(1), function.of(2)], [0, 1]);
}

#[test]
fn one_priority_is_all_there_is() {
    let function = PriorityFunction::new(1, 2, 1_000_000, 1_000_000_000);
    assert_eq!(function.of(u64::MAX), 0);
    assert_eq!(function.lowest(), 0);
    // Out of range is clamped.
    assert_eq!(PriorityFunction::new(0, 0, 0, 0).of(7), 0);
    assert_eq!(PriorityFunction::new(99, 2, 1000, 0).priorities(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_is_the_formula(
        k in 1_u32..=8,
        p in prop_oneof![2_u32..=100, 2_u32..=1 << 22],
        a in 1_u32..=1_000_000,
        b in 0_u32..=1_000_000_000,
        x in prop_oneof![0_u64..100, 0_u64..1 << 22],
    ) {
        let function = PriorityFunction::new(k, p, a, b);
        let argument = (f64::from(a) * x as f64 + f64::from(b)) / 1000.0;
        let exact = f64::from(k) * argument.ln() / f64::from(p).ln();
        // Where the logarithm is a whole number but for rounding, either side may be right;
        // `powers_are_exact` looks at those.
        prop_assume!((exact - exact.round()).abs() > 1e-9);
        let expected = exact.floor().clamp(0.0, f64::from(k - 1)) as u8;
        prop_assert_eq!(function.of(x), expected, "{}", exact);
    }

    #[test]
    fn longer_messages_are_never_more_urgent(
        k in 1_u32..=8,
        p in 2_u32..=1 << 22,
        a in 1_u32..=1_000_000,
        b in 0_u32..=1_000_000_000,
        x in 0_u64..1 << 22,
        more in 0_u64..1 << 22,
    ) {
        let function = PriorityFunction::new(k, p, a, b);
        prop_assert!(function.of(x) <= function.of(x + more));
    }
}
