// SPDX-License-Identifier: GPL-2.0
//! Acknowledgements of messages of one packet, which ride on what goes the other way.

use super::trust::outgoing;
use super::*;
use crate::transport::wire::{Delivered, MAX_DELIVERED};

/// Two hosts that have sent each other a message, and rest.
struct Pair {
    ends: [(Messages, Io); 2],
    now: Nanos,
}

/// What the end of this number calls the other one.
fn other(end: usize, v6: bool) -> Address {
    host(2 - end as u32, v6)
}

impl Pair {
    fn new(v6: bool) -> Self {
        // Nothing comes up by itself.
        Self::with(v6, |_, config| config.rto = Nanos(16 * Self::WAIT.0))
    }

    /// With another configuration of each end.
    fn with(v6: bool, set: impl Fn(usize, &mut Resolved)) -> Self {
        let mut pair = Self {
            ends: [0, 1_u64].map(|end| {
                let mut config = config();
                set(end as usize, &mut config);
                let endpoint = Endpoint::new(NOW, &config, [5, 6, 7 + end]).unwrap();
                let random = end << 40;
                (
                    endpoint,
                    Io {
                        random,
                        ..Io::default()
                    },
                )
            }),
            now: NOW,
        };
        for _ in 0..2 {
            for end in 0..2 {
                pair.send(end, 100, v6);
                pair.carry(v6);
            }
            pair.later(Nanos(2_000_000), v6);
        }
        pair
    }

    const WAIT: Nanos = Nanos(100_000);

    fn send(&mut self, end: usize, length: u32, v6: bool) -> OutId {
        let what = Outgoing {
            length: Some(length),
            available: length,
            mss: if length == 5000 { 1450 } else { 9000 },
            ..outgoing()
        };
        let (endpoint, io) = &mut self.ends[end];
        endpoint
            .send(self.now, &other(end, v6), &what, (), io)
            .unwrap()
    }

    /// Hands over all that was sent, and what follows from it. Who sent what.
    fn carry(&mut self, v6: bool) -> Vec<(usize, Packet)> {
        let mut all = Vec::new();
        loop {
            let sent = all.len();
            for end in 0..2 {
                for packet in self.ends[end].1.take() {
                    let (endpoint, io) = &mut self.ends[1 - end];
                    endpoint.receive(self.now, &other(1 - end, v6), packet, io);
                    all.push((end, packet));
                }
            }
            if all.len() == sent {
                return all;
            }
        }
    }

    /// Time passes, and timers are on time.
    fn later(&mut self, time: Nanos, v6: bool) -> Vec<(usize, Packet)> {
        let (until, mut all) = (self.now + time, Vec::new());
        loop {
            let due = self.ends.iter().filter_map(|(it, _)| it.next_timer()).min();
            self.now = self.now.max(due.unwrap_or(until)).min(until);
            for (endpoint, io) in &mut self.ends {
                endpoint.timer(self.now, self.now.0 as u32, io);
            }
            all.extend(self.carry(v6));
            if self.now == until {
                return all;
            }
        }
    }

    fn count(&self, end: usize, counter: Counter) -> u64 {
        self.ends[end].0.stats().get(counter)
    }
}

fn cookies(delivered: &Delivered) -> Vec<Cookie> {
    delivered.cookies().to_vec()
}

#[test]
fn a_request_and_its_answer_are_two_packets() {
    for v6 in [false, true] {
        let mut pair = Pair::new(v6);
        let mut last = None;
        for round in 0..10 {
            let before = [0, 1].map(|end| pair.count(end, Counter::OutDelivered));
            for end in 0..2 {
                pair.send(end, 100, v6);
                let packets = pair.carry(v6);
                let [(from, Packet::First(first))] = packets[..] else {
                    panic!("{packets:?}");
                };
                assert_eq!((from, first.prompt), (end, false));
                // It takes along what the one before it was waiting for.
                let expected: Vec<Cookie> = last.into_iter().collect();
                assert_eq!(cookies(&first.delivered), expected, "{round}");
                assert_eq!(first.delivered.allowance != 0, last.is_some());
                last = Some(first.sync.cookie);
            }
            let after = [0, 1].map(|end| pair.count(end, Counter::OutDelivered));
            let second = u64::from(round != 0);
            assert_eq!(after, [before[0] + 1, before[1] + second]);
        }
        // The last one is told by itself.
        let packets = pair.later(Pair::WAIT, v6);
        let alone = |packet: &&(usize, Packet)| matches!(packet.1, Packet::Delivered(_));
        assert_eq!(packets.iter().filter(alone).count(), 1, "{packets:?}");
        assert_eq!(pair.ends[0].0.counts().0 + pair.ends[1].0.counts().0, 0);
    }
}

#[test]
fn an_end_that_nothing_follows_is_told_in_time() {
    let mut pair = Pair::new(false);
    pair.send(0, 100, false);
    assert_eq!(pair.carry(false).len(), 1);
    let just = Nanos(Pair::WAIT.0 - 1);
    assert!(pair.later(just, false).is_empty());
    let packets = pair.later(Nanos(1), false);
    assert!(
        matches!(packets[..], [(1, Packet::Delivered(it))] if it.len() == 1 && it.allowance != 0),
        "{packets:?}"
    );
}

/// Without an answer four share a packet, or as many as there are bytes for.
#[test]
fn many_share_a_packet() {
    let mut pair = Pair::new(false);
    for (length, each) in [(100, MAX_DELIVERED), (700, 3), (1400, 2)] {
        let mut acks = Vec::new();
        for _ in 0..12 {
            pair.send(0, length, false);
            for (_, packet) in pair.carry(false) {
                match packet {
                    Packet::First(_) => {}
                    Packet::Delivered(it) => acks.push(it.len()),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(acks, std::vec![each; 12 / each], "{length}");
        pair.later(Nanos(2_000_000), false);
    }
}

/// What is longer than a packet takes no ACK along, but has it leave.
#[test]
fn a_longer_answer_lets_the_end_go_first() {
    let mut pair = Pair::new(false);
    pair.send(0, 100, false);
    pair.carry(false);
    pair.send(1, 5000, false);
    let sent = pair.ends[1].1.take();
    assert!(
        matches!(sent[..2], [Packet::Delivered(_), Packet::Sync(_)]),
        "{sent:?}"
    );
}

/// Who waits for the end has it at once, and so has what comes once more.
#[test]
fn who_waits_for_the_end_has_it_at_once() {
    let mut pair = Pair::new(false);
    pair.ends[0].1.awaited = true;
    pair.send(0, 100, false);
    let packets = pair.carry(false);
    assert!(
        matches!(packets[0].1, Packet::First(first) if first.prompt),
        "{packets:?}"
    );
    assert!(
        matches!(packets[1], (1, Packet::Ack(ack)) if ack.last),
        "{packets:?}"
    );
    pair.later(Nanos(2_000_000), false);
    pair.ends[0].1.awaited = false;
    // It is lost.
    pair.send(0, 100, false);
    pair.ends[0].1.take();
    let packets = pair.later(Nanos(40 * Pair::WAIT.0), false);
    assert!(
        matches!(packets[..2], [(0, Packet::First(it)), (1, Packet::Ack(_))] if it.prompt),
        "{packets:?}"
    );
}

/// An answer that is lost takes the ACK with it: the request is sent again, delivered once, and
/// acknowledged.
#[test]
fn what_is_lost_with_an_answer_is_told_again() {
    let mut pair = Pair::new(false);
    let delivered = pair.ends[1].1.delivered.len();
    pair.send(0, 100, false);
    pair.carry(false);
    pair.send(1, 100, false);
    let lost = pair.ends[1].1.take();
    assert!(matches!(lost[..], [Packet::First(it)] if it.delivered.len() == 1));
    pair.later(Nanos(100 * Pair::WAIT.0), false);
    assert_eq!(pair.ends[1].1.delivered.len(), delivered + 1);
    assert_eq!(pair.ends[0].0.counts().0 + pair.ends[1].0.counts().0, 0);
    assert!(pair.ends[0].1.out_failed.is_empty());
}

/// Who has neither cookie nor address ends nothing.
#[test]
fn what_is_not_the_receivers_ends_nothing() {
    let mut pair = Pair::new(false);
    pair.send(0, 100, false);
    let Packet::First(first) = pair.ends[0].1.take()[0] else {
        unreachable!()
    };
    let mut list = Delivered::NONE;
    for cookie in [first.sync.cookie, Cookie(77)] {
        list.push(cookie);
    }
    let of = |pair: &Pair, counter| pair.count(0, counter);
    let before = of(&pair, Counter::OutDelivered);
    let (endpoint, io) = &mut pair.ends[0];
    endpoint.receive(pair.now, &host(9, false), Packet::Delivered(list), io);
    assert_eq!(of(&pair, Counter::OutDelivered), before);
    assert_eq!(of(&pair, Counter::SignalAddress), 1);
    assert_eq!(of(&pair, Counter::SignalUnknown), 1);
    let (endpoint, io) = &mut pair.ends[0];
    endpoint.receive(pair.now, &other(0, false), Packet::Delivered(list), io);
    assert_eq!(of(&pair, Counter::OutDelivered), before + 1);
}

/// Whose `rto` is much shorter than the receiver's does not ask meanwhile: each message would be
/// sent twice, and its sender be told to send nothing unasked.
#[test]
fn a_sender_with_a_shorter_rto_is_told_in_time() {
    for (own, other) in [
        (200_000, 1_000_000_000),
        (200_000, 2_000_000),
        (2_000_000, 50_000_000),
    ] {
        let rto = [own, other].map(Nanos);
        let mut pair = Pair::with(false, |end, config| config.rto = rto[end]);
        pair.later(Nanos(200_000_000), false);
        for round in 0..5 {
            pair.send(0, 100, false);
            let mut packets = pair.carry(false);
            packets.extend(pair.later(Nanos(900_000), false));
            assert!(
                matches!(
                    packets[..],
                    [(0, Packet::First(_)), (1, Packet::Delivered(_))]
                ),
                "{rto:?}, {round}: {packets:?}"
            );
            pair.later(Nanos(10_000_000), false);
        }
        assert_eq!(pair.count(0, Counter::SignalUnknown), 0, "{rto:?}");
    }
}

/// One that is long by itself does not wait either.
#[test]
fn a_message_of_a_long_packet_is_acknowledged_at_once() {
    let mut pair = Pair::new(false);
    for (length, waits) in [(1400, true), (1500, false), (8000, false)] {
        pair.send(0, length, false);
        let packets = pair.carry(false);
        assert!(matches!(packets[0], (0, Packet::First(_))), "{packets:?}");
        let told = packets.len() > 1;
        assert_eq!(told, !waits, "{length}: {packets:?}");
        pair.later(Nanos(2_000_000), false);
    }
}

/// Of what its sender may have under way without tokens no more than a half waits: where many send
/// to one host that is little, and the next message would wait for it.
#[test]
fn what_is_allowed_is_not_held_back() {
    for v6 in [false, true] {
        for buffer in [1 << 20, 3200, 2000, 1000] {
            let mut pair = Pair::with(v6, |_, config| {
                config.rto = Nanos(16 * Pair::WAIT.0);
                config.unscheduled_buffer = buffer;
            });
            let mut whole = 0;
            for _ in 0..40 {
                pair.send(0, 60, v6);
                let packets = pair.carry(v6);
                whole += u32::from(matches!(packets[0], (0, Packet::First(_))));
                pair.later(Nanos(1000), v6);
            }
            assert_eq!(whole, 40, "{v6}, {buffer}");
        }
    }
}

/// Of several that are complete, one's owner may refuse the packet: it is asked of again, and the
/// payload is what it is.
#[test]
fn one_of_several_is_not_heard() {
    let mut pair = Pair::new(false);
    for _ in 0..2 {
        pair.send(0, 100, false);
    }
    let sent = pair.ends[0].1.take();
    let all: Vec<Cookie> = sent.iter().map(Packet::cookie).collect();
    for packet in sent {
        let (endpoint, io) = &mut pair.ends[1];
        endpoint.receive(pair.now, &other(1, false), packet, io);
    }
    pair.ends[0].1.unheard.push(all[0]);
    pair.send(1, 100, false);
    let packets = pair.carry(false);
    let [(1, packet @ Packet::First(_))] = &packets[..] else {
        panic!("{packets:?}");
    };
    let list = packet.delivered().unwrap();
    assert_eq!(list.cookies(), all);
    let left = |pair: &Pair, cookie| {
        pair.ends[0]
            .0
            .outgoing_to(&other(0, false), cookie)
            .is_some()
    };
    assert_eq!([left(&pair, all[0]), left(&pair, all[1])], [true, false]);
    pair.ends[0].1.unheard.clear();
    pair.later(Nanos(40 * Pair::WAIT.0), false);
    assert!(!left(&pair, all[0]));
}

/// What waits is told before its owner is gone, all of it and once; others' waits on.
#[test]
fn an_owner_that_leaves_tells_before() {
    let mut pair = Pair::new(false);
    for end in [0, 1] {
        // It waits to confirm the one, and to acknowledge the other.
        pair.send(end, 100, false);
        pair.carry(false);
    }
    let (endpoint, io) = &mut pair.ends[0];
    endpoint.leave(7, io);
    assert!(io.take().is_empty());
    endpoint.leave(0, io);
    let sent = io.take();
    assert!(
        matches!(sent[..], [Packet::Delivered(it), Packet::Confirm(_)] if it.len() == 1),
        "{sent:?}"
    );
    endpoint.leave(0, io);
    assert!(io.take().is_empty());
    for packet in sent {
        let (endpoint, io) = &mut pair.ends[1];
        endpoint.receive(pair.now, &other(1, false), packet, io);
    }
    assert!(!pair
        .later(Nanos(2_000_000), false)
        .iter()
        .any(|(from, _)| *from == 0));
}
