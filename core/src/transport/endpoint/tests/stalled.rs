// SPDX-License-Identifier: GPL-2.0
//! Peers that answer, and let nothing of a message through.

use super::*;
use crate::transport::outgoing::STALLED_TIMEOUTS;

/// A sender and a receiver, and what gets lost between them.
struct Between {
    sender: (Messages, Io),
    receiver: (Messages, Io),
    now: Nanos,
}

impl Between {
    fn new(v6: bool, config: &Resolved) -> Self {
        let mut sender = new(config);
        let what = Outgoing {
            source: 1,
            destination: 2,
            length: Some(5000),
            deadline: None,
            coflow: 0,
            priority: None,
            mss: 1400,
            available: 5000,
            user: 0,
        };
        let (endpoint, io) = (&mut sender.0, &mut sender.1);
        endpoint.send(NOW, &host(2, v6), &what, (), io).unwrap();
        Self {
            sender,
            receiver: new(config),
            now: NOW,
        }
    }

    /// Time goes on to the next timer, and packets get there unless `lost` says so.
    fn step(&mut self, v6: bool, lost: impl Fn(&Packet) -> bool) {
        for _ in 0..100 {
            let there: Vec<_> = self.sender.1.take();
            let back: Vec<_> = self.receiver.1.take();
            if there.is_empty() && back.is_empty() {
                break;
            }
            for packet in there.into_iter().filter(|packet| !lost(packet)) {
                let (endpoint, io) = (&mut self.receiver.0, &mut self.receiver.1);
                endpoint.receive(self.now, &host(1, v6), packet, io);
            }
            for packet in back.into_iter().filter(|packet| !lost(packet)) {
                let (endpoint, io) = (&mut self.sender.0, &mut self.sender.1);
                endpoint.receive(self.now, &host(2, v6), packet, io);
            }
        }
        let timers = [self.sender.0.next_timer(), self.receiver.0.next_timer()];
        let next = timers.into_iter().flatten().min().unwrap_or(Nanos::MAX);
        self.now = self.now.max(next) + Nanos(1000);
        for (endpoint, io) in [&mut self.sender, &mut self.receiver] {
            endpoint.timer(self.now, self.now.0 as u32, io);
        }
    }

    /// When the message fails.
    fn failed(&mut self, v6: bool, lost: impl Fn(&Packet) -> bool) -> Option<(Nanos, Failure)> {
        while self.now < NOW + Nanos(1000 * Nanos::SECOND.0) {
            self.step(v6, &lost);
            if let Some(why) = self.sender.1.out_failed.pop() {
                return Some((self.now - NOW, why));
            }
        }
        None
    }
}

/// All tokens get lost, and the peer answers whatever it is asked.
#[test]
fn a_peer_whose_tokens_get_lost_ends_in_a_time_out() {
    for v6 in [false, true] {
        let config = config();
        let mut between = Between::new(v6, &config);
        let lost = |packet: &Packet| matches!(packet, Packet::Token(_));
        let (at, why) = between.failed(v6, lost).expect("it ends");
        assert_eq!(why, Failure::TimedOut);
        let most = Nanos(config.timeout.0 * STALLED_TIMEOUTS);
        assert!(
            at >= most && at < most + Nanos(2 * config.timeout.0),
            "{at:?}"
        );
    }
}

/// The same after some of it has come: the receiver does not give up sooner, as the sender says
/// that it is there.
#[test]
fn a_message_that_has_begun_and_gets_no_tokens_ends_in_a_time_out() {
    let config = config();
    let mut between = Between::new(false, &config);
    while between.sender.0.outgoing(NOW, 0).unwrap().2.received == 0 {
        let first = |packet: &Packet| match packet {
            Packet::Data(data) => data.offset != 0,
            _ => false,
        };
        between.step(false, first);
        assert!(between.now < NOW + Nanos::SECOND, "nothing is acknowledged");
    }
    let lost = |packet: &Packet| matches!(packet, Packet::Token(_));
    let (at, why) = between.failed(false, lost).expect("it ends");
    assert_eq!(why, Failure::TimedOut);
    let most = Nanos(config.timeout.0 * STALLED_TIMEOUTS);
    assert!(
        at >= most && at < most + Nanos(2 * config.timeout.0),
        "{at:?}"
    );
}

/// A receiver that only wants proofs of the address, for ever.
#[test]
fn a_peer_that_only_challenges_ends_in_a_time_out() {
    let config = config();
    let Between { sender, .. } = Between::new(false, &config);
    let (mut endpoint, mut io) = sender;
    let cookie = io.take().first().unwrap().cookie();
    let most = 10 * STALLED_TIMEOUTS + 20;
    for second in 0..most {
        let now = NOW + Nanos(second * Nanos::SECOND.0);
        let challenge = wire::Challenge {
            cookie,
            echo: second + 1,
            ticket: false,
        };
        endpoint.receive(now, &host(2, false), Packet::Challenge(challenge), &mut io);
        while endpoint.next_timer().is_some_and(|at| at <= now) {
            endpoint.timer(now, 0, &mut io);
        }
        if let Some(why) = io.out_failed.pop() {
            assert_eq!(why, Failure::TimedOut);
            assert!(second >= 10 * STALLED_TIMEOUTS);
            return;
        }
    }
    panic!("it does not end");
}

/// A receiver that finds each echo wrong, and asks again at once, draws no more than two SYNCs in
/// each `rto`; one that asks for another echo is answered.
#[test]
fn the_same_challenge_draws_no_stream_of_syncs() {
    let config = config();
    let (mut endpoint, mut io) = Between::new(false, &config).sender;
    let Some(Packet::Sync(sync)) = io.take().into_iter().next() else {
        panic!("no SYNC");
    };
    let mut ask = |now, echo| {
        let challenge = Packet::Challenge(wire::Challenge {
            cookie: sync.cookie,
            echo,
            ticket: false,
        });
        endpoint.receive(now, &host(2, false), challenge, &mut io);
        let syncs = io.take().into_iter();
        syncs.filter(|it| matches!(it, Packet::Sync(_))).count()
    };
    let drawn: usize = (0..1000).map(|_| ask(NOW, 5)).sum();
    assert_eq!(drawn, 1);
    assert_eq!(ask(NOW, 6), 1);
    assert_eq!(ask(NOW + config.rto, 6), 1);
}
