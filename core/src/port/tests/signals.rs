// SPDX-License-Identifier: GPL-2.0
//! The share of signals: what is beyond it is data.

use super::*;
use crate::port::signals::{BURST, CHUNK};
use crate::port::uapi::{class, SIGNAL_SHARE_OFF};

/// Of 10 Gbit/s: 64 KiB at once are 780 signals of 84 bytes, and 16 bytes of the last chunk are
/// left.
const AT_ONCE: u32 = 780;

#[test]
fn signals_beyond_their_share_are_data_and_none_is_dropped() {
    let mut b = Bench::new(PAPERS);
    b.put_all(Band::Data, 5000..5001);
    b.put_all(Band::Signal, 0..AT_ONCE + 20);
    assert_eq!(b.port.queued(Band::Signal).packets, AT_ONCE.into());
    assert_eq!(b.port.queued(Band::Data).packets, 21);
    assert_eq!(b.port.port_stats().signal_excess, 20);
    let (signals, data) = (b.port.stats(Band::Signal), b.port.stats(Band::Data));
    assert_eq!((signals.offered_packets, data.offered_packets), (780, 21));
    assert_eq!((signals.over_limit, data.over_limit), (0, 0));
    let ids: Vec<_> = b.run(0).iter().map(|out| out.1).collect();
    // Before other data, as what no token asked for.
    let mut expected: Vec<_> = (0..AT_ONCE + 20).collect();
    expected.push(5000);
    assert_eq!(ids, expected);
    assert_eq!(b.drops, []);
}

/// Bytes on the wire of signals, of tokens and of the data band, in 20 ms of a link that is
/// offered all that it carries in signals, as much in data, and the tokens' share.
fn flooded(config: Config) -> (u64, u64, u64) {
    let mut b = Bench::new(config);
    let (mut signals, mut tokens, mut data) = (0, 0, 0);
    let mut at = 0;
    for n in 0..298_500_u32 {
        b.put(Band::Signal, n);
        if n % 18 == 0 {
            b.put(Band::Data, n);
        }
        if n % 20 == 0 {
            b.put(Band::Token(0), n);
        }
        loop {
            match b.port.dequeue(b.now, &mut b.child, &mut b.drops) {
                Dequeue::Packet(packet, Band::Signal) => signals += u64::from(packet.1.wire_len),
                Dequeue::Packet(packet, Band::Data) => data += u64::from(packet.1.wire_len),
                Dequeue::Packet(packet, _) => tokens += u64::from(packet.1.wire_len),
                _ => break,
            }
        }
        at += 67;
        b.at(at);
    }
    assert_eq!(b.port.stats(Band::Signal).over_limit, 0);
    (signals, tokens, data)
}

#[test]
fn a_flood_leaves_tokens_and_data_the_rest_of_the_link() {
    // 25 MB in all.
    let all = 298_500 * 67 * 5 / 4;
    for order in [Order::TokensFirst, Order::DataFirst] {
        let config = Config { order, ..shaped() };
        let (signals, tokens, data) = flooded(config);
        // 5 % and a burst, to a chunk.
        let share = all / 20 + u64::from(BURST);
        assert!(share.abs_diff(signals) <= u64::from(CHUNK), "{signals}");
        // One token of twenty packets, of 84 bytes each: 4.987 %.
        assert!(tokens >= all * 498 / 10_000, "{tokens}");
        assert!(data >= all * 95 / 100 - tokens - 70_000, "{data}");
        // Without a share, nobody else gets anything.
        let (signals, tokens, data) = flooded(Config {
            signal_share: SIGNAL_SHARE_OFF,
            ..config
        });
        assert!(signals > all * 99 / 100, "{signals}");
        assert!(tokens + data < all / 100, "{tokens} and {data}");
    }
}

#[test]
fn honest_signals_below_the_share_are_never_excess() {
    let mut b = Bench::new(shaped());
    // 4.9 %, in bursts of 64, with data that fills the link.
    let mut at = 0;
    for burst in 0..500 {
        b.put_all(Band::Signal, burst * 64..burst * 64 + 64);
        b.put_sized(Band::Data, 1_000_000, 1514, 1);
        while let Dequeue::Packet(..) = b.get() {}
        at += 87_771;
        b.at(at);
    }
    assert_eq!(b.port.port_stats().signal_excess, 0);
    assert_eq!(b.port.stats(Band::Signal).offered_packets, 32_000);
}

#[test]
fn off_all_and_an_unknown_link_have_no_bound() {
    let configs = [SIGNAL_SHARE_OFF, 1_000_000_000].map(|signal_share| Config {
        signal_share,
        signal_limit: 5000,
        ..PAPERS
    });
    let unknown = Config {
        signal_limit: 5000,
        ..PAPERS
    };
    let benches = configs.map(Bench::new).into_iter();
    for mut b in benches.chain([Bench::on(None, unknown)]) {
        b.put_all(Band::Signal, 0..5000);
        assert_eq!(b.port.queued(Band::Signal).packets, 5000);
        assert_eq!(b.port.port_stats().signal_excess, 0);
    }
}

#[test]
fn the_share_changes_while_signals_wait() {
    let mut b = Bench::new(PAPERS);
    b.put_all(Band::Signal, 0..AT_ONCE + 1);
    assert_eq!(b.port.port_stats().signal_excess, 1);
    let off = SIGNAL_SHARE_OFF;
    b.change(Config {
        signal_share: off,
        ..PAPERS
    });
    b.put_all(Band::Signal, 1000..1100);
    assert_eq!(b.port.port_stats().signal_excess, 1);
    b.change(PAPERS);
    b.change(Config {
        signal_limit: 10_000,
        ..PAPERS
    });
    b.put_all(Band::Signal, 2000..2000 + AT_ONCE + 3);
    assert_eq!(b.port.port_stats().signal_excess, 4);
    b.port.reset(&mut b.drops);
    b.put_all(Band::Signal, 0..AT_ONCE + 1);
    assert_eq!(b.port.port_stats().signal_excess, 5);
}

#[test]
fn the_share_begins_when_the_speed_is_known() {
    let mut b = Bench::on(None, PAPERS);
    b.put_all(Band::Signal, 0..900);
    b.port.note_link_speed(b.now, Some(GBIT));
    assert_eq!(
        b.port.resolved().signal_rate.unwrap().bytes_per_sec(),
        GBIT / 20
    );
    b.put_all(Band::Signal, 900..1000);
    assert_eq!(b.port.port_stats().signal_excess, 0);
    let first = b.port.queued(Band::Signal).packets;
    assert_eq!(first, 1000);
    b.run(0);
    b.put_all(Band::Signal, 0..AT_ONCE);
    assert_eq!(b.port.port_stats().signal_excess, 100);
}

#[test]
fn a_super_packet_is_charged_for_all_its_segments() {
    let mut b = Bench::new(PAPERS);
    // 45 full frames.
    assert_eq!(b.put_sized(Band::Signal, 0, 45 * 1514, 45), Enqueue::Queued);
    assert_eq!(b.put_sized(Band::Signal, 1, 45 * 1514, 45), Enqueue::Queued);
    assert_eq!(b.port.port_stats().signal_excess, 45);
    assert_eq!(b.port.stats(Band::Data).offered_packets, 45);
}

#[test]
fn excess_that_finds_the_data_band_full_is_dropped_there() {
    let mut b = Bench::new(Config {
        data_limit: 1600,
        ..PAPERS
    });
    b.put_all(Band::Signal, 0..AT_ONCE);
    b.put(Band::Data, 1000);
    assert_eq!(b.put(Band::Signal, 1001), Enqueue::Queued);
    assert_eq!(b.put(Band::Signal, 1002), Enqueue::Dropped);
    assert_eq!(b.drops, [(1002, Band::Data, DropCause::OverLimit)]);
    assert_eq!(b.port.stats(Band::Data).over_limit, 1);
    assert_eq!(b.port.stats(Band::Signal).over_limit, 0);
}

#[test]
fn who_classifies_is_told_that_signals_have_to_pay() {
    let mut b = Bench::new(PAPERS);
    assert_eq!(b.port.slot(Band::Signal), Slot::UNPAID);
    assert_eq!(b.port.class_slot(class::SIGNAL.into()), Some(Slot::UNPAID));
    assert_eq!(Slot::UNPAID.band(), Band::Signal);
    assert!(!Slot::UNPAID.is_token());
    let packet = Bench::packet(0, 60, 1);
    // Nothing is ever queued there.
    let packet = b.port.try_enqueue(b.now, Slot::UNPAID, packet).unwrap_err();
    let packet = b
        .port
        .try_enqueue_fresh(b.now, Slot::UNPAID, packet)
        .unwrap_err();
    assert!(!b.port.try_pay(84));
    let meta = packet.meta();
    assert_eq!(b.port.pay(b.now, &meta, || false), Slot::SIGNAL);
    assert!(b.port.try_pay(84));
    let queued = b.port.enqueue_at(b.now, Slot::SIGNAL, packet, &mut b.drops);
    assert_eq!(queued, Enqueue::Queued);
    assert_eq!(b.port.stats(Band::Signal).offered_packets, 1);
    // Where a child is, the caller hands it over.
    while b.port.try_pay(84) || b.port.pay(b.now, &meta, || false) == Slot::SIGNAL {}
    assert_eq!(b.port.pay(b.now, &meta, || true), Slot::SIGNAL);
    assert_eq!(b.port.pay(b.now, &meta, || false), Slot::UNASKED);
    assert_eq!(b.port.port_stats().signal_excess, 2);
}
