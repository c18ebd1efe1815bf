// SPDX-License-Identifier: GPL-2.0
//! The shares of tokens and data on a link, in both orders, over long times and at all speeds.

mod common;

use common::{Drops, Fifo, PerByte, Rng, P, PAPERS};
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Order, Tokens};
use turnstile_core::port::{Dequeue, Port};
use turnstile_core::queue::NoChild;
use turnstile_core::units::Nanos;

const LINKS: [u64; 5] = [
    1_250_000,
    125_000_000,
    1_250_000_000,
    12_500_000_000,
    100_000_000_000,
];
const ORDERS: [Order; 2] = [Order::TokensFirst, Order::DataFirst];
const SHARE: u32 = 51_787_916;

/// Keeps queues filled, and counts departures.
struct Source {
    port: Port<Fifo>,
    drops: Drops,
    tokens: bool,
    data: bool,
    /// Length of the next data packet.
    data_len: fn(&mut Rng) -> u32,
    rng: Rng,
    now: u64,
    token_bytes: u64,
    data_bytes: u64,
    sent: u64,
}

impl Source {
    fn new(link: u64, shaped: bool, order: Order) -> Self {
        Self::of_share(link, shaped, order, SHARE)
    }

    fn of_share(link: u64, shaped: bool, order: Order, share: u32) -> Self {
        let config = Config {
            link: shaped.then_some(link),
            tokens: Tokens::Share(share),
            order,
            ..PAPERS
        };
        let resolved = config.validate(Some(link)).unwrap();
        Self {
            port: Port::new(&config, &resolved, Nanos::ZERO),
            drops: Drops::default(),
            tokens: true,
            data: true,
            data_len: |_| 1514,
            rng: Rng(link),
            now: 0,
            token_bytes: 0,
            data_bytes: 0,
            sent: 0,
        }
    }

    fn fill(&mut self) {
        for band in [Band::Token(2), Band::Data] {
            let wanted = if band == Band::Data {
                self.data
            } else {
                self.tokens
            };
            while wanted && self.port.queued(band).packets < 2 {
                let len = if band == Band::Data {
                    (self.data_len)(&mut self.rng)
                } else {
                    60
                };
                let packet = P::new(0, len, 1, 24, 84);
                self.port
                    .enqueue(Nanos(self.now), band, packet, &mut self.drops);
            }
        }
    }

    /// Runs a shaped port until `end`, asking it up to `late` ns after the time that it said.
    fn run(&mut self, end: u64, late: u64) {
        while self.now < end {
            self.fill();
            match self.step() {
                Dequeue::Packet(..) => {}
                Dequeue::Wait(time) => self.now = end.min(time.0 + self.rng.below(late + 1)),
                Dequeue::Empty => panic!("nothing to send"),
            }
        }
    }

    fn step(&mut self) -> Dequeue<P> {
        let got = self
            .port
            .dequeue(Nanos(self.now), &mut NoChild, &mut self.drops);
        if let Dequeue::Packet(packet, band) = &got {
            self.sent += 1;
            match band {
                Band::Data => self.data_bytes += u64::from(packet.meta.wire_len),
                _ => self.token_bytes += u64::from(packet.meta.wire_len),
            }
        }
        got
    }

    /// Runs an unshaped port on a device that takes the next packet when the one before is sent.
    fn run_device(&mut self, link: PerByte, end: u64) {
        while self.now < end {
            self.fill();
            self.now = match self.step() {
                Dequeue::Packet(packet, _) => self.now + link.duration(packet.meta.wire_len.into()),
                Dequeue::Wait(time) => time.0,
                Dequeue::Empty => panic!("nothing to send"),
            };
        }
    }
}

fn mixed(rng: &mut Rng) -> u32 {
    if rng.below(2) == 0 {
        1514
    } else {
        60 + rng.below(1455) as u32
    }
}

fn tiny(_: &mut Rng) -> u32 {
    60
}

/// The bytes that a rate carries in `ns`.
fn carries(per: PerByte, ns: u64) -> u64 {
    (u128::from(ns) * per.bytes / per.ns) as u64
}

#[test]
fn with_both_saturated_tokens_get_their_share_and_data_the_rest() {
    for link in LINKS {
        for order in ORDERS {
            for data_len in [|_: &mut Rng| 1514, mixed, tiny] {
                let mut s = Source {
                    data_len,
                    ..Source::new(link, true, order)
                };
                let per = PerByte::of_rate(link);
                s.run(per.duration(1538 * 20_000), 0);
                let tokens = carries(PerByte::of_share(link, SHARE), s.now);
                // A token may wait for one data packet, and catches up with the schedule.
                let off = s.token_bytes.abs_diff(tokens);
                assert!(off <= 2 * 84, "{link} {order:?}: {off} bytes off");
                let all = carries(per, s.now);
                let off = (s.token_bytes + s.data_bytes).abs_diff(all);
                assert!(
                    off <= 2 * 1538,
                    "{link} {order:?}: {off} bytes of the link off"
                );
            }
        }
    }
}

#[test]
fn larger_shares_are_kept_too() {
    // At 50 %, nine tokens fall due while a frame is sent.
    for share in [100_000_000, 200_000_000, 350_000_000, 500_000_000] {
        for order in ORDERS {
            let link = 1_250_000_000;
            let mut s = Source::of_share(link, true, order, share);
            s.run(PerByte::of_rate(link).duration(1538 * 20_000), 0);
            let tokens = carries(PerByte::of_share(link, share), s.now);
            // Tokens that fell due during the last two frames are still queued.
            let off = s.token_bytes.abs_diff(tokens);
            assert!(off <= 20 * 84, "{share} {order:?}: {off} bytes off");
        }
    }
}

#[test]
fn late_timers_cost_neither_of_them_anything() {
    for order in ORDERS {
        let link = 125_000_000;
        let mut s = Source {
            data_len: mixed,
            ..Source::new(link, true, order)
        };
        // Two and a half frames late, on average.
        s.run(1_000_000_000, 60_000);
        let tokens = carries(PerByte::of_share(link, SHARE), s.now);
        let off = s.token_bytes.abs_diff(tokens);
        assert!(off <= 9 * 84, "{order:?}: {off} bytes off");
        let all = carries(PerByte::of_rate(link), s.now);
        let off = (s.token_bytes + s.data_bytes).abs_diff(all);
        assert!(
            off <= 125_000,
            "{order:?}: {off} bytes of the link off, more than a millisecond"
        );
    }
}

#[test]
fn an_unshaped_port_shares_its_device_alike() {
    for link in LINKS {
        for order in ORDERS {
            let mut s = Source {
                data_len: mixed,
                ..Source::new(link, false, order)
            };
            let per = PerByte::of_rate(link);
            s.run_device(per, per.duration(1538 * 20_000));
            let tokens = carries(PerByte::of_share(link, SHARE), s.now);
            let off = s.token_bytes.abs_diff(tokens);
            assert!(off <= 2 * 84, "{link} {order:?}: {off} bytes off");
        }
    }
}

#[test]
fn on_a_device_that_is_slower_than_it_says_tokens_do_not_starve() {
    let link = 1_250_000_000;
    for order in ORDERS {
        // A tenth slower, which is more than the tokens' share.
        let mut s = Source {
            data_len: mixed,
            ..Source::new(link, false, order)
        };
        s.run_device(PerByte::of_rate(link / 10 * 9), 100_000_000);
        let tokens = carries(PerByte::of_share(link, SHARE), s.now);
        let off = s.token_bytes.abs_diff(tokens);
        assert!(off <= 2 * 84, "{order:?}: {off} bytes off");
        // So slow that a token is due after each frame: they alternate.
        let mut s = Source::new(link, false, order);
        s.run_device(PerByte::of_rate(link / 5), 100_000_000);
        let (tokens, frames) = (s.token_bytes / 84, s.data_bytes / 1538);
        assert!(
            tokens + 1 >= frames,
            "{order:?}: {tokens} tokens, {frames} frames"
        );
    }
}

#[test]
fn an_idle_group_takes_nothing_and_data_takes_all() {
    for order in ORDERS {
        let link = 1_250_000_000;
        let mut s = Source {
            tokens: false,
            ..Source::new(link, true, order)
        };
        s.run(100_000_000, 0);
        let off = s
            .data_bytes
            .abs_diff(carries(PerByte::of_rate(link), s.now));
        assert!(off <= 1538, "{order:?}: {off} bytes off");
        assert_eq!(s.token_bytes, 0);
        // Tokens that come then find neither debt nor credit.
        s.tokens = true;
        let (start, before) = (s.now, s.data_bytes);
        s.run(start + 100_000_000, 0);
        let tokens = carries(PerByte::of_share(link, SHARE), s.now - start);
        assert!(s.token_bytes.abs_diff(tokens) <= 2 * 84, "{order:?}");
        let rest = carries(
            PerByte::of_share(link, 1_000_000_000 - SHARE),
            s.now - start,
        );
        assert!(
            (s.data_bytes - before).abs_diff(rest) <= 2 * 1538,
            "{order:?}"
        );
    }
}

#[test]
fn tokens_alone_take_no_more_than_their_share() {
    for link in LINKS {
        for order in ORDERS {
            let mut s = Source {
                data: false,
                ..Source::new(link, true, order)
            };
            let share = PerByte::of_share(link, SHARE);
            s.run(share.duration(84 * 20_000), 0);
            let off = s.token_bytes.abs_diff(carries(share, s.now));
            assert!(off <= 84, "{link} {order:?}: {off} bytes off");
        }
    }
}

#[test]
fn data_first_waits_for_no_more_than_a_token_in_service() {
    // Frames at 50 % to 94 % of a link, and always tokens.
    let link = 1_250_000_000;
    let per = PerByte::of_rate(link);
    for percent in [50, 75, 90, 94] {
        let mut s = Source {
            data: false,
            ..Source::new(link, true, Order::DataFirst)
        };
        let gap = per.duration(1538) * 100 / percent;
        for n in 1..10_000 {
            let arrival = n * gap;
            s.run(arrival, 0);
            // The run ends with the first event that is not before the arrival: what is in service
            // then was begun before it.
            let packet = P::new(1, 1514, 1, 24, 84);
            s.port
                .enqueue(Nanos(arrival), Band::Data, packet, &mut s.drops);
        }
        let stats = s.port.stats(Band::Data);
        assert!(stats.sojourn_count > 9000);
        assert!(
            stats.sojourn_max <= 68,
            "{percent} %: {} ns",
            stats.sojourn_max
        );
        let tokens = carries(PerByte::of_share(link, SHARE), s.now);
        assert!(
            s.token_bytes.abs_diff(tokens) <= 3 * 84,
            "{percent} %: {}",
            s.token_bytes
        );
    }
}
