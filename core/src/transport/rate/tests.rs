// SPDX-License-Identifier: GPL-2.0
use proptest::prelude::*;

use super::*;

const LINE: u64 = 5_000_000_000;

fn dcqcn() -> Law {
    Law::Dcqcn(dcqcn::Law::new(&dcqcn::Config::DEFAULT, LINE))
}

fn timely() -> Law {
    Law::Timely(timely::Law::new(&timely::Config::DEFAULT, LINE))
}

#[test]
fn each_law_hears_what_is_for_it() {
    let now = Nanos::MILLISECOND;
    let mut flow = RateControl::new(&dcqcn(), 4);
    assert_eq!(flow.bytes_per_sec(), LINE);
    flow.completed(&dcqcn(), now, Mark::Congested);
    assert_eq!(flow.bytes_per_sec(), LINE);
    flow.notified(&dcqcn(), now, Mark::Congested);
    assert_eq!(flow.bytes_per_sec(), LINE / 2);
    assert_eq!(flow.next(&dcqcn()), Some(now + Nanos(55_000)));
    flow.advance(&dcqcn(), now + Nanos(55_000));
    assert_eq!(flow.bytes_per_sec(), LINE / 4 * 3);
    flow.sent(&dcqcn(), now + Nanos(110_000), 1);
    assert_eq!(flow.bytes_per_sec(), LINE / 8 * 7);

    let mut flow = RateControl::new(&timely(), 4);
    assert_eq!(flow.bytes_per_sec(), LINE / 5);
    let before = flow;
    flow.notified(&timely(), now, Mark::Congested);
    flow.sent(&timely(), now, 1);
    flow.advance(&timely(), now);
    assert_eq!((flow, flow.next(&timely())), (before, None));
    flow.completed(&timely(), Nanos(10_000), Mark::None);
    assert_eq!(flow.bytes_per_sec(), LINE / 5 + 1_250_000);
}

#[test]
fn intervals_are_rounded_up() {
    let flow = RateControl::new(&dcqcn(), 0);
    // 1538 bytes at 40 Gbit/s: 307.6 ns, which are 314982.4 parts.
    assert_eq!(flow.interval(1538), 314_983);
    assert_eq!(flow.interval(0), 0);
    assert_eq!(flow.interval(u32::MAX), flow.interval(Rate::MAX_LEN));
    // The longest packet at the lowest rate of all.
    let law = dcqcn::Law::new(&dcqcn::Config::DEFAULT, 1);
    let slow = RateControl::new(&Law::Dcqcn(law), 0);
    let seconds = u64::from(Rate::MAX_LEN);
    assert_eq!(slow.interval(Rate::MAX_LEN), seconds * 1_000_000_000 * NANO);
}

#[test]
fn another_law_takes_the_rate_over() {
    let now = Nanos::SECOND;
    let mut flow = RateControl::new(&timely(), 4);
    flow.configure(&dcqcn(), now);
    assert_eq!(flow.bytes_per_sec(), LINE / 5);
    // It goes up by R_AI after five steps, not only after a notification.
    flow.advance(&dcqcn(), now + Nanos(6 * 55_000));
    assert_eq!(flow.bytes_per_sec(), LINE / 5 + 2_500_000);
    flow.configure(&timely(), now);
    assert_eq!(flow.bytes_per_sec(), LINE / 5 + 2_500_000);
    // A call with the wrong law does nothing.
    let before = flow;
    flow.notified(&dcqcn(), now, Mark::Congested);
    flow.completed(&dcqcn(), now, Mark::Congested);
    assert_eq!((flow, flow.next(&dcqcn())), (before, None));
    // All of the link stays all of it.
    let mut flow = RateControl::new(&timely(), 0);
    flow.configure(&dcqcn(), now);
    assert_eq!(flow, RateControl::new(&dcqcn(), 0));
}

#[test]
fn marks_have_an_order() {
    let mut marks = [Mark::Congested, Mark::default(), Mark::Undetermined];
    marks.sort();
    assert_eq!(marks, [Mark::None, Mark::Undetermined, Mark::Congested]);
}

#[test]
fn it_is_small() {
    assert!(size_of::<RateControl>() <= 64);
    assert!(size_of::<dcqcn::Notifier>() <= 16);
}

proptest! {
    #[test]
    fn every_rate_is_a_rate(line: u64, others: u32, minimum: u64, len: u32) {
        let config = timely::Config { minimum, ..timely::Config::DEFAULT };
        let flow = RateControl::new(&Law::Timely(timely::Law::new(&config, line)), others);
        let rate = Rate::from_bytes_per_sec(flow.bytes_per_sec());
        prop_assert!(rate.is_some());
        let time = rate.unwrap().duration(len).0;
        prop_assert_eq!(flow.interval(len).div_ceil(NANO), time);
    }
}
