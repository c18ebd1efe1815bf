// SPDX-License-Identifier: GPL-2.0
//! Messages whose socket was closed: what stands still is bounded, what goes on is delivered.

use super::*;

const LENGTH: u32 = 100_000;

fn begin(endpoint: &mut Messages, now: Nanos, to: &Address, user: u32, io: &mut Io) -> OutId {
    let what = Outgoing {
        source: 1,
        destination: 2,
        length: Some(LENGTH),
        deadline: None,
        coflow: 0,
        priority: None,
        mss: 1450,
        available: LENGTH,
        user,
    };
    endpoint.send(now, to, &what, (), io).expect("a place")
}

/// What the receiver says of the message that was begun last.
fn ack(io: &mut Io, received: u32, window: u32, last: bool) -> Packet {
    let sync = io.take().into_iter().find_map(|packet| match packet {
        Packet::Sync(sync) => Some(sync.cookie),
        _ => None,
    });
    Packet::Ack(Ack {
        cookie: sync.expect("a SYNC"),
        received,
        window,
        allowance: 0,
        last,
        mark: crate::transport::rate::Mark::None,
        notify: false,
    })
}

/// The receiver draws a packet of the message, and confirms what it has.
fn draw(
    endpoint: &mut Messages,
    now: Nanos,
    to: &Address,
    cookie: Cookie,
    n: u16,
    received: u32,
    io: &mut Io,
) {
    let token = wire::Token {
        cookie,
        sequence: n,
        timestamp: 0,
        priority: 0,
        grant: None,
        worth: 1,
    };
    endpoint.receive(now, to, Packet::Token(token), io);
    let ack = Ack {
        cookie,
        received,
        window: LENGTH,
        allowance: 0,
        last: false,
        mark: crate::transport::rate::Mark::None,
        notify: false,
    };
    endpoint.receive(now, to, Packet::Ack(ack), io);
}

/// Receivers that say window 0 for ever, ten thousand sockets that are closed: no more is kept than
/// the options say, and a message to another receiver, whose socket is closed as well, is taken.
#[test]
fn closed_sockets_of_receivers_that_take_nothing_are_bounded() {
    for (most, bytes) in [(100, 1 << 30), (1000, 2 << 20)] {
        let config = Resolved {
            max_orphans: most,
            orphan_buffer: bytes,
            ..config()
        };
        let (mut endpoint, mut io) = new(&config);
        let mut now = NOW;
        let good = host(1, false);
        let one = begin(&mut endpoint, now, &good, 7, &mut io);
        let Packet::Ack(Ack { cookie, .. }) = ack(&mut io, 0, LENGTH, false) else {
            unreachable!()
        };
        endpoint.orphan(now, one, &mut io);
        for n in 0..10_000_u32 {
            now += Nanos::MILLISECOND;
            let bad = host(2 + n % 50, false);
            let id = begin(&mut endpoint, now, &bad, 0, &mut io);
            let zero = ack(&mut io, 0, 0, false);
            endpoint.receive(now, &bad, zero, &mut io);
            endpoint.orphan(now, id, &mut io);
            // Twice is once.
            endpoint.orphan(now, id, &mut io);
            let (count, held) = endpoint.orphans();
            assert!(count <= most && held <= u64::from(bytes), "{count} {held}");
            if n % 20 == 0 && n < 60 * 20 {
                let n = n / 20;
                draw(
                    &mut endpoint,
                    now,
                    &good,
                    cookie,
                    n as u16,
                    (n + 1) * 1450,
                    &mut io,
                );
            }
        }
        let stats = endpoint.stats();
        assert_eq!(stats.get(Counter::OutOrphaned), 10_001);
        let kept = u64::from(endpoint.orphans().0);
        assert!(kept > 10, "{kept}");
        assert_eq!(stats.get(Counter::OrphanLimit), 10_001 - kept);
        assert_eq!(stats.get(Counter::ResetSentAborted), 10_001 - kept);
        assert_eq!(io.out_failed.len() as u64, 10_001 - kept);
        // The good one was not among them while it went on: 60 packets and more than a second.
        assert!(io.out_failed.len() > 1000);
        // What is left goes by itself, and the account is even.
        for _ in 0..100_000 {
            match endpoint.next_timer() {
                Some(at) if endpoint.counts().0 != 0 => {
                    now = now.max(at);
                    endpoint.timer(now, 0, &mut io);
                }
                _ => break,
            }
        }
        assert_eq!(endpoint.counts().0, 0);
        assert_eq!(endpoint.orphans(), (0, 0));
    }
}

/// A message that goes on stays, while a thousand that stand still are given up.
#[test]
fn what_goes_on_is_not_given_up_for_what_stands_still() {
    let config = Resolved {
        max_orphans: 20,
        ..config()
    };
    let (mut endpoint, mut io) = new(&config);
    let good = host(1, false);
    let one = begin(&mut endpoint, NOW, &good, 7, &mut io);
    let Packet::Ack(Ack { cookie, .. }) = ack(&mut io, 0, LENGTH, false) else {
        unreachable!()
    };
    endpoint.orphan(NOW, one, &mut io);
    let packets = LENGTH.div_ceil(1450) as u16;
    for n in 0..1000_u32 {
        let now = NOW + Nanos(u64::from(n + 1) * 1_000_000);
        let bad = host(2 + n % 50, false);
        let id = begin(&mut endpoint, now, &bad, 0, &mut io);
        io.take();
        endpoint.orphan(now, id, &mut io);
        let n = (n / 15) as u16;
        if n + 1 < packets {
            let received = u32::from(n + 1) * 1450;
            draw(&mut endpoint, now, &good, cookie, n, received, &mut io);
            assert!(endpoint.out_mut(one).is_some(), "{n}: it was given up");
        }
    }
    assert_eq!(endpoint.orphans().0, 20);
}

/// Many messages of one user that hardly move, whose sockets are closed: those of another, which
/// stand still meanwhile, are not given up for them, be there too many or too many bytes.
#[test]
fn what_another_user_has_is_not_given_up_for_one_who_has_more() {
    for (most, bytes) in [(100, 1 << 30), (2048, 100 * (LENGTH + 1024))] {
        let config = Resolved {
            max_orphans: most,
            orphan_buffer: bytes,
            ..config()
        };
        let (mut endpoint, mut io) = new(&config);
        let mut now = NOW;
        let mut dribble = Vec::new();
        for n in 0..150 {
            let to = host(100 + n, false);
            let id = begin(&mut endpoint, now, &to, 1000, &mut io);
            let Packet::Ack(Ack { cookie, .. }) = ack(&mut io, 0, LENGTH, false) else {
                unreachable!()
            };
            endpoint.orphan(now, id, &mut io);
            dribble.push((id, to, cookie));
        }
        assert_eq!(endpoint.orphans().0, 100);
        let mut honest = Vec::new();
        for n in 0..20 {
            for (_, to, cookie) in &dribble {
                now += Nanos(10_000);
                if n == 0 {
                    draw(&mut endpoint, now, to, *cookie, 0, 0, &mut io);
                }
                // A byte at a time.
                let ack = Ack {
                    cookie: *cookie,
                    received: 1 + n,
                    window: LENGTH,
                    allowance: 0,
                    last: false,
                    mark: crate::transport::rate::Mark::None,
                    notify: false,
                };
                endpoint.receive(now, to, Packet::Ack(ack), &mut io);
            }
            let id = begin(&mut endpoint, now, &host(1, false), 7, &mut io);
            endpoint.orphan(now, id, &mut io);
            honest.push(id);
        }
        for (n, id) in honest.iter().enumerate() {
            assert!(endpoint.out_mut(*id).is_some(), "{n} was given up");
        }
        let left = dribble.iter().filter(|it| endpoint.out_mut(it.0).is_some());
        // What was confirmed meanwhile leaves room for some more.
        let left = left.count();
        assert!((80..83).contains(&left), "{left}");
        assert_eq!(endpoint.orphans().0 as usize, left + honest.len());
    }
}

/// A lower limit holds at once, a few messages in each call.
#[test]
fn a_lower_limit_on_closed_sockets_counts_for_what_there_is() {
    let (mut endpoint, mut io) = new(&config());
    for n in 0..500 {
        let id = begin(&mut endpoint, NOW, &host(n, false), 0, &mut io);
        endpoint.orphan(NOW, id, &mut io);
    }
    assert_eq!(endpoint.orphans().0, 500);
    let lower = Resolved {
        max_orphans: 10,
        ..config()
    };
    endpoint.configure(NOW, &lower, &mut io);
    let mut calls = 0;
    while endpoint.next_timer().is_some_and(|at| at <= NOW) {
        let before = endpoint.orphans().0;
        endpoint.timer(NOW, 0, &mut io);
        assert!(before - endpoint.orphans().0 <= 32);
        calls += 1;
    }
    assert_eq!((endpoint.orphans().0, calls), (10, 16));
}
