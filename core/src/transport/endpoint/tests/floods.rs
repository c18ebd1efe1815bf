// SPDX-License-Identifier: GPL-2.0
//! What floods leave of places, of room made ahead, and of answers.

use super::trust::{gives_a_ticket, ticket_packet, whole};
use super::*;
use crate::transport::config::Schedule;
use crate::transport::endpoint::trust::TICKET_BITS;
use crate::transport::seal::{Kind as SealKind, Label};

fn abort(cookie: u64) -> Packet {
    let (cookie, code) = (Cookie(cookie), ResetCode::Aborted);
    Packet::Reset(Reset { cookie, code })
}

/// Whether a message of a host with a ticket begins; it ends at once.
fn begins(endpoint: &mut Messages, now: Nanos, from: &Address, cookie: u64, io: &mut Io) -> bool {
    let before = endpoint.counts().1;
    endpoint.receive_known(now, from, Packet::Sync(sync(cookie, 1000)), io);
    let begun = endpoint.counts().1 > before;
    endpoint.receive(now, from, abort(cookie), io);
    io.sent.clear();
    begun
}

/// Whether a stranger's SYNC is answered.
fn is_answered(
    endpoint: &mut Messages,
    now: Nanos,
    from: &Address,
    cookie: u64,
    io: &mut Io,
) -> bool {
    io.sent.clear();
    endpoint.receive(now, from, Packet::Sync(sync(cookie, 1000)), io);
    let end = now + Nanos(1_000_000);
    while let Some(at) = endpoint.next_timer().filter(|at| *at < end) {
        endpoint.timer(at, at.0 as u32, io);
    }
    let answered = io.sent.iter().any(|it| it.0 == *from);
    endpoint.receive(now, from, abort(cookie), io);
    answered
}

/// Hosts of some networks keep as many messages open as they may, and as many are forged in the
/// names of an honest network's: its own still begin.
#[test]
fn forged_ones_take_nothing_of_their_networks_places() {
    for (nets, v6) in [(1, false), (3, false), (3, true), (16, false), (64, true)] {
        let (mut endpoint, mut io) = new(&config());
        let of_net = |net: u32, n: u32| {
            let mut address = host(0x10_0000 + net * 256 + n, v6);
            address.ip[5] = if v6 { net as u8 } else { 0 };
            address
        };
        for n in 0..1100 {
            let forged = Packet::Sync(sync((1 << 30) | u64::from(n), 100_000));
            endpoint.receive(NOW, &of_net(200, 2 + n % 250), forged, &mut io);
        }
        for n in 0..1024 * 4 * nets {
            let own = Packet::Sync(sync((1 << 31) | u64::from(n), 100_000));
            endpoint.receive_known(NOW, &of_net(n % nets, n / nets % 4), own, &mut io);
        }
        for n in 0..20 {
            let forged = Packet::Sync(sync((1 << 32) | n, 100_000));
            endpoint.receive(NOW, &of_net(200, 2), forged, &mut io);
            let known = begins(&mut endpoint, NOW, &of_net(200, 1), (1 << 33) | n, &mut io);
            assert!(known, "{nets} networks, IPv6 {v6}");
            let strange = of_net(200, 252);
            let answered = is_answered(&mut endpoint, NOW, &strange, (1 << 34) | n, &mut io);
            assert!(answered, "{nets} networks, IPv6 {v6}");
        }
    }
}

/// Where tables grow ahead, what is forged, and peers that have no message any more, leave room for
/// the messages of hosts with tickets.
#[test]
fn strangers_and_idle_peers_leave_room_that_was_made_ahead() {
    let (mut endpoint, mut io) = new(&config());
    endpoint.grow_ahead();
    endpoint.prepare();
    for n in 0..5000 {
        // It comes once, and gives a ticket.
        let visitor = host(0x10_0000 + n * 256, false);
        let cookie = u64::from(n);
        let first = Packet::Sync(sync(cookie, 100_000));
        endpoint.receive_known(NOW, &visitor, first, &mut io);
        endpoint.receive(NOW, &visitor, ticket_packet(cookie), &mut io);
        endpoint.receive(NOW, &visitor, abort(cookie), &mut io);
        // And is one of those that are forged.
        let forged = Packet::Sync(sync((1 << 30) | cookie, 100_000));
        endpoint.receive(NOW, &host(0x50_0000 + n * 300, false), forged, &mut io);
        io.sent.clear();
    }
    for n in 0..50 {
        for from in [host(1, false), host(0x90_0000 + n, false)] {
            let cookie = (1 << 40) | u64::from(n);
            assert!(begins(&mut endpoint, NOW, &from, cookie, &mut io), "{n}");
        }
    }
    // Messages that go out take nothing of it either.
    let (mut endpoint, mut io) = new(&config());
    endpoint.grow_ahead();
    endpoint.prepare();
    for n in 0..1000 {
        gives_a_ticket(&mut endpoint, &host(n * 256, false), &mut io);
    }
    assert!(begins(&mut endpoint, NOW, &host(5, true), 1, &mut io));
}

/// A thousand addresses of a network came once. When their tickets are too old, those of others of
/// that network are kept, and the memory of theirs is given back.
#[test]
fn old_tickets_make_way() {
    let (mut endpoint, mut io) = new(&config());
    let most = crate::transport::peers::MOST_IDLE_OF_NET;
    for n in 0..most + 1 {
        gives_a_ticket(&mut endpoint, &host(n, true), &mut io);
    }
    assert_eq!(endpoint.peers.all.len(), most);
    let now = NOW + Nanos(3600 * Nanos::SECOND.0);
    for n in 0..most / 2 + 1 {
        let from = host(0x10_0000 + n, true);
        let cookie = u64::from(n);
        let first = Packet::Sync(sync(cookie, 100_000));
        endpoint.receive_known(now, &from, first, &mut io);
        endpoint.receive(now, &from, ticket_packet(cookie), &mut io);
        endpoint.receive(now, &from, abort(cookie), &mut io);
        let found = endpoint.peers.find(&endpoint.key, &from);
        assert!(found.is_some(), "{n}");
    }
    assert!(endpoint.peers.all.len() <= most / 2 + 2);
}

/// What floods one link with SYNCs, so that all places of strangers are taken, leaves CHALLENGEs to
/// those of another link.
#[test]
fn a_flood_by_a_slow_link_leaves_answers_by_others() {
    let (mut endpoint, mut io) = new(&config());
    endpoint.set_link(NOW, 1, 1_250_000);
    endpoint.set_link(NOW, 2, 12_500_000_000);
    let (mut now, mut cookie) = (NOW, 0);
    let mut come = |endpoint: &mut Messages, now: Nanos, device, from: &Address, io: &mut Io| {
        cookie += 1;
        io.sent.clear();
        let packet = Packet::Sync(sync(cookie, 100_000));
        endpoint.packet(now, now.0 as u32, from, device, 0, &packet, (), io);
        let mut sent = io.sent.drain(..);
        sent.any(|it| matches!(it.1, Packet::Challenge(_)))
    };
    for n in 0..9000_u32 {
        now += Nanos(1_000_000);
        let forged = host(0x10_0000 + n * 7, false);
        come(&mut endpoint, now, 1, &forged, &mut io);
        if n > 1100 && n % 10 == 0 {
            let honest = host(0x50_0000 + n, false);
            assert!(come(&mut endpoint, now, 2, &honest, &mut io), "{n}");
        }
    }
}

/// Somebody sends old sealed SYNCs of a host again, whatever they show: they are a stranger's, and
/// that host's own messages begin or are asked for a proof.
#[test]
fn old_sealed_syncs_are_strangers() {
    let (mut endpoint, mut io) = new(&config());
    io.sealed = true;
    endpoint.set_sealing(Sealing::All);
    let from = host(1, false);
    let come = |endpoint: &mut Messages, now: Nanos, cookie: u64, io: &mut Io| {
        let packet = Packet::Sync(Sync {
            echo: endpoint.ticket_of(now.0 >> TICKET_BITS, &from),
            ..sync(cookie, 100_000)
        });
        let label = Label {
            word: sealed::PSK.id,
            kind: SealKind::First,
            number: 0,
            random: cookie,
        };
        io.sent_sealed.clear();
        let before = endpoint.counts().1;
        if let Some(opening) = endpoint.opening(&from, &packet, &label, io) {
            endpoint.opened(now, 0, &from, 0, 0, &packet, (), &opening, io);
        }
        let mut sent = io.sent_sealed.iter();
        let asked = sent.any(|it| matches!(it.0, Packet::Challenge(_)));
        asked || endpoint.counts().1 > before
    };
    for second in 0..20_u64 {
        let now = NOW + Nanos(second * Nanos::SECOND.0);
        for cookie in 0..1100 {
            come(
                &mut endpoint,
                now + Nanos(cookie * 500_000),
                cookie,
                &mut io,
            );
        }
        let own = now + Nanos(600_000_000);
        assert!(come(&mut endpoint, own, (1 << 40) | second, &mut io));
        assert!(endpoint.counts().1 <= endpoint.config().max_per_peer / 4 + 20);
    }
}

/// Networks that never confirm hold what they may. Another one's messages, each of which is
/// confirmed, are all taken, however many there are.
#[test]
fn who_confirms_is_not_held_up_by_who_does_not() {
    let config = Resolved {
        unscheduled: Unscheduled::Packets(8),
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    let mut cookie = 0;
    for n in 0..8 * 8192 * 3 {
        cookie += 1;
        let from = host(0x10_0000 + n % 30 * 256 + n / 30 % 8, false);
        for packet in whole(cookie) {
            let packet = match packet {
                Packet::Sync(first) => Packet::Sync(Sync {
                    patience: wire::MAX_PATIENCE,
                    ..first
                }),
                other => other,
            };
            endpoint.receive_known(NOW, &from, packet, &mut io);
        }
        io.sent.clear();
    }
    io.delivered.clear();
    let mut now = NOW;
    for n in 0..50_000 {
        now += Nanos(20_000);
        endpoint.timer(now, now.0 as u32, &mut io);
        cookie += 1;
        let from = host(0xaa_0000 + n % 200, false);
        for packet in whole(cookie) {
            endpoint.receive_known(now, &from, packet, &mut io);
        }
        assert_eq!(io.delivered.drain(..).count(), 1, "{n}");
        let last = closing::final_ack(Cookie(cookie), 1000, 0);
        endpoint.receive(now, &from, last, &mut io);
        io.sent.clear();
    }
}

/// A stranger's message does not count to a coflow of others.
#[test]
fn a_stranger_is_in_no_coflow() {
    let config = Resolved {
        schedule: Schedule::Coflow,
        ..config()
    };
    let mut seen = [false, true].map(|forged| {
        let (mut endpoint, mut io) = new(&config);
        let begin = |cookie, length, coflow| {
            Packet::Sync(Sync {
                coflow,
                ..sync(cookie, length)
            })
        };
        if forged {
            let long = begin(1, 1 << 29, 3);
            endpoint.receive(NOW, &host(0x66_0000, false), long, &mut io);
        }
        endpoint.receive_known(NOW, &host(1, false), begin(2, 3000, 3), &mut io);
        let other = begin(3, 20_000_000, 4);
        endpoint.receive_known(NOW, &host(2 << 8, false), other, &mut io);
        let (mut now, mut tokens) = (NOW, Vec::new());
        while tokens.len() < 8 {
            now = now.max(endpoint.next_timer().unwrap());
            endpoint.timer(now, now.0 as u32, &mut io);
            for packet in io.take() {
                match packet {
                    Packet::Token(token) if token.cookie.0 != 1 => {
                        tokens.push((token.cookie.0, token.priority));
                    }
                    _ => {}
                }
            }
        }
        tokens.sort_unstable();
        tokens
    });
    // When the pacer sends each is chance; who gets them at which priority is not.
    for tokens in &mut seen {
        tokens.dedup();
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].contains(&(2, 0)));
}

/// With the smallest limits, too, a host that shows its ticket has a place beside forged ones.
#[test]
fn small_limits_leave_a_place() {
    for most in 1..10 {
        let peer = Resolved {
            max_per_peer: most,
            ..config()
        };
        let all = Resolved {
            max_incoming: most,
            ..config()
        };
        for (config, apart) in [(peer, 0), (all, 256)] {
            let (mut endpoint, mut io) = new(&config);
            for n in 0..100 {
                let forged = Packet::Sync(sync(n, 1000));
                endpoint.receive(NOW, &host(apart * n as u32, false), forged, &mut io);
            }
            let known = host(apart << 10, false);
            assert!(
                begins(&mut endpoint, NOW, &known, 1 << 20, &mut io),
                "{most}"
            );
        }
    }
}

/// Strangers get half of the places that others have left, and no more.
#[test]
fn strangers_do_not_take_the_last_places() {
    let config = Resolved {
        max_incoming: 100,
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    for n in 0..90 {
        let first = Packet::Sync(sync(n.into(), 1000));
        endpoint.receive_known(NOW, &host(n << 12, false), first, &mut io);
    }
    assert_eq!(endpoint.counts().1, 90);
    for n in 0..50 {
        let forged = Packet::Sync(sync((1 << 20) | u64::from(n), 1000));
        endpoint.receive(NOW, &host((n << 12) | 1, false), forged, &mut io);
    }
    assert_eq!(endpoint.counts().1, 95);
}

/// What is forged in the name of an address takes nothing of its share of what is remembered, as it
/// can show who it is.
#[test]
fn forged_ones_take_nothing_of_a_share_of_what_is_remembered() {
    let config = Resolved {
        max_remembered: 80,
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    let victim = host(1, false);
    for n in 0..20 {
        endpoint.receive(NOW, &victim, Packet::Sync(sync(n, 1000)), &mut io);
    }
    // An eighth of all, which is its share.
    assert_eq!(endpoint.counts().1, 10);
    for n in 0..10 {
        assert!(
            begins(&mut endpoint, NOW, &victim, (1 << 20) | n, &mut io),
            "{n}"
        );
    }
}

/// However fast packets come that are refused, each kind of an honest host's is, too.
#[test]
fn refusals_keep_up_with_floods() {
    let closed = |cookie, probe| {
        Packet::Sync(Sync {
            destination: 9,
            probe,
            ..sync(cookie, 1000)
        })
    };
    for kind in 0..3 {
        let (mut endpoint, mut io) = new(&config());
        let (honest, evil) = (host(1, false), host(0x90_0000, false));
        for n in 0..100_000_u64 {
            // A hundred thousand in a second.
            let now = NOW + Nanos(n * 10_000);
            let any = host(5000 + (n % 60_000) as u32, false);
            let (cookie, length) = (Cookie(n), 1);
            match kind {
                0 => endpoint.receive(now, &any, closed(n, false), &mut io),
                1 => endpoint.receive_known(now, &evil, closed(n, false), &mut io),
                _ => {
                    let fin = wire::Fin { cookie, length };
                    endpoint.receive(now, &any, Packet::Fin(fin), &mut io);
                }
            }
            if n % 997 != 0 {
                continue;
            }
            io.take();
            let own = closed((1 << 40) | n, kind == 2);
            if kind == 1 {
                endpoint.receive_known(now, &honest, own, &mut io);
            } else {
                endpoint.receive(now, &honest, own, &mut io);
            }
            let sent = io.take();
            assert!(matches!(sent[..], [Packet::Reset(_)]), "{kind} {n}");
        }
    }
}
