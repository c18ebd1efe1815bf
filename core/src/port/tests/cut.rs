// SPDX-License-Identifier: GPL-2.0
//! Which super-packets stay whole, and how others are cut.

use super::*;
use crate::options::Share;
use crate::pfc::scope::Scope;
use crate::port::config::{GsoHold, MaxOn, Pfc, Phantom, SplitGso, Tcd, WHOLE_ALL};
use crate::port::cut::Cut;

/// Bytes of a full frame as tc counts them.
const FRAME: u32 = 1514;

/// A super-packet of full frames that is so long on the wire.
fn meta(segs: u32, wire_len: u32) -> Meta {
    Meta {
        len: segs * FRAME,
        wire_len,
        segs,
        enqueued: Nanos::ZERO,
    }
}

fn frames(segs: u32) -> Meta {
    meta(segs, segs * FRAME_WIRE_LEN)
}

fn cut(b: &Bench, slot: Slot, meta: Meta) -> Cut {
    b.port.cut(slot, &meta, || Some(FRAME))
}

fn held(ns: u32) -> Config {
    Config {
        gso_hold: GsoHold::ns(ns),
        ..Config::DEFAULT
    }
}

#[test]
fn what_holds_the_link_for_no_longer_stays_whole() {
    // 50 us at 10 Gbit/s, to the byte.
    let b = Bench::new(Config::DEFAULT);
    assert_eq!(b.port.resolved().whole, 62_500);
    let unasked = |meta| b.port.cut(Slot::DATA, &meta, || panic!("asked"));
    assert_eq!(unasked(meta(45, 62_500)), Cut::Whole);
    assert_eq!(cut(&b, Slot::DATA, meta(45, 62_501)), Cut::Pieces(23));
    // 40 fit; three pieces for 81, and these of 27 each.
    assert_eq!(cut(&b, Slot::DATA, frames(40)), Cut::Whole);
    assert_eq!(cut(&b, Slot::DATA, frames(41)), Cut::Pieces(21));
    assert_eq!(cut(&b, Slot::DATA, frames(80)), Cut::Pieces(40));
    assert_eq!(cut(&b, Slot::DATA, frames(81)), Cut::Pieces(27));
}

/// Of any length, on any link: pieces are as few as can be, and none holds the link for longer.
#[test]
fn pieces_are_few_and_short() {
    for (speed, hold) in [
        (GBIT, 50_000),
        (GBIT, 24_607),
        (10 * GBIT, 7_777),
        (40 * GBIT, 2_500),
        (123_456_789, 99_999),
    ] {
        let b = Bench::on(Some(speed), held(hold));
        for len in [60, 90, 700, FRAME, 9014] {
            let wire = b.port.framing().wire_len(len, 1);
            for segs in 2..150 {
                let meta = meta(segs, segs * wire);
                let time = |segs: u32| b.port.resolved().link_rate.duration(segs * wire).0;
                let fit = (1..=segs).rev().find(|&segs| time(segs) <= hold.into());
                match b.port.cut(Slot::DATA, &meta, || Some(len)) {
                    Cut::Whole => assert_eq!(fit, Some(segs)),
                    Cut::Single => assert!(fit.is_none_or(|fit| fit == 1)),
                    Cut::Pieces(each) => {
                        let fit = fit.unwrap();
                        assert!((2..segs).contains(&each) && each <= fit);
                        assert_eq!(segs.div_ceil(each), segs.div_ceil(fit));
                    }
                }
            }
        }
    }
}

#[test]
fn where_two_frames_take_longer_all_are_split() {
    let b = Bench::on(Some(12_500_000), Config::DEFAULT);
    assert_eq!(cut(&b, Slot::DATA, frames(2)), Cut::Single);
    // Shorter ones fit all the same.
    let short = meta(10, 840);
    let short = b.port.cut(Slot::DATA, &short, || Some(60));
    assert_eq!(short, Cut::Pieces(5));
}

#[test]
fn what_cannot_be_cut_is_split_if_it_is_too_long() {
    let b = Bench::new(Config::DEFAULT);
    let cut = |segs| b.port.cut(Slot::DATA, &frames(segs), || None);
    assert_eq!((cut(40), cut(41)), (Cut::Whole, Cut::Single));
    // A length that is said to be longer than its parts.
    let odd = b.port.cut(Slot::DATA, &meta(4, 70_000), || Some(FRAME));
    assert_eq!(odd, Cut::Single);
    assert_eq!(
        b.port.cut(Slot::DATA, &frames(41), || Some(u32::MAX)),
        Cut::Single
    );
    let unframed = Config {
        overhead: 0,
        mpu: 0,
        ..Config::DEFAULT
    };
    let b = Bench::new(unframed);
    assert_eq!(b.port.cut(Slot::DATA, &frames(41), || Some(0)), Cut::Single);
}

#[test]
fn only_data_stays_whole() {
    let b = Bench::new(Config::DEFAULT);
    for slot in [
        Slot::UNPAID,
        Slot::SIGNAL,
        Slot::new(Band::Unscheduled),
        Slot::new(Band::Token(0)),
    ] {
        assert_eq!(cut(&b, slot, frames(2)), Cut::Single, "{slot:?}");
    }
}

/// Whatever its place among data: what goes before other data holds the link for no longer.
#[test]
fn data_of_short_messages_stays_whole() {
    let b = Bench::new(Config::DEFAULT);
    for slot in [Slot::UNASKED, Slot::UNASKED_LONG, Slot::SHORT] {
        assert_eq!(cut(&b, slot, frames(40)), Cut::Whole, "{slot:?}");
        assert_eq!(cut(&b, slot, frames(81)), Cut::Pieces(27), "{slot:?}");
    }
}

#[test]
fn all_or_none_if_it_is_said_so() {
    for (split_gso, expected, whole) in [
        (SplitGso::All, Cut::Single, 0),
        (SplitGso::No, Cut::Whole, WHOLE_ALL),
    ] {
        for speed in [None, Some(GBIT)] {
            let config = Config {
                split_gso,
                ..Config::DEFAULT
            };
            let b = Bench::on(speed, config);
            assert_eq!(b.port.resolved().whole, whole);
            for slot in [Slot::DATA, Slot::UNPAID, Slot::new(Band::Token(0))] {
                for segs in [2, 400] {
                    assert_eq!(cut(&b, slot, frames(segs)), expected);
                }
            }
        }
    }
}

#[test]
fn while_the_speed_is_not_known_they_stay_whole() {
    let mut b = Bench::on(None, Config::DEFAULT);
    assert_eq!(cut(&b, Slot::DATA, frames(45)), Cut::Whole);
    b.port.note_link_speed(b.now, Some(GBIT));
    assert_eq!(cut(&b, Slot::DATA, frames(45)), Cut::Pieces(4));
    // Unless nobody may be held up at all.
    let papers = Bench::on(None, PAPERS);
    assert_eq!(cut(&papers, Slot::DATA, frames(2)), Cut::Single);
}

/// The link's rate is what counts where there is one, and else the device's speed.
#[test]
fn the_link_that_is_held_is_the_shaped_one() {
    let config = Config {
        link: Some(GBIT),
        ..Config::DEFAULT
    };
    assert_eq!(Bench::new(config).port.resolved().whole, 6250);
}

#[test]
fn a_token_waits_for_two_with_data_first() {
    let b = Bench::new(Config {
        order: Order::DataFirst,
        ..Config::DEFAULT
    });
    assert_eq!(b.port.resolved().whole, 31_250);
}

#[test]
fn a_full_queue_drops_no_more_than_a_part_of_it_at_once() {
    let limited = |data_limit| {
        let b = Bench::on(
            Some(100 * GBIT),
            Config {
                data_limit,
                ..Config::DEFAULT
            },
        );
        b.port.resolved().whole
    };
    assert_eq!(limited(128_000), 16_000);
    assert_eq!(limited(8_000_000), 625_000);
}

#[test]
fn who_counts_packets_splits_all() {
    let tcd = Tcd {
        threshold: 30_000,
        max_on: MaxOn::Auto,
    };
    let pfc = Pfc {
        data: Scope::one(3),
        watchdog: Nanos(200_000_000),
        generate: None,
    };
    let phantom = Phantom {
        drain: Share::Share(950_000_000),
        mark: 30_000,
    };
    let ren = Some(Nanos(48_000));
    for config in [
        Config {
            tcd: Some(tcd),
            ..Config::DEFAULT
        },
        Config {
            pfc: Some(pfc),
            ..Config::DEFAULT
        },
        Config {
            phantom: Some(phantom),
            ..Config::DEFAULT
        },
        Config {
            ren,
            ..Config::DEFAULT
        },
    ] {
        let mut b = Bench::new(config);
        assert_eq!(cut(&b, Slot::DATA, frames(2)), Cut::Single);
        let config = Config {
            split_gso: SplitGso::No,
            ..config
        };
        b.change(config);
        assert_eq!(cut(&b, Slot::DATA, frames(2)), Cut::Whole);
    }
}

/// A token may have to wait for a piece: what that takes beyond jitter counts as jitter.
#[test]
fn a_longer_hold_is_made_up_for() {
    let resolved = |jitter, hold, split_gso| {
        let config = Config {
            jitter: Nanos(jitter),
            gso_hold: hold,
            split_gso,
            ..Config::DEFAULT
        };
        let resolved = config.validate(Some(10 * GBIT)).unwrap();
        (resolved.slack, resolved.token_limit, resolved.expiry)
    };
    let plain = |jitter| resolved(jitter, GsoHold::AUTO, SplitGso::All);
    let auto = |jitter, hold| resolved(jitter, hold, SplitGso::Auto);
    assert_eq!(auto(50_000, GsoHold::AUTO), plain(50_000));
    assert_eq!(auto(50_000, GsoHold::ns(20_000)), plain(50_000));
    assert_eq!(auto(50_000, GsoHold::ns(200_000)), plain(200_000));
    assert_eq!(auto(0, GsoHold::ns(30_000)), plain(30_000));
    // Where nothing is held for so long it makes no difference.
    for split in [SplitGso::All, SplitGso::No] {
        assert_eq!(resolved(0, GsoHold::ns(200_000), split), plain(0));
    }
}
