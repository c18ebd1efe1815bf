// SPDX-License-Identifier: GPL-2.0
//! Well-formed packets with arbitrary contents.

use turnstile_core::header::FLAG_UNASKED;
use turnstile_core::transport::wire::*;

use crate::common::Rng;

/// Bytes: mostly near the beginning, where messages are.
fn bytes(rng: &mut Rng) -> u32 {
    let random = rng.next();
    match random % 8 {
        0 => 0,
        1 => (random >> 32) as u32 % 20_000,
        2..=5 => (random >> 32) as u32 % 9 * 1450,
        6 => (random >> 32) as u32 & MAX_LENGTH,
        _ => MAX_LENGTH,
    }
}

/// So many messages, this one first.
fn delivered(rng: &mut Rng, cookie: Cookie, count: usize) -> Delivered {
    let mut list = Delivered::NONE;
    for n in 0..count.min(MAX_DELIVERED) {
        let other = Cookie(rng.next());
        list.push(if n == 0 { cookie } else { other });
        list.allowance = other.0 as u16;
    }
    list
}

/// What a message's peer was sent, and nobody can guess.
#[derive(Clone, Copy, Default)]
pub(crate) struct Learnt {
    /// A token's number and timestamp.
    pub(crate) token: Option<(u16, u32)>,
    pub(crate) echo: u64,
}

/// A well-formed packet. `low`: counts tokens, near those that were given.
pub(crate) fn packet(
    rng: &mut Rng,
    cookie: Cookie,
    learnt: Learnt,
    low: u16,
    clock: u32,
) -> Packet {
    let random = rng.next();
    let bit = |n: u32| random >> n & 1 != 0;
    let sequence = match random >> 56 & 3 {
        0 => (random >> 40) as u16,
        _ => low.wrapping_add((random >> 40) as u16 % 32),
    };
    match random % 64 {
        0 if bit(32) => {
            let len = 1 + bytes(rng) % 1400;
            Packet::First(First {
                sync: Sync {
                    cookie,
                    source: 1,
                    destination: 2,
                    length: Some(len),
                    deadline: 0,
                    coflow: (random >> 12) as u32 & 3,
                    unscheduled: len,
                    mss: 1450,
                    patience: 1 + (random >> 28) as u16 % 3,
                    echo: if bit(30) { learnt.echo } else { 0 },
                    priority: None,
                    probe: false,
                    acked: false,
                    ren: false,
                    paced: false,
                },
                data: Data {
                    cookie,
                    token: 0,
                    timestamp: 0,
                    offset: 0,
                    len,
                    flags: FLAG_UNASKED,
                    more: 1,
                },
                prompt: bit(33),
                delivered: delivered(rng, cookie, (random >> 34) as usize % 5),
            })
        }
        0..=2 => {
            let length = (random >> 20 & 3 != 0).then(|| bytes(rng).max(1));
            Packet::Sync(Sync {
                cookie,
                source: 1,
                destination: 2,
                length,
                deadline: if bit(8) { bytes(rng) } else { 0 },
                coflow: (random >> 12) as u32 & 3,
                unscheduled: if bit(9) {
                    length.unwrap_or(0).min(bytes(rng))
                } else {
                    0
                },
                mss: if bit(10) { 1450 } else { MIN_MSS },
                patience: 1 + (random >> 28) as u16 % 3,
                echo: if bit(30) {
                    learnt.echo
                } else {
                    random >> 31 & 1
                },
                priority: bit(11).then_some((random >> 14) as u8 & 7),
                probe: random >> 24 & 3 == 0,
                acked: random >> 28 & 3 == 0,
                ren: random >> 26 & 3 == 0,
                paced: random >> 26 & 3 == 1,
            })
        }
        3..=15 => Packet::Token(Token {
            cookie,
            sequence,
            timestamp: if bit(9) { clock } else { rng.next() as u32 },
            priority: (random >> 8) as u8 & 7,
            grant: [None, None, Some(Mark::Under), Some(Mark::Over)][(random >> 16) as usize & 3],
            worth: 1,
        }),
        16..=44 => {
            let unscheduled = random >> 8 & 7 == 0;
            let len = if bit(40) {
                1 + (random >> 24) as u32 % 1450
            } else {
                1450
            };
            let guess = (sequence, rng.next() as u32);
            let (token, timestamp) = match learnt.token {
                _ if unscheduled => (0, 0),
                Some(token) if random >> 18 & 3 != 0 => token,
                _ => guess,
            };
            Packet::Data(Data {
                cookie,
                token,
                timestamp,
                offset: bytes(rng).min(MAX_LENGTH - len),
                len,
                flags: u8::from(unscheduled) | u8::from(random >> 16 & 3 == 0) << 7,
                more: (random >> 30) as u8 & 3,
            })
        }
        45..=50 => {
            let mut spans = Spans::EMPTY;
            let mut at = bytes(rng) % 20_000;
            for _ in 0..=random >> 60 {
                let end = at + 1 + rng.below(3000) as u32;
                spans.push(at, end);
                at = end + rng.below(2000) as u32;
            }
            Packet::Resend(Resend { cookie, spans })
        }
        51..=54 => Packet::Fin(Fin {
            cookie,
            length: bytes(rng).max(1),
        }),
        55..=61 => Packet::Ack(Ack {
            cookie,
            received: bytes(rng),
            window: bytes(rng),
            allowance: 0,
            last: random >> 8 & 1 == 0,
            mark: turnstile_core::transport::rate::Mark::from_ecn((random >> 9) as u8),
            notify: random >> 9 & 5 == 5,
        }),
        62 if bit(8) => {
            let mut list = Cookies::new(cookie);
            for _ in 0..random >> 60 {
                list.push(Cookie(rng.next()));
            }
            Packet::Confirm(list)
        }
        62 if bit(9) => Packet::Delivered(delivered(rng, cookie, 1 + (random >> 60) as usize % 4)),
        62 => Packet::Challenge(Challenge {
            cookie,
            echo: random | 1,
            ticket: random & 2 != 0,
        }),
        _ => Packet::Reset(Reset {
            cookie,
            code: ResetCode::ALL[(random >> 8) as usize % 6],
        }),
    }
}
