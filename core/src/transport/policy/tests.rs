// SPDX-License-Identifier: GPL-2.0
use proptest::prelude::*;

use super::*;
use crate::transport::config::Config;
use crate::transport::uapi;

const FACTS: Facts = Facts {
    length: Some(100_000),
    received: 0,
    mss: 1450,
    deadline: None,
    coflow: None,
    wish: None,
    due: Nanos(500),
    lot: 7,
};

fn config(policy: u32, schedule: u32) -> Resolved {
    let config = Config {
        policy,
        schedule,
        ..Config::DEFAULT
    };
    config.validate(None).unwrap()
}

fn top(schedule: u32) -> Resolved {
    config(uapi::POLICY_TOP, schedule)
}

#[track_caller]
fn first(config: &Resolved, first: Facts, second: Facts) {
    let (first, second) = (
        standing(config, &config.speed, Nanos(0), &first),
        standing(config, &config.speed, Nanos(0), &second),
    );
    assert!(first.key < second.key, "{first:?} {second:?}");
    assert!(first.priority <= second.priority);
}

#[test]
fn expresspass_and_ren_know_no_priorities_only_who_is_due() {
    for policy in [uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN] {
        let config = config(policy, uapi::SCHEDULE_EDF);
        let early = Facts {
            due: Nanos(499),
            length: Some(1 << 29),
            wish: Some(7),
            ..FACTS
        };
        let late = Facts {
            deadline: Some(Nanos(1)),
            wish: Some(0),
            ..FACTS
        };
        first(&config, early, late);
        assert_eq!(
            standing(&config, &config.speed, Nanos(0), &early).priority,
            0
        );
    }
}

#[test]
fn srpt_goes_by_what_remains_and_las_by_what_came() {
    let nearly = Facts {
        received: 99_000,
        ..FACTS
    };
    first(&top(uapi::SCHEDULE_SRPT), nearly, FACTS);
    first(&top(uapi::SCHEDULE_LAS), FACTS, nearly);
    // Of unknown length: both by the bytes that have come.
    let unknown = |received| Facts {
        length: None,
        received,
        ..FACTS
    };
    first(&top(uapi::SCHEDULE_SRPT), unknown(5000), unknown(6000));
    first(&top(uapi::SCHEDULE_SRPT), unknown(5000), FACTS);
    first(&top(uapi::SCHEDULE_LAS), unknown(5000), unknown(6000));
    // 69 packets, 1 packet.
    let priority = |config, facts| standing(&config, &config.speed, Nanos(0), &facts).priority;
    assert_eq!(priority(top(uapi::SCHEDULE_SRPT), FACTS), 2);
    assert_eq!(priority(top(uapi::SCHEDULE_SRPT), nearly), 0);
    assert_eq!(priority(top(uapi::SCHEDULE_LAS), nearly), 2);
    // Of equal weights one is served after the other, or by turns if the lengths are unknown.
    let lot = Facts { lot: 6, ..FACTS };
    first(&top(uapi::SCHEDULE_SRPT), lot, FACTS);
    let earlier = Facts {
        due: Nanos(499),
        ..FACTS
    };
    first(&top(uapi::SCHEDULE_LAS), earlier, FACTS);
    let due = |due| Facts {
        due: Nanos(due),
        ..unknown(5000)
    };
    first(&top(uapi::SCHEDULE_SRPT), due(499), due(500));
}

#[test]
fn edf_goes_by_the_deadline_and_puts_those_without_last() {
    let edf = top(uapi::SCHEDULE_EDF);
    let until = |us: u64| Facts {
        deadline: Some(Nanos(1000 * us)),
        ..FACTS
    };
    first(&edf, until(0), until(1));
    first(&edf, until(1000), until(1001));
    first(&edf, until(1_000_000_000), FACTS);
    // In frames of 1230.4 ns: 812, 5.
    let priority = |facts| standing(&edf, &edf.speed, Nanos(0), &facts).priority;
    assert_eq!(
        [priority(until(1000)), priority(until(7)), priority(FACTS)],
        [4, 0, 7]
    );
    // Over.
    let late = standing(&edf, &edf.speed, Nanos(u64::MAX), &until(1000));
    assert_eq!(late.priority, 0);
}

#[test]
fn a_coflow_counts_as_one() {
    let coflow = top(uapi::SCHEDULE_COFLOW);
    let of = |bytes| Facts {
        coflow: Some(bytes),
        ..FACTS
    };
    first(&coflow, of(99_999), FACTS);
    first(&coflow, FACTS, of(100_001));
    first(&coflow, of(1 << 40), of(1 << 41));
}

#[test]
fn what_the_application_wishes_for_comes_before_what_the_schedule_says() {
    for schedule in 0..4 {
        let top = top(schedule);
        let wish = |wish, length| Facts {
            length: Some(length),
            wish: Some(wish),
            ..FACTS
        };
        first(&top, wish(0, 1 << 29), wish(1, 1));
        assert_eq!(
            standing(&top, &top.speed, Nanos(0), &wish(3, 1)).priority,
            3
        );
        let six = Config {
            schedule,
            priorities: 6,
            ..Config::DEFAULT
        };
        let six = six.validate(None).unwrap();
        assert_eq!(
            standing(&six, &six.speed, Nanos(0), &wish(7, 1)).priority,
            5
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Tokens that overtake each other on the way do so in the order of the receiver.
    #[test]
    fn a_smaller_key_never_has_a_lower_priority(
        schedule in 0_u32..4,
        k in 1_u32..=8,
        a in any::<[u32; 4]>(),
        b in any::<[u32; 4]>(),
        has in any::<[bool; 8]>(),
        now in any::<u32>(),
    ) {
        let config = Config { schedule, priorities: k, ..Config::DEFAULT }.validate(None).unwrap();
        let facts = |of: [u32; 4], has: &[bool]| Facts {
            length: has[0].then_some(of[0] >> 2),
            received: of[1] >> 2,
            mss: 1450,
            deadline: has[1].then_some(Nanos(of[2].into())),
            coflow: has[2].then_some(u64::from(of[3]) << 8),
            wish: has[3].then_some(of[3] as u8 % 8),
            due: Nanos(of[2].into()),
            lot: of[2].into(),
        };
        let (a, b) = (facts(a, &has[..4]), facts(b, &has[4..]));
        let now = Nanos(now.into());
        let at = |facts| standing(&config, &config.speed, now, facts);
        let (a, b) = (at(&a), at(&b));
        prop_assert!(a.priority < k as u8);
        prop_assert!(a.key >= b.key || a.priority <= b.priority);
    }
}
