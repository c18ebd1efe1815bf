// SPDX-License-Identifier: GPL-2.0
//! Attackers that nobody thought of: programs of random actions.

use turnstile_core::header::{FLAG_REN, FLAG_UNASKED, FLAG_UNSCHEDULED};
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::*;

use super::super::host::next;
use super::super::network::Flying;
use super::actions::{data, sync, whole, Attack, Forge};
use super::*;

/// So many runs in a test; the environment's `ADVERSARIES` says otherwise, for a long one by
/// command.
const RUNS: u64 = 10_000;

/// A random attacker: what it does, and how often, in 256ths for each kind of packet.
struct Random {
    rates: [u8; 11],
    /// It uses so many cookies and forged addresses.
    cookies: u64,
    addresses: u64,
    /// Its messages have this length.
    length: u32,
    /// 0: by grants; 1: its sender paces it.
    clocked: u64,
    priority: Option<u8>,
    /// How many tokens of each 256 it answers.
    answers: u8,
    /// Tokens that it was given, for later.
    kept: Vec<(usize, Token)>,
    /// The last CHALLENGE, and of which host.
    challenged: Option<(usize, Challenge)>,
}

impl Random {
    fn new(random: &mut u64) -> Self {
        let mut below = |n: u64| next(random) % n;
        let powers = |exponent: u64| 1_u64 << exponent;
        Self {
            rates: std::array::from_fn(|_| {
                let (on, rate) = (below(2), below(256));
                (on * rate) as u8
            }),
            cookies: powers(below(20)),
            addresses: powers(below(14)),
            length: powers(below(24)) as u32,
            clocked: below(4),
            priority: (below(2) == 0).then(|| below(8) as u8),
            answers: below(256) as u8,
            kept: Vec::new(),
            challenged: None,
        }
    }

    /// Whose packet it claims to be that arrives at `to`.
    fn from(&self, to: usize, forge: &mut Forge<'_>) -> usize {
        match forge.below(8) {
            0 | 1 => OWN,
            2 | 3 => 1 - to,
            _ => GHOSTS + forge.below(self.addresses) as usize,
        }
    }

    fn packet(&self, kind: usize, forge: &mut Forge<'_>) -> Packet {
        let cookie = Cookie(forge.below(self.cookies));
        let offset = forge.below(self.length.into()) as u32;
        let len = (1 + forge.below(1450) as u32).min(MAX_LENGTH - offset);
        match kind {
            0 => {
                let unscheduled = if forge.below(2) == 0 {
                    self.length.min([2000, MAX_LENGTH][forge.below(2) as usize])
                } else {
                    0
                };
                Packet::Sync(Sync {
                    ren: self.clocked == 0,
                    paced: self.clocked == 1,
                    priority: self.priority,
                    unscheduled,
                    probe: forge.below(8) == 0,
                    length: (forge.below(4) != 0 || unscheduled != 0).then_some(self.length),
                    ..sync(cookie.0, self.length)
                })
            }
            1 => Packet::Token(Token {
                cookie,
                sequence: forge.below(1 << 16) as u16,
                timestamp: forge.below(1 << 32) as u32,
                priority: forge.below(8) as u8,
                grant: None,
                worth: 1,
            }),
            2 => {
                let flags = [0, FLAG_UNSCHEDULED, FLAG_REN, FLAG_UNASKED];
                let flags = flags[forge.below(4) as usize];
                Packet::Data(Data {
                    flags,
                    ..data(cookie.0, offset, len)
                })
            }
            3 => {
                let mut spans = Spans::EMPTY;
                spans.push(offset, offset + len);
                Packet::Resend(Resend { cookie, spans })
            }
            4 => Packet::Fin(Fin {
                cookie,
                length: offset + 1,
            }),
            5 => Packet::Ack(Ack {
                cookie,
                received: offset,
                window: forge.below(u64::from(MAX_LENGTH)) as u32,
                allowance: forge.below(1 << 16) as u16,
                last: false,
                mark: turnstile_core::transport::rate::Mark::Congested,
                notify: forge.below(2) == 0,
            }),
            6 => Packet::Ack(Ack {
                cookie,
                received: self.length,
                window: self.length,
                allowance: 0,
                last: true,
                mark: turnstile_core::transport::rate::Mark::None,
                notify: false,
            }),
            7 => Packet::Challenge(Challenge {
                cookie,
                echo: 1 + forge.below(1 << 32),
                ticket: forge.below(2) == 0,
            }),
            8 => Packet::Reset(Reset {
                cookie,
                code: ResetCode::ALL[forge.below(6) as usize],
            }),
            9 => whole(cookie.0, self.length.min(1400)),
            _ if forge.below(2) == 0 => {
                let mut list = Delivered::NONE;
                for _ in 0..=forge.below(4) {
                    list.push(Cookie(forge.below(self.cookies)));
                }
                Packet::Delivered(list)
            }
            _ => {
                let mut cookies = Cookies::new(cookie);
                for _ in 0..forge.below(16) {
                    cookies.push(Cookie(forge.below(self.cookies)));
                }
                Packet::Confirm(cookies)
            }
        }
    }
}

impl Attack for Random {
    fn turn(&mut self, forge: &mut Forge<'_>, seen: &[Flying]) {
        for packet in seen.iter().filter(|packet| packet.to == OWN) {
            match packet.packet {
                Packet::Token(token) => self.kept.push((packet.from, token)),
                Packet::Challenge(it) => self.challenged = Some((packet.from, it)),
                _ => {}
            }
        }
        if let Some((from, challenge)) = self.challenged.take() {
            if forge.below(256) < self.answers.into() {
                let answer = Sync {
                    echo: challenge.echo,
                    ..sync(challenge.cookie.0, self.length)
                };
                forge.send(OWN, from, Packet::Sync(answer));
            }
        }
        for (from, token) in std::mem::take(&mut self.kept) {
            if forge.below(256) < self.answers.into() {
                let offset = forge.below(self.length.into()) as u32;
                let len = (self.length - offset).min(1450);
                let answer = Data {
                    token: token.sequence,
                    timestamp: token.timestamp,
                    flags: 0,
                    ..data(token.cookie.0, offset, len)
                };
                forge.send(OWN, from, Packet::Data(answer));
            }
        }
        for kind in 0..self.rates.len() {
            if forge.below(256) < self.rates[kind].into() {
                let to = forge.below(2) as usize;
                let from = self.from(to, forge);
                let packet = self.packet(kind, forge);
                forge.send(from, to, packet);
            }
        }
    }
}

/// Options of both hosts: with some of them whole messages come without tokens, or grants are sent.
fn options(random: &mut u64) -> Config {
    let policies = [
        uapi::POLICY_TOP,
        uapi::POLICY_TOP,
        uapi::POLICY_EXPRESSPASS,
        uapi::POLICY_REN,
    ];
    Config {
        policy: policies[(next(random) % 4) as usize],
        unscheduled: [0, uapi::UNSCHEDULED_AUTO, 1, 8][(next(random) % 4) as usize],
        ..Config::DEFAULT
    }
}

/// How many times as long the honest messages take beside the attacker of a seed.
fn slowed_by(seed: u64) -> f64 {
    let mut random = seed;
    let mut attacker = Random::new(&mut random);
    let load = Load {
        seed,
        messages: 5,
        longest: 20_000,
        span: 500_000,
        config: options(&mut random),
    };
    let (alone, attacked) = check(&load, &mut attacker, Sight::Own);
    attacked.total as f64 / alone.total as f64
}

#[test]
fn whatever_it_does_honest_messages_arrive() {
    let runs = std::env::var("ADVERSARIES").map_or(RUNS, |n| n.parse().expect("a number"));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let (times, seed) = std::thread::scope(|scope| {
        let each = |first: u64| {
            let seeds = (first..runs).step_by(threads as usize);
            let all = seeds.map(|seed| (slowed_by(seed), seed));
            all.max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let started: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || each(first)))
            .collect();
        let worst = started.into_iter().filter_map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        worst
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("at least one run")
    });
    println!("{runs} runs; the worst, {seed}: {times:.2} times as long");
}
