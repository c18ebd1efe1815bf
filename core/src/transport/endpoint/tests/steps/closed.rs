// SPDX-License-Identifier: GPL-2.0
//! Messages whose sockets are closed.

use super::*;

/// As many messages without a socket as there may be, which go on, end, and are too many at last.
#[test]
fn closed_sockets_take_no_more_steps_than_a_logarithm() {
    let mut measured = Measured::default();
    // Of one user, of some, and of as many as there are messages.
    for (n, users) in SIZES
        .into_iter()
        .flat_map(|n| [(n, 1), (n, n / 10), (n, 2 * n)])
    {
        let config = Resolved {
            max_orphans: n,
            orphan_buffer: 1 << 30,
            ..large()
        };
        let (mut endpoint, mut io) = new(&config);
        let mut watch = Watch::new(n, "a socket that is closed");
        let mut messages = Vec::new();
        for i in 0..n + n / 2 {
            let what = Outgoing {
                source: 1,
                destination: 2,
                length: Some(3000),
                deadline: None,
                coflow: 0,
                priority: None,
                mss: 1450,
                available: 3000,
                user: i % users,
            };
            let to = host(i, false);
            let now = NOW + Nanos(u64::from(i));
            let id = endpoint.send(now, &to, &what, (), &mut io).unwrap();
            messages.push((to, io.take()[0].cookie()));
            watch.call(|| endpoint.orphan(now, id, &mut io));
            io.sent.clear();
        }
        assert_eq!(endpoint.orphans().0, n);
        measured.end(watch, 250);
        let mut watch = Watch::new(n, "progress of a closed socket's message");
        for (to, cookie) in messages.iter().rev().take(LOOKS as usize) {
            let token = Token {
                cookie: *cookie,
                sequence: 3,
                timestamp: 0,
                priority: 0,
                grant: None,
                worth: 1,
            };
            let ack = Ack {
                cookie: *cookie,
                received: 1450,
                window: 3000,
                allowance: 0,
                last: false,
                mark: crate::transport::rate::Mark::None,
                notify: false,
            };
            for packet in [Packet::Token(token), Packet::Ack(ack)] {
                watch.call(|| endpoint.receive(NOW, to, packet, &mut io));
            }
        }
        measured.end(watch, 20);
        let lower = Resolved {
            max_orphans: 1,
            ..config
        };
        endpoint.configure(NOW, &lower, &mut io);
        let mut watch = Watch::new(n, "a timer that gives up closed sockets' messages");
        while endpoint.orphans().0 > 1 {
            watch.call(|| endpoint.timer(NOW, 0, &mut io));
            io.sent.clear();
        }
        measured.end(watch, 6700);
    }
}
