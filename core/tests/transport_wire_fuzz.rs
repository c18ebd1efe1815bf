// SPDX-License-Identifier: GPL-2.0
//! Fuzzing of the packet parser with ten million packets: random bytes, and valid packets that are
//! changed or truncated. Parsing never panics, and a packet that is accepted is written back byte
//! by byte.
// Shifts before masks, as everybody reads them; later versions of the lint agree.
#![allow(clippy::precedence)]

mod common;

use common::Rng;
use turnstile_core::header::MAX_WORTH;
use turnstile_core::transport::wire::*;

const PACKETS: u64 = 10_000_000;

/// Boundary values.
const EDGES: [u32; 14] = [
    0,
    1,
    2,
    255,
    256,
    1450,
    0xffff,
    0x1_0000,
    MAX_LENGTH - 1,
    MAX_LENGTH,
    MAX_LENGTH + 1,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];

fn number(rng: &mut Rng) -> u32 {
    let random = rng.next();
    match random % 4 {
        0 => EDGES[(random >> 32) as usize % EDGES.len()],
        1 => (random >> 32) as u32 % 10_000,
        2 => (random >> 34) as u32,
        _ => (random >> 32) as u32,
    }
}

/// So many messages that are complete.
fn delivered(rng: &mut Rng, count: usize) -> Delivered {
    let mut list = Delivered::NONE;
    for _ in 0..count {
        list.push(Cookie(rng.next()));
        list.allowance = number(rng) as u16;
    }
    list
}

/// A packet of any type, with most fields in range.
fn any(rng: &mut Rng) -> Packet {
    let cookie = Cookie(rng.next());
    let random = rng.next();
    let bit = |n: u32| random >> n & 1 != 0;
    match random % 11 {
        0 => {
            let length = bit(8).then(|| number(rng) & MAX_LENGTH | 1);
            Packet::Sync(Sync {
                cookie,
                source: (random >> 16) as u16 | 1,
                destination: (random >> 32) as u16 | 1,
                length,
                deadline: number(rng),
                coflow: number(rng),
                unscheduled: if bit(9) { length.unwrap_or(0) } else { 0 },
                mss: 256 + (random >> 48) as u16 % 60_000,
                patience: 1 + (random >> 24) as u16 % MAX_PATIENCE,
                echo: rng.next(),
                priority: bit(10).then_some(random as u8 >> 5),
                probe: bit(11),
                acked: bit(13),
                ren: bit(12),
                paced: !bit(12) && bit(13),
            })
        }
        1 => Packet::Token(Token {
            cookie,
            sequence: number(rng) as u16,
            timestamp: number(rng),
            priority: random as u8 >> 5,
            grant: [None, Some(Mark::Under), Some(Mark::Full), Some(Mark::Over)]
                [(random >> 8) as usize % 4],
            worth: match (random >> 8) % 4 {
                0 => 1 + (random >> 16) as u8 % MAX_WORTH,
                _ => 1,
            },
        }),
        2 => {
            let scheduled = u32::from(!bit(8));
            Packet::Data(Data {
                cookie,
                token: (number(rng) * scheduled) as u16,
                timestamp: number(rng) * scheduled,
                offset: number(rng),
                len: 1 + (random >> 48) as u32 % 1450,
                flags: u8::from(bit(8)) | u8::from(bit(9)) << 7,
                more: (random >> 32) as u8,
            })
        }
        3 => {
            let mut spans = Spans::EMPTY;
            let mut at = 0;
            for _ in 0..=random >> 60 {
                at += number(rng) % 100_000;
                let end = at + 1 + number(rng) % 100_000;
                spans.push(at, end);
                at = end;
            }
            Packet::Resend(Resend { cookie, spans })
        }
        4 => Packet::Fin(Fin {
            cookie,
            length: number(rng),
        }),
        5 => Packet::Ack(Ack {
            cookie,
            received: number(rng),
            window: number(rng),
            allowance: 0,
            last: bit(8),
            mark: turnstile_core::transport::rate::Mark::from_ecn(
                u8::from(bit(9)) | u8::from(bit(10)) << 1,
            ),
            notify: bit(9) && bit(11),
        }),
        6 => Packet::Challenge(Challenge {
            cookie,
            echo: if bit(8) { rng.next() } else { 0 },
            ticket: bit(9),
        }),
        7 => {
            let len = 1 + (random >> 48) as u32 % 1450;
            Packet::First(First {
                sync: Sync {
                    cookie,
                    source: (random >> 16) as u16 | 1,
                    destination: (random >> 32) as u16 | 1,
                    length: Some(len),
                    deadline: number(rng),
                    coflow: number(rng),
                    unscheduled: len,
                    mss: 256 + (random >> 48) as u16 % 60_000,
                    patience: 1 + (random >> 24) as u16 % MAX_PATIENCE,
                    echo: rng.next(),
                    priority: bit(10).then_some(random as u8 >> 5),
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
                    flags: 2 | u8::from(bit(9)) << 3,
                    more: 1,
                },
                prompt: bit(11),
                delivered: delivered(rng, (random >> 12) as usize % 5),
            })
        }
        8 => {
            let mut list = Cookies::new(cookie);
            for _ in 0..random >> 60 {
                list.push(Cookie(rng.next()));
            }
            Packet::Confirm(list)
        }
        9 => Packet::Delivered(delivered(rng, 1 + (random >> 60) as usize % 4)),
        _ => Packet::Reset(Reset {
            cookie,
            code: ResetCode::ALL[(random >> 8) as usize % 6],
        }),
    }
}

/// Writes a packet to `bytes`. Returns the length of the datagram that begins with it.
fn make(rng: &mut Rng, bytes: &mut [u8; MAX_HEADER]) -> usize {
    let packet = any(rng);
    let mut total = packet.write(bytes);
    total += packet.bytes() as usize - packet.header_len();
    let random = rng.next();
    let place = (random >> 8) as usize;
    match random % 8 {
        // As it is.
        0 => {}
        // One bit, one byte, one aligned word, several bytes.
        1 => bytes[place % total.min(SYNC_LEN)] ^= 1 << (random >> 60 & 7),
        2 => bytes[place % total.min(SYNC_LEN)] = (random >> 56) as u8,
        3 => {
            let at = 4 * (place % (SYNC_LEN / 4));
            bytes[at..at + 4].copy_from_slice(&number(rng).to_be_bytes());
        }
        4 => {
            for n in 0..4 {
                bytes[(random >> (8 + 8 * n)) as usize % SYNC_LEN] = (random >> (16 + 8 * n)) as u8;
            }
        }
        // Cut, or with something behind it.
        5 => total = place % (total + 1),
        6 => total += place % 64,
        // Random bytes with a likely first byte and mostly a likely length.
        _ => {
            for chunk in bytes.chunks_exact_mut(8) {
                chunk.copy_from_slice(&rng.next().to_le_bytes());
            }
            if random & 1 << 40 != 0 {
                bytes[..4].copy_from_slice(&[0x10 | (random >> 48) as u8 % 9, 0, 0, 0]);
            }
            if random & 1 << 41 != 0 {
                total = (random >> 52) as usize;
            }
        }
    }
    total
}

#[test]
fn ten_million_packets_are_read_or_refused() {
    let mut rng = Rng(0x7475);
    let mut accepted = [0_u64; 8];
    let mut refused = [0_u64; Malformed::ALL.len()];
    let mut bytes = [0; MAX_HEADER];
    let mut again = [0; MAX_HEADER];
    for n in 0..PACKETS {
        let total = make(&mut rng, &mut bytes);
        let at_hand = &bytes[..total.min(MAX_HEADER)];
        match parse(at_hand, total) {
            Ok(packet) => {
                let len = packet.write(&mut again);
                assert_eq!(again[..len], at_hand[..len], "packet {n}: {packet:?}");
                assert_eq!(len, packet.header_len(), "packet {n}: {packet:?}");
                assert_eq!(packet.bytes() as usize, total, "packet {n}: {packet:?}");
                accepted[packet.header().kind as usize - 1] += 1;
            }
            Err(malformed) => refused[malformed as usize] += 1,
        }
    }
    // Each type and each cause occurred, and often.
    assert!(accepted.iter().all(|&n| n > PACKETS / 100), "{accepted:?}");
    assert!(refused.iter().all(|&n| n > PACKETS / 10_000), "{refused:?}");
}
