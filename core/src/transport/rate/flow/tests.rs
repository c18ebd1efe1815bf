// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::config::Config;
use crate::transport::uapi;

const LINE: u64 = 1_250_000_000;
const SEGMENT: u32 = 16 * 1450;

fn resolved(policy: u32) -> Resolved {
    let config = Config {
        policy,
        ..Config::DEFAULT
    };
    config.validate(Some(LINE)).unwrap()
}

fn timely() -> (Flow, Laws, Resolved) {
    let (mut laws, config) = (Laws::NONE, resolved(uapi::POLICY_TIMELY));
    let flow = Flow::new(Nanos(5), &mut laws, &config, (Kind::Timely, LINE, 3));
    (flow, laws, config)
}

#[test]
fn it_begins_by_its_law() {
    let (flow, ..) = timely();
    assert_eq!(flow.control.bytes_per_sec(), LINE / 4);
    assert_eq!((flow.due.at(), flow.turn), (Nanos(5), Turn::None));
}

#[test]
fn segments_are_timed_from_their_last_packet() {
    let (mut flow, ..) = timely();
    let mut now = Nanos::ZERO;
    for packet in 0..40 {
        let offset = packet * 1450;
        now = Nanos(u64::from(packet) * 100);
        flow.sent(now, (offset, offset + 1450), SEGMENT, false);
    }
    // The 16th packet left at 1500 and the 32nd at 3100, and nothing else ends a segment.
    assert_eq!(flow.acknowledged(now, SEGMENT - 1), None);
    flow.told(Mark::Undetermined);
    let first = flow.acknowledged(Nanos(5000), SEGMENT);
    assert_eq!(first, Some((Nanos(3500), Mark::Undetermined)));
    // Of marks, those since count; an ACK that is late does not make the next one late.
    assert_eq!(flow.acknowledged(Nanos(5000), SEGMENT), None);
    let second = flow.acknowledged(Nanos(5100), 3 * SEGMENT);
    assert_eq!(second, Some((Nanos(2000), Mark::None)));
    assert_eq!(flow.acknowledged(Nanos(6000), 3 * SEGMENT), None);
}

#[test]
fn of_several_segments_the_last_counts() {
    let (mut flow, ..) = timely();
    for segment in 0..3 {
        let end = (segment + 1) * SEGMENT;
        flow.sent(
            Nanos(u64::from(segment) * 1000),
            (end - 1450, end),
            SEGMENT,
            false,
        );
    }
    flow.told(Mark::Congested);
    flow.told(Mark::Undetermined);
    let last = flow.acknowledged(Nanos(4000), 2 * SEGMENT);
    assert_eq!(last, Some((Nanos(3000), Mark::Congested)));
}

#[test]
fn what_is_sent_again_times_nothing() {
    let (mut flow, ..) = timely();
    flow.sent(Nanos(0), (SEGMENT - 10, SEGMENT), SEGMENT, false);
    flow.sent(Nanos(1), (0, 1450), SEGMENT, true);
    assert_eq!(flow.acknowledged(Nanos(9), SEGMENT), None);
    // What follows does.
    flow.sent(Nanos(10), (SEGMENT, 2 * SEGMENT), SEGMENT, false);
    let next = flow.acknowledged(Nanos(30), 2 * SEGMENT);
    assert_eq!(next, Some((Nanos(20), Mark::None)));
}

#[test]
fn no_more_are_timed_than_there_is_room_for() {
    let (mut flow, ..) = timely();
    for segment in 0..20 {
        let start = segment * SEGMENT;
        flow.sent(
            Nanos(segment.into()),
            (start, start + SEGMENT),
            SEGMENT,
            false,
        );
    }
    let last = flow.acknowledged(Nanos(100), 20 * SEGMENT);
    assert_eq!(last, Some((Nanos(93), Mark::None)));
    assert_eq!(flow.acknowledged(Nanos(100), 20 * SEGMENT), None);
    // Segments without length end none.
    flow.sent(Nanos(0), (0, 1450), 0, false);
    assert_eq!(flow.acknowledged(Nanos(100), u32::MAX), None);
}

#[test]
fn a_change_of_options_or_link_is_noticed_at_the_next_use() {
    let (mut flow, mut laws, mut config) = timely();
    flow.law(&mut laws, &config, LINE / 8, Nanos(7));
    assert_eq!(flow.control.bytes_per_sec(), LINE / 8);
    flow.law(&mut laws, &config, LINE, Nanos(8));
    config.timely.minimum = LINE / 2;
    flow.law(&mut laws, &config, LINE, Nanos(9));
    assert_eq!(flow.control.bytes_per_sec(), LINE / 8, "nobody has said so");
    laws.change();
    flow.law(&mut laws, &config, LINE, Nanos(10));
    assert_eq!(flow.control.bytes_per_sec(), LINE / 2);
    // A policy with tokens leaves its law to it, another law takes it over.
    laws.change();
    config.policy = resolved(uapi::POLICY_TOP).policy;
    flow.law(&mut laws, &config, LINE, Nanos(11));
    assert_eq!(flow.control.kind(), Kind::Timely);
    laws.change();
    config.policy = resolved(uapi::POLICY_DCQCN).policy;
    flow.law(&mut laws, &config, LINE, Nanos(12));
    assert_eq!(flow.control.kind(), Kind::Dcqcn);
    assert_eq!(flow.control.bytes_per_sec(), LINE / 2);
}

#[test]
fn it_is_small() {
    assert!(size_of::<Flow>() <= 448, "{}", size_of::<Flow>());
}
