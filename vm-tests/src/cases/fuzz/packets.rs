// SPDX-License-Identifier: GPL-2.0
//! Packets that nobody's endpoint sent: those of messages under way again, with something changed,
//! or others in their place, as frames of the devices'.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use turnstile_core::header::PORT;
use turnstile_core::transport::wire::{
    self, Ack, Challenge, Cookie, Data, Fin, Mark, Packet, Resend, Reset, ResetCode, Spans, Sync,
    Token, MAX_HEADER,
};

use crate::rng::Rng;

use super::hand::Hand;

/// Frames that are remembered.
const REMEMBERED: usize = 64;
/// Frames read at a time.
const BURST: usize = 32;
const ETHERNET: usize = 14;
const UDP: usize = 8;

/// A frame that was seen.
#[derive(Clone, Debug)]
struct Seen {
    bytes: Vec<u8>,
    /// The device's index.
    device: i32,
}

/// A thread's eye on its host's devices.
pub(super) struct Wire {
    packet: OwnedFd,
    seen: VecDeque<Seen>,
    cookies: VecDeque<Cookie>,
    tokens: VecDeque<Token>,
}

impl Wire {
    /// In the calling thread's namespace.
    pub(super) fn open() -> Result<Self> {
        let all = i32::from((libc::ETH_P_ALL as u16).to_be());
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, all) };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("a packet socket");
        }
        Ok(Self {
            // SAFETY: it is new, and nobody else's.
            packet: unsafe { OwnedFd::from_raw_fd(fd) },
            seen: VecDeque::new(),
            cookies: VecDeque::new(),
            tokens: VecDeque::new(),
        })
    }

    /// Reads what the devices sent and received.
    fn look(&mut self) {
        let mut buffer = vec![0; 70_000];
        for _ in 0..BURST {
            // SAFETY: all zero is a valid sockaddr_ll.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let place = buffer.as_mut_ptr().cast();
            // SAFETY: buffer and address have as many bytes as is said.
            let got = unsafe {
                let fd = self.packet.as_raw_fd();
                let from = (&raw mut from).cast();
                libc::recvfrom(fd, place, buffer.len(), 0, from, &raw mut len)
            };
            let Ok(got) = usize::try_from(got) else {
                break;
            };
            self.learn(&buffer[..got], from.sll_ifindex);
        }
    }

    fn learn(&mut self, frame: &[u8], device: i32) {
        let Some(at) = payload_of(frame) else {
            return;
        };
        let payload = &frame[at..];
        if let Ok(packet) = wire::parse(payload, payload.len()) {
            keep(&mut self.cookies, packet.cookie());
            if let Packet::Token(token) = packet {
                keep(&mut self.tokens, token);
            }
        }
        let seen = Seen {
            bytes: frame.to_vec(),
            device,
        };
        keep(&mut self.seen, seen);
    }

    fn send(&self, frame: &[u8], device: i32) -> bool {
        // SAFETY: all zero is a valid sockaddr_ll.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = device;
        let place = frame.as_ptr().cast();
        // SAFETY: frame and address are there.
        unsafe {
            libc::sendto(
                self.packet.as_raw_fd(),
                place,
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            ) >= 0
        }
    }
}

fn keep<T>(all: &mut VecDeque<T>, one: T) {
    all.push_back(one);
    if all.len() > REMEMBERED {
        all.pop_front();
    }
}

/// Where the transport's packet begins in a frame, if that has one.
fn payload_of(frame: &[u8]) -> Option<usize> {
    let (ip, next) = match frame.get(12..14)? {
        [0x08, 0x00] => (20, *frame.get(ETHERNET + 9)?),
        [0x86, 0xdd] => (40, *frame.get(ETHERNET + 6)?),
        _ => return None,
    };
    let udp = ETHERNET + ip;
    let port = frame.get(udp + 2..udp + 4)?;
    let at = udp + UDP;
    (next == 17 && port == PORT.to_be_bytes() && frame.len() > at).then_some(at)
}

/// Sends some.
pub(super) fn call(hand: &mut Hand<'_>) {
    hand.wire.look();
    for _ in 0..hand.rng.range(1..=4) {
        let Some(seen) = pick(&mut hand.rng, &hand.wire.seen) else {
            return;
        };
        let Some(at) = payload_of(&seen.bytes) else {
            return;
        };
        let mut frame = seen.bytes;
        let what = match hand.rng.index(8) {
            0 => "a packet again",
            1..3 => {
                change(&mut hand.rng, &mut frame, at);
                "a packet with something changed"
            }
            _ => {
                let payload = forged(hand);
                frame.truncate(at);
                frame.extend_from_slice(&payload);
                // Its source port goes with the cookie.
                let port = wire::source_port(&payload);
                frame[at - UDP..at - UDP + 2].copy_from_slice(&port.to_be_bytes());
                "a forged packet"
            }
        };
        // At times back to where it came from.
        if hand.rng.one_in(4) && frame.len() >= 12 {
            frame[..12].rotate_left(6);
        }
        seal(&mut frame, at);
        let head = &frame[at.min(frame.len())..];
        let head = &head[..head.len().min(MAX_HEADER)];
        hand.about_to(format!("{what} by device {}: {head:x?}", seen.device));
        let done = hand.wire.send(&frame, seen.device);
        hand.tally.count(what, done);
    }
}

fn pick<T: Clone>(rng: &mut Rng, all: &VecDeque<T>) -> Option<T> {
    match all.len() {
        0 => None,
        len => Some(all[rng.index(len)].clone()),
    }
}

/// Changes some bytes, mostly of the transport's.
fn change(rng: &mut Rng, frame: &mut Vec<u8>, at: usize) {
    for _ in 0..rng.range(1..=3) {
        let first = if rng.one_in(5) { ETHERNET } else { at };
        let len = frame.len().saturating_sub(first).min(60);
        if len == 0 {
            return;
        }
        let place = first + rng.index(len);
        match rng.index(4) {
            0 => frame[place] ^= 1 << rng.range(0..=7),
            1 => frame[place] = rng.range(0..=255) as u8,
            2 => frame.truncate(place.max(at)),
            _ => frame.extend_from_slice(&[0x77; 9]),
        }
    }
}

/// Makes lengths and checksums right, so that the packet is let in.
fn seal(frame: &mut [u8], at: usize) {
    let udp = at - UDP;
    let len = (frame.len() - udp) as u16;
    frame[udp + 4..udp + 6].copy_from_slice(&len.to_be_bytes());
    frame[udp + 6..udp + 8].fill(0);
    if udp == ETHERNET + 20 {
        let whole = (20 + len).to_be_bytes();
        frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&whole);
        frame[ETHERNET + 10..ETHERNET + 12].fill(0);
        let sum = !folded(words(&frame[ETHERNET..udp]));
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
        return;
    }
    frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&len.to_be_bytes());
    // Addresses, length and protocol count, too.
    let addresses = words(&frame[ETHERNET + 8..udp]);
    let sum = !folded(addresses + u64::from(len) + 17 + words(&frame[udp..]));
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
}

fn words(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| (u64::from(pair[0]) << 8) | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn bytes(packet: &Packet, payload: usize) -> Vec<u8> {
    let mut header = [0; MAX_HEADER];
    let len = packet.write(&mut header);
    let mut bytes = header[..len].to_vec();
    bytes.resize(len + payload, 0x5a);
    bytes
}

/// A well-formed packet, mostly of a message that is under way.
fn forged(hand: &mut Hand<'_>) -> Vec<u8> {
    let known = pick(&mut hand.rng, &hand.wire.cookies).filter(|_| !hand.rng.one_in(8));
    let token = pick(&mut hand.rng, &hand.wire.tokens);
    let rng = &mut hand.rng;
    let cookie = known.unwrap_or(Cookie(rng.range(0..=u64::MAX)));
    let bits = (rng.range(0..=29), rng.range(0..=20));
    let length = rng.range(1..=1 << bits.0) as u32;
    let offset = rng.range(0..=1 << bits.1) as u32;
    match rng.index(10) {
        0..2 => bytes(&Packet::Sync(sync(rng, cookie, length)), 0),
        2..4 => {
            let len = rng.range(1..=1400) as u32;
            let unscheduled = rng.one_in(3);
            // The answer to a token, if one was seen.
            let (cookie, number, timestamp) = match token.filter(|_| !unscheduled) {
                Some(token) => (token.cookie, token.sequence, token.timestamp),
                None => (cookie, 0, 0),
            };
            let flags = if unscheduled {
                1
            } else {
                *rng.pick(&[0, 0, 0x80])
            };
            let data = Data {
                cookie,
                token: number,
                timestamp,
                offset,
                len,
                flags,
                more: rng.range(0..=3) as u8,
            };
            bytes(&Packet::Data(data), len as usize)
        }
        4 => {
            let grant = match rng.index(4) {
                0 => Some(*rng.pick(&[Mark::Under, Mark::Full, Mark::Over])),
                _ => None,
            };
            let token = Token {
                cookie,
                sequence: rng.range(0..=0xffff) as u16,
                timestamp: rng.range(0..=u64::from(u32::MAX)) as u32,
                priority: if grant.is_some() {
                    0
                } else {
                    rng.range(0..=7) as u8
                },
                grant,
                worth: 1,
            };
            bytes(&Packet::Token(token), 0)
        }
        5 => {
            let mut spans = Spans::EMPTY;
            let mut at = 0;
            for _ in 0..rng.range(1..=16) {
                let start = at + rng.range(0..=3000) as u32;
                at = start + rng.range(1..=3000) as u32;
                spans.push(start, at);
            }
            bytes(&Packet::Resend(Resend { cookie, spans }), 0)
        }
        6 => bytes(&Packet::Fin(Fin { cookie, length }), 0),
        7 => {
            let mark = turnstile_core::transport::rate::Mark::from_ecn(rng.range(0..=3) as u8);
            let ack = Ack {
                cookie,
                received: offset,
                window: length,
                allowance: 0,
                last: rng.one_in(4),
                mark,
                notify: mark != turnstile_core::transport::rate::Mark::None && rng.one_in(2),
            };
            bytes(&Packet::Ack(ack), 0)
        }
        8 => {
            let code = *rng.pick(&ResetCode::ALL);
            bytes(&Packet::Reset(Reset { cookie, code }), 0)
        }
        _ => {
            let echo = rng.range(1..=u64::MAX);
            let ticket = rng.one_in(2);
            let challenge = Challenge {
                cookie,
                echo,
                ticket,
            };
            bytes(&Packet::Challenge(challenge), 0)
        }
    }
}

fn sync(rng: &mut Rng, cookie: Cookie, length: u32) -> Sync {
    let unknown = rng.one_in(4);
    let clocked = rng.range(0..=3);
    Sync {
        cookie,
        source: rng.range(4000..=4005) as u16,
        destination: rng.range(4000..=4005) as u16,
        length: (!unknown).then_some(length),
        deadline: rng.range(0..=1_000_000) as u32,
        coflow: rng.range(0..=3) as u32,
        unscheduled: if unknown || rng.one_in(2) {
            0
        } else {
            length.min(2900)
        },
        mss: *rng.pick(&[256, 1400, 1450, 9000]),
        patience: rng.range(1..=100) as u16,
        echo: if rng.one_in(4) {
            rng.range(0..=u64::MAX)
        } else {
            0
        },
        priority: rng.one_in(3).then_some(rng.range(0..=7) as u8),
        probe: rng.one_in(8),
        acked: rng.one_in(8),
        ren: clocked == 0,
        paced: clocked == 1,
    }
}
