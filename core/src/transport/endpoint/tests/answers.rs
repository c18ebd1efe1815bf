// SPDX-License-Identifier: GPL-2.0
//! How much is answered of what belongs to no message.

use super::sealed::{come, sealed};
use super::trust::ip_bytes;
use super::*;
use crate::transport::bucket::BURST;
use crate::transport::endpoint::trust::TICKET_BITS;

/// Bytes of a link that an IP packet takes on Ethernet.
fn frame(ip: u32) -> u64 {
    u64::from((ip + 14).max(60) + 4 + 20)
}

/// Each kind of answer has a limit of its own: a flood of FINs takes nothing of the refusals of
/// SYNCs.
#[test]
fn a_flood_of_one_kind_leaves_the_others_answers() {
    let (mut endpoint, mut io) = new(&config());
    for n in 0..10_000 {
        let fin = wire::Fin {
            cookie: Cookie(n.into()),
            length: 1,
        };
        endpoint.receive(NOW, &host(5000 + n, false), Packet::Fin(fin), &mut io);
    }
    assert!(io.take().len() < 1000);
    let closed = Sync {
        destination: 9,
        ..sync(1 << 40, 1000)
    };
    endpoint.receive(NOW, &host(1, false), Packet::Sync(closed), &mut io);
    assert!(matches!(io.take()[..], [Packet::Reset(_)]));
}

/// There is one place for strangers, and 50 000 in a second want it.
#[test]
fn challenges_take_a_sixteenth_of_the_link() {
    const RATE: u64 = 12_500_000;
    let config = Config {
        link: RATE,
        max_half_open: 1,
        ..Config::DEFAULT
    };
    let (mut endpoint, mut io) = new(&config.validate(Some(RATE)).unwrap());
    let mut bytes = 0;
    for n in 0..500_000_u64 {
        let from = host(5000 + (n % 60_000) as u32, false);
        let now = NOW + Nanos(n * 20_000);
        endpoint.receive(now, &from, Packet::Sync(sync(n, 1000)), &mut io);
        let sent = io.sent.drain(..);
        let challenges = sent.filter(|it| matches!(it.1, Packet::Challenge(_)));
        bytes += challenges.map(|it| frame(it.2)).sum::<u64>();
    }
    // In 10 s; and those that may leave at once.
    assert!(bytes <= 10 * RATE / 16 + 300 * frame(48), "{bytes} B");
}

/// 50 000 FINs in a second that belong to nothing, of IPv4 and IPv6, plain and sealed.
#[test]
fn resets_take_a_sixteenth_of_the_link() {
    const RATE: u64 = 12_500_000;
    const GAP: u64 = 20_000;
    const COUNT: u32 = 20_000;
    let config = Config {
        link: RATE,
        ..Config::DEFAULT
    };
    let config = config.validate(Some(RATE)).unwrap();
    for (v6, seals) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut endpoint, mut io) = if seals { sealed(&config) } else { new(&config) };
        for n in 0..COUNT {
            let now = NOW + Nanos(u64::from(n) * GAP);
            let from = host(5000 + n, v6);
            let fin = Packet::Fin(wire::Fin {
                cookie: Cookie(n.into()),
                length: 1,
            });
            if seals {
                come(&mut endpoint, now, &from, fin, 0, &mut io);
            } else {
                endpoint.receive(now, &from, fin, &mut io);
            }
        }
        let ip = if v6 { 48 } else { 28 };
        let plain = io.sent.iter().map(|it| it.2);
        let under_seal = io.sent_sealed.iter();
        let under_seal = under_seal.map(|it| ip + it.0.bytes() + SEAL_LEN as u32);
        let frames: Vec<_> = plain.chain(under_seal).map(frame).collect();
        let (bytes, each) = (frames.iter().sum::<u64>(), frames[0]);
        let share = RATE * (GAP * u64::from(COUNT)) / 1_000_000_000 / 16;
        // Those that may leave at once, and then a sixteenth.
        let wanted = share + BURST * each;
        assert!(
            bytes.abs_diff(wanted) <= 2 * each,
            "IPv6 {v6}, sealed {seals}: {bytes} B, not {wanted}"
        );
    }
}

/// Each of the five kinds of answers to what belongs to nothing and is not remembered, alone and
/// with the others at once: none takes from another, and no answer is longer than what it answers.
/// With strangers' places taken a stranger is not refused, so these two are not tried at once.
#[test]
fn five_kinds_take_a_sixteenth_each() {
    const RATE: u64 = 12_500_000;
    const GAP: u64 = 20_000;
    const COUNT: u32 = 30_000;
    let config = Config {
        link: RATE,
        max_half_open: 1,
        ..Config::DEFAULT
    };
    let config = config.validate(Some(RATE)).unwrap();
    for v6 in [false, true] {
        for kinds in [1, 2, 4, 8, 16, 0b11011, 0b11110] {
            let (mut endpoint, mut io) = new(&config);
            let mut sums = [0; 5];
            for n in 0..COUNT {
                let now = NOW + Nanos(u64::from(n) * GAP);
                let from = host(5000 + n, v6);
                let cookie = Cookie((1 << 40) + u64::from(n));
                let refused = Sync {
                    destination: 9,
                    ..sync((2 << 40) + u64::from(n), 1000)
                };
                let known = Sync {
                    echo: endpoint.ticket_of(now.0 >> TICKET_BITS, &from),
                    ..refused
                };
                // So that the first one is half open, and nobody else is.
                let strange = sync(n.into(), 1000);
                let all = [
                    Packet::Sync(strange),
                    Packet::Sync(known),
                    Packet::Sync(refused),
                    match n % 2 {
                        0 => Packet::Fin(wire::Fin { cookie, length: 1 }),
                        _ => Packet::Sync(Sync {
                            probe: true,
                            ..refused
                        }),
                    },
                    match n % 2 {
                        0 => Packet::Token(wire::Token {
                            cookie,
                            sequence: 1,
                            timestamp: 1,
                            priority: 0,
                            grant: None,
                            worth: 1,
                        }),
                        _ => Packet::Challenge(wire::Challenge {
                            cookie,
                            echo: 1,
                            ticket: false,
                        }),
                    },
                ];
                for (kind, packet) in all.into_iter().enumerate() {
                    if kinds & (1 << kind) == 0 {
                        continue;
                    }
                    endpoint.receive(now, &from, packet, &mut io);
                    for (_, answer, bytes) in io.sent.drain(..) {
                        assert!(
                            u64::from(bytes) <= ip_bytes(&from, &packet),
                            "{bytes} B: {answer:?} to {packet:?}"
                        );
                        sums[kind] += frame(bytes);
                    }
                }
                if n == 0 {
                    // It begins, and draws what a message draws: that is not looked at here.
                    sums[0] = 0;
                }
            }
            let share = RATE * (GAP * u64::from(COUNT)) / 1_000_000_000 / 16;
            for (kind, bytes) in sums.into_iter().enumerate() {
                if kinds & (1 << kind) == 0 {
                    continue;
                }
                let most = share + (BURST + 2) * frame(120);
                assert!(
                    (share..most).contains(&bytes),
                    "IPv6 {v6}, kind {kind} of {kinds:#b}: {bytes} B, not {share}"
                );
            }
        }
    }
}
