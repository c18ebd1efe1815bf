// SPDX-License-Identifier: GPL-2.0
//! What is kept for sealed messages: their memory, and their keys, which do not stay.

use super::trust::send;
use super::*;
use crate::transport::seal::{Kind, Label, Psk};
use crate::transport::testing::{chunks, chunks_left};

/// The key; its id is whatever both ends say.
pub(super) const PSK: Psk = Psk {
    id: 7,
    key: [9; 32],
};

/// An endpoint that seals all.
pub(super) fn sealed(config: &Resolved) -> (Messages, Io) {
    let (mut endpoint, mut io) = new(config);
    io.sealed = true;
    endpoint.set_sealing(Sealing::All);
    (endpoint, io)
}

/// What comes from a sender, sealed with the key that follows from its own numbers alone.
pub(super) fn come(
    endpoint: &mut Messages,
    now: Nanos,
    from: &Address,
    packet: Packet,
    number: u32,
    io: &mut Io,
) {
    let label = Label {
        word: PSK.id,
        kind: Kind::First,
        number,
        random: 1,
    };
    if let Some(opening) = endpoint.opening(from, &packet, &label, io) {
        endpoint.opened(now, now.0 as u32, from, 0, 0, &packet, (), &opening, io);
    }
}

/// All bytes of keys that an endpoint holds.
fn secrets(endpoint: &Messages) -> usize {
    let tables = [&endpoint.out_sealed, &endpoint.in_sealed];
    let all = tables
        .iter()
        .flat_map(|table| (0..table.len()).filter_map(|index| table.get(index)))
        .flat_map(|it| [it.root, it.first, it.ours, it.theirs]);
    all.chain(endpoint.current.keys())
        .flatten()
        .filter(|&byte| byte != 0)
        .count()
}

/// Messages end by each of the ways there are; and strays are answered. No key stays.
#[test]
fn keys_are_overwritten() {
    let (mut endpoint, mut io) = sealed(&config());
    let peer = host(1, false);
    assert_eq!(secrets(&endpoint), 0);
    // Outgoing: aborted; timed out; refused.
    let id = send(&mut endpoint, &peer, &mut io).unwrap();
    send(&mut endpoint, &peer, &mut io).unwrap();
    assert!(secrets(&endpoint) > 100);
    endpoint.abort(NOW, id, &mut io);
    // Incoming: refused; aborted by its sender; timed out. A FIN of no message is answered.
    let refused = Sync {
        destination: 9,
        ..sync(1, 5000)
    };
    come(&mut endpoint, NOW, &peer, Packet::Sync(refused), 0, &mut io);
    for cookie in 2..5 {
        let packet = Packet::Sync(sync(cookie, 5000));
        come(&mut endpoint, NOW, &peer, packet, 0, &mut io);
    }
    let (cookie, code) = (Cookie(2), ResetCode::Aborted);
    let reset = Packet::Reset(Reset { cookie, code });
    come(&mut endpoint, NOW, &peer, reset, 1, &mut io);
    let (cookie, length) = (Cookie(6), 10);
    let fin = Packet::Fin(wire::Fin { cookie, length });
    come(&mut endpoint, NOW, &peer, fin, 0, &mut io);
    assert_eq!(endpoint.counts().1, 2);
    assert!(secrets(&endpoint) > 100);
    let mut now = NOW;
    while let Some(at) = endpoint.next_timer() {
        now = now.max(at);
        endpoint.timer(now, 0, &mut io);
    }
    assert_eq!(endpoint.counts().1, 0);
    assert_eq!(secrets(&endpoint), 0);
    assert!(io.sent.is_empty(), "nothing was sent that is not sealed");
    let codes: Vec<_> = io
        .sent_sealed
        .iter()
        .filter_map(|(packet, _)| match packet {
            Packet::Reset(reset) => Some(reset.code),
            _ => None,
        })
        .collect();
    assert!(codes.contains(&ResetCode::NoSocket) && codes.contains(&ResetCode::Unknown));
    while endpoint.clear(now, &mut io) {}
    assert_eq!(secrets(&endpoint), 0);
}

/// Thousands of sealed messages, and then none: the memory is given back.
#[test]
fn memory_of_sealed_messages_is_given_back() {
    let config = Resolved {
        max_incoming: 65_536,
        max_per_peer: 65_536,
        max_half_open: 65_536,
        max_remembered: 1 << 19,
        max_outgoing: 65_536,
        ..config()
    };
    let (mut endpoint, mut io) = sealed(&config);
    let mut first = 0;
    for count in [50, 20_000] {
        let mut ids = Vec::new();
        for i in 0..count {
            let peer = host(i * 64, false);
            ids.push(send(&mut endpoint, &peer, &mut io).unwrap());
            let packet = Packet::Sync(sync(i.into(), 5000));
            come(&mut endpoint, NOW, &peer, packet, 0, &mut io);
            io.sent_sealed.clear();
        }
        assert_eq!(endpoint.counts().1, count);
        let most = chunks();
        for id in ids {
            endpoint.abort(NOW, id, &mut io);
        }
        let end = NOW + Nanos(90 * Nanos::SECOND.0);
        let mut now = NOW;
        while let Some(at) = endpoint.next_timer().filter(|at| *at < end) {
            now = now.max(at);
            endpoint.timer(now, 0, &mut io);
            io.sent_sealed.clear();
        }
        assert_eq!(endpoint.counts(), (0, 0, 0));
        if first == 0 {
            first = chunks();
        } else {
            assert!(most > 5000, "{most}");
            let left = chunks();
            assert!(
                left <= first + most / 8,
                "{left} of {most}, {first} at first"
            );
        }
    }
    assert_eq!(secrets(&endpoint), 0);
}

/// No memory, at each of the places where some is needed: a message is refused or waits, and
/// nothing goes out that is not sealed.
#[test]
fn without_memory_nothing_goes_out_in_clear() {
    for left in 0..64 {
        let (mut endpoint, mut io) = sealed(&config());
        let peer = host(1, true);
        chunks_left(left);
        let sent = send(&mut endpoint, &peer, &mut io);
        let packet = Packet::Sync(sync(1, 5000));
        come(&mut endpoint, NOW, &peer, packet, 0, &mut io);
        chunks_left(usize::MAX);
        assert!(io.sent.is_empty(), "not sealed");
        let (outs, ins, _) = endpoint.counts();
        assert_eq!(outs, u32::from(sent.is_ok()));
        let refused = endpoint.stats().get(Counter::SyncNoMemory);
        assert_eq!(u64::from(ins) + refused, 1, "{left}");
        // The next try has memory.
        come(&mut endpoint, NOW, &peer, packet, 1, &mut io);
        let id = send(&mut endpoint, &peer, &mut io).unwrap();
        assert_eq!((endpoint.counts().1, io.sent.len()), (1, 0));
        endpoint.abort(NOW, id, &mut io);
    }
}

/// Where tables grow ahead only: no packet makes that of sealed messages grow, and there is room as
/// soon as it is asked for.
#[test]
fn packets_make_no_table_of_sealed_messages_grow() {
    let (mut endpoint, mut io) = new(&config());
    endpoint.grow_ahead();
    endpoint.prepare();
    io.sealed = true;
    endpoint.set_sealing(Sealing::All);
    let peer = host(1, false);
    let packet = Packet::Sync(sync(1, 5000));
    come(&mut endpoint, NOW, &peer, packet, 0, &mut io);
    assert_eq!(endpoint.counts().1, 0, "before there is room");
    assert_eq!(endpoint.stats().get(Counter::SyncNoMemory), 1);
    endpoint.prepare();
    let before = chunks();
    for cookie in 1..=100 {
        let packet = Packet::Sync(sync(cookie, 5000));
        come(&mut endpoint, NOW, &peer, packet, 1, &mut io);
    }
    assert_eq!(endpoint.counts().1, 100);
    assert_eq!(chunks(), before);
}

/// A receiver's number that its sender does not know is believed only if it was chosen for a packet
/// that was sent, and for a later one than the known number.
#[test]
fn a_receivers_new_number_is_for_a_later_packet_that_was_sent() {
    let (mut endpoint, mut io) = sealed(&config());
    let peer = host(1, false);
    send(&mut endpoint, &peer, &mut io).unwrap();
    let cookie = io.sent_sealed[0].0.cookie();
    let take = |endpoint: &mut Messages, io: &mut Io, word: u32, random: u64, sequence: u16| {
        let token = Packet::Token(wire::Token {
            cookie,
            sequence,
            timestamp: 0,
            priority: 0,
            grant: None,
            worth: 1,
        });
        let label = Label {
            word,
            kind: Kind::Receiver,
            number: sequence.into(),
            random,
        };
        let opening = endpoint.opening(&peer, &token, &label, io);
        if let Some(opening) = &opening {
            endpoint.opened(NOW, 0, &peer, 0, 0, &token, (), opening, io);
        }
        opening.is_some()
    };
    let last = |io: &Io| io.sent_sealed.last().map_or(0, |it| it.1.label.number);
    let next = last(&io) + 1;
    assert!(
        !take(&mut endpoint, &mut io, next, 5, 0),
        "was not sent yet"
    );
    assert!(take(&mut endpoint, &mut io, next - 1, 5, 0));
    assert!(
        take(&mut endpoint, &mut io, next - 1, 5, 1),
        "the known one"
    );
    let newest = last(&io);
    assert!(newest >= next, "the tokens were answered");
    assert!(
        !take(&mut endpoint, &mut io, next - 1, 6, 2),
        "no later packet"
    );
    assert!(
        !take(&mut endpoint, &mut io, newest + 1, 6, 3),
        "was not sent yet"
    );
    assert!(take(&mut endpoint, &mut io, newest, 6, 4));
    assert!(
        !take(&mut endpoint, &mut io, next - 1, 5, 5),
        "an earlier receiver's"
    );
}

/// The packet that shows that a sealed message is no old one proves its sender's address, and is
/// handled as any other.
#[test]
fn what_proves_a_sealed_message_is_handled() {
    let (mut endpoint, mut io) = sealed(&config());
    let peer = host(1, false);
    let first = sync(1, 5000);
    come(&mut endpoint, NOW, &peer, Packet::Sync(first), 0, &mut io);
    let drawn = endpoint.in_sealed.get(0).map(|sealed| sealed.random);
    let echo = drawn.unwrap();
    let wrong = Sync {
        echo: echo ^ 1,
        ..first
    };
    come(&mut endpoint, NOW, &peer, Packet::Sync(wrong), 1, &mut io);
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 0);
    assert_eq!(endpoint.stats().get(Counter::SyncRepeated), 1);
    let again = Sync { echo, ..first };
    come(&mut endpoint, NOW, &peer, Packet::Sync(again), 2, &mut io);
    assert_eq!(endpoint.stats().get(Counter::SenderProven), 1);
    assert_eq!(endpoint.stats().get(Counter::SyncRepeated), 2);
}

/// What comes from a sender, sealed with the keys of a message.
fn come_as(
    endpoint: &mut Messages,
    now: Nanos,
    packet: Packet,
    kind: Kind,
    number: u32,
    io: &mut Io,
) {
    let label = Label {
        word: PSK.id,
        kind,
        number,
        random: packet.cookie().0,
    };
    let from = host(1, false);
    if let Some(opening) = endpoint.opening(&from, &packet, &label, io) {
        endpoint.opened(now, now.0 as u32, &from, 0, 0, &packet, (), &opening, io);
    }
}

/// SYNCs that echoed a CHALLENGE begin no message once more, as long as the echo is right: else
/// they took all places of their sender, who cannot be told from them.
#[test]
fn sealed_syncs_that_were_asked_for_a_proof_begin_nothing_again() {
    let config = Resolved {
        unscheduled: Unscheduled::Packets(8),
        ..config()
    };
    let (mut endpoint, mut io) = sealed(&config);
    // Old ones take the places of strangers, so that its own are asked for a proof.
    for cookie in 0..300 {
        let old = Packet::Sync(sync(cookie, 100_000));
        come_as(&mut endpoint, NOW, old, Kind::First, 0, &mut io);
    }
    let (mut recorded, mut now) = (Vec::new(), NOW);
    for n in 0..200_u64 {
        now += Nanos(1_000_000);
        endpoint.timer(now, now.0 as u32, &mut io);
        io.sent_sealed.clear();
        let cookie = (1 << 30) | n;
        let mut own = Sync {
            unscheduled: 1000,
            ..sync(cookie, 1000)
        };
        come_as(
            &mut endpoint,
            NOW,
            Packet::Sync(own),
            Kind::First,
            0,
            &mut io,
        );
        let asked = io.sent_sealed.iter().find_map(|it| match it.0 {
            Packet::Challenge(it) => Some(it.echo),
            _ => None,
        });
        own.echo = asked.expect("it is asked for a proof");
        come_as(
            &mut endpoint,
            NOW,
            Packet::Sync(own),
            Kind::First,
            1,
            &mut io,
        );
        recorded.push(Packet::Sync(own));
        let all = trust::data_unscheduled(cookie, 0, 1000);
        come_as(&mut endpoint, now, all, Kind::Sender, 2, &mut io);
        let confirmed = closing::final_ack(Cookie(cookie), 1000, 0);
        come_as(&mut endpoint, now, confirmed, Kind::First, 3, &mut io);
    }
    assert_eq!(io.delivered.len(), 200);
    for later in [300_000_000, 9_000_000_000, 16_900_000_000] {
        let now = now + Nanos(later);
        while let Some(at) = endpoint.next_timer().filter(|at| *at < now) {
            endpoint.timer(at, at.0 as u32, &mut io);
        }
        let before = endpoint.counts().1;
        for packet in &recorded {
            come_as(&mut endpoint, now, *packet, Kind::First, 1, &mut io);
        }
        assert_eq!(endpoint.counts().1, before, "{later} ns later");
    }
}

/// Numbers of messages are drawn so that a machine which is restored from a snapshot, or cloned,
/// has others: what seals its packets depends on them.
#[test]
fn a_restored_machine_draws_other_numbers() {
    let mut all = std::collections::HashSet::new();
    for seed in 0..20_u64 {
        let (mut endpoint, mut io) = sealed(&config());
        io.random = 5;
        // It has drawn some before, and goes on from there.
        for _ in 0..3 {
            endpoint.draw(&mut io);
        }
        io.random = seed;
        for _ in 0..100 {
            assert!(all.insert(endpoint.draw(&mut io)), "seed {seed}");
        }
    }
    // One after the other none comes twice, whatever random numbers there are.
    let (mut endpoint, mut io) = sealed(&config());
    let mut lower = std::collections::HashSet::new();
    for _ in 0..1000 {
        io.random = 9;
        assert!(lower.insert(endpoint.draw(&mut io)));
    }
}
