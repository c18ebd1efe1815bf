// SPDX-License-Identifier: GPL-2.0
//! Millions of packets, most of them wrong in some way, through one endpoint, with random calls of
//! its user in between.

use std::collections::HashMap;

use turnstile_core::header::{FLAG_REN, FLAG_UNASKED, FLAG_UNSCHEDULED};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::endpoint::Endpoint;
use turnstile_core::transport::host::*;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::*;
use turnstile_core::units::Nanos;

use super::host::{address, next, number, Std};

/// A user that checks every call, and remembers cookies.
struct User {
    random: u64,
    /// For each incoming message: the end of its contiguous bytes, and those beyond.
    coming: HashMap<(u32, u32), Vec<(u32, u32)>>,
    /// With the peer's number.
    cookies: Vec<(Cookie, usize)>,
    /// Numbers and timestamps of tokens, and echoes, which nobody can guess.
    tokens: Vec<(Cookie, u16, u32)>,
    echoes: Vec<(Cookie, u64)>,
    /// The last ticket of each peer, which only it has seen.
    tickets: HashMap<usize, u64>,
    ids: Vec<OutId>,
    ins: Vec<InId>,
    sent: u64,
    done: u64,
}

fn keep<T>(all: &mut Vec<T>, random: u64, item: T) {
    if all.len() < 64 {
        all.push(item);
    } else {
        all[random as usize % 64] = item;
    }
}

impl Host<u32, u32> for User {
    type Payload = ();
    type Whole = ();

    fn random(&mut self) -> u64 {
        next(&mut self.random)
    }

    fn transmit(
        &mut self,
        _: Owner<'_, u32, u32>,
        to: &Address,
        _: Class,
        _: bool,
        header: &[u8],
        payload: Option<Slice<'_, u32>>,
    ) {
        let len = payload.as_ref().map_or(0, |p| p.len as usize);
        let packet = parse(header, header.len() + len).expect("what is sent is well-formed");
        if let Some(payload) = payload {
            assert!(payload.offset + payload.len <= *payload.message);
        }
        self.sent += 1;
        let random = next(&mut self.random);
        keep(&mut self.cookies, random, (packet.cookie(), number(&to.ip)));
        match packet {
            Packet::Token(token) => {
                let token = (token.cookie, token.sequence, token.timestamp);
                keep(&mut self.tokens, random >> 8, token);
            }
            Packet::Challenge(it) if it.ticket => {
                self.tickets.insert(number(&to.ip), it.echo);
            }
            Packet::Challenge(it) => keep(&mut self.echoes, random >> 8, (it.cookie, it.echo)),
            _ => {}
        }
    }

    fn open(&mut self, _: &Address, _: &Sync, id: InId, _: Sender) -> Result<(u32, u32), Refusal> {
        let random = next(&mut self.random);
        match random % 16 {
            0 => return Err(Refusal::Ignore),
            1 => return Err(Refusal::Reset(ResetCode::NoSocket)),
            _ => {}
        }
        assert!(self
            .coming
            .insert((id.index, id.generation), Vec::new())
            .is_none());
        keep(&mut self.ins, random >> 8, id);
        Ok((0, (random >> 40) as u32 % 100_000))
    }

    fn data(
        &mut self,
        id: InId,
        _: &mut u32,
        offset: u32,
        _: (u32, u32),
        len: u32,
        (): (),
    ) -> bool {
        assert!(len > 0);
        if next(&mut self.random) % 32 == 0 {
            return false;
        }
        let all = self
            .coming
            .get_mut(&(id.index, id.generation))
            .expect("it is open");
        let (start, end) = (offset, offset + len);
        assert!(all.iter().all(|r| r.1 <= start || r.0 >= end), "told twice");
        all.push((start, end));
        all.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for &(start, end) in all.iter() {
            match merged.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => merged.push((start, end)),
            }
        }
        *all = merged;
        true
    }

    fn in_length(&mut self, _: InId, _: &mut u32, length: u32) {
        assert!(length > 0);
    }

    fn in_progress(&mut self, id: InId, _: &mut u32, contiguous: u32) {
        let all = &self.coming[&(id.index, id.generation)];
        assert_eq!(all[0], (0, contiguous));
    }

    fn in_done(&mut self, id: InId, _: u32) {
        let all = self.coming.remove(&(id.index, id.generation)).unwrap();
        assert!(all.len() == 1 && all[0].0 == 0);
        self.done += 1;
    }

    fn in_failed(&mut self, id: InId, _: u32, _: Failure) {
        self.coming
            .remove(&(id.index, id.generation))
            .expect("it was open");
    }

    fn out_acked(&mut self, _: OutId, _: &mut u32, received: u32) {
        assert!(received > 0);
    }

    fn out_done(&mut self, _: OutId, _: u32, _: Result<(), Failure>) {}

    fn listens(&self) -> bool {
        true
    }

    fn event(&mut self, _: &Event) {}
}

struct Fuzz {
    endpoint: Endpoint<Std, u32, u32>,
    user: User,
    random: u64,
    now: u64,
}

impl Fuzz {
    fn below(&mut self, n: u64) -> u64 {
        next(&mut self.random) % n
    }

    /// Small, or near a power of two, or anything.
    fn number(&mut self, most: u32) -> u32 {
        let number = match self.below(4) {
            0 => self.below(20) as u32,
            1 => (self.below(40) as u32) * 1450,
            2 => 1_u32
                .wrapping_shl(self.below(32) as u32)
                .wrapping_sub(self.below(3) as u32),
            _ => self.below(u64::from(most) + 1) as u32,
        };
        number.min(most)
    }

    /// A cookie that is in use or was, more often than not.
    fn cookie(&mut self) -> (Cookie, usize) {
        let random = next(&mut self.random);
        match self.user.cookies.get(random as usize % 72) {
            Some(known) => *known,
            None => (Cookie(random % 32), (random >> 32) as usize % 3),
        }
    }

    /// A token of a message, if one is known.
    fn token(&mut self, cookie: Cookie) -> (u16, u32) {
        let from = self.below(64) as usize;
        let all = &self.user.tokens;
        let found = all.iter().cycle().skip(from).take(all.len());
        let found = found.into_iter().find(|token| token.0 == cookie);
        found.map_or((0, 0), |&(_, number, time)| (number, time))
    }

    /// What the message's CHALLENGE says, if there was one.
    fn echo(&self, cookie: Cookie) -> u64 {
        let found = self.user.echoes.iter().find(|echo| echo.0 == cookie);
        found.map_or(0, |echo| echo.1)
    }

    fn packet(&mut self, cookie: Cookie, from: usize) -> Packet {
        let clock = self.now as u32;
        match self.below(16) {
            0 | 1 => {
                let length = match self.below(4) {
                    0 => None,
                    1 => Some(2900),
                    _ => Some(1 + self.number(MAX_LENGTH - 1)),
                };
                let unscheduled = self.number(length.unwrap_or(0));
                let clocked = self.below(4);
                let echo = match self.below(4) {
                    0 => self.below(3),
                    1 => self.user.tickets.get(&from).copied().unwrap_or(0),
                    _ => self.echo(cookie),
                };
                // What a CHALLENGE says is of these ports, too.
                let ports = if self.below(8) == 0 {
                    self.below(9) as u16
                } else {
                    cookie.0 as u16 % 9
                };
                Packet::Sync(Sync {
                    cookie,
                    source: 1 + ports % 3,
                    destination: 1 + ports / 3,
                    length,
                    deadline: self.number(u32::MAX),
                    coflow: self.below(4) as u32,
                    unscheduled,
                    // Mostly as long as the DATA below may be.
                    mss: match self.below(8) {
                        0 => MIN_MSS + self.below(1200) as u16,
                        _ => 1450,
                    },
                    patience: 1 + self.below(3) as u16,
                    echo,
                    priority: (self.below(3) == 0).then_some(2),
                    probe: self.below(4) == 0,
                    // It ends a message of which nothing was acknowledged.
                    acked: self.below(64) == 0,
                    ren: clocked == 0,
                    paced: clocked == 1,
                })
            }
            2..=5 => {
                let grant = [None, Some(Mark::Under), Some(Mark::Full), Some(Mark::Over)]
                    [self.below(4) as usize];
                let worth = match self.below(2) {
                    0 if grant.is_none() => 1 + self.below(64) as u8,
                    _ => 1,
                };
                Packet::Token(Token {
                    cookie,
                    sequence: self.below(300) as u16 * (1 + self.below(2) as u16 * 200),
                    timestamp: clock.wrapping_sub(self.number(200_000)),
                    priority: self.below(8) as u8,
                    grant,
                    worth,
                })
            }
            6..=10 => {
                let unscheduled = self.below(4) == 0;
                let offset = self.number(100_000) % if self.below(8) == 0 { 100_000 } else { 2000 };
                let (token, timestamp) = match self.below(4) {
                    0 => (
                        self.below(70) as u16,
                        clock.wrapping_sub(self.number(100_000)),
                    ),
                    _ => self.token(cookie),
                };
                Packet::Data(Data {
                    cookie,
                    token: if unscheduled { 0 } else { token },
                    timestamp: if unscheduled { 0 } else { timestamp },
                    offset,
                    len: 1 + self.number(1449).min(2899_u32.saturating_sub(offset)),
                    flags: if unscheduled {
                        [FLAG_UNSCHEDULED, FLAG_UNASKED][self.below(2) as usize]
                    } else {
                        FLAG_REN * (self.below(2) as u8)
                    },
                    more: [0, self.below(4) as u8][self.below(2) as usize],
                })
            }
            11 => {
                let mut spans = Spans::EMPTY;
                let mut at = self.number(10_000);
                for _ in 0..=self.below(16) {
                    let end = at + 1 + self.number(5000);
                    spans.push(at, end);
                    at = end + self.number(3000);
                }
                Packet::Resend(Resend { cookie, spans })
            }
            12 => {
                let length = if self.below(32) == 0 {
                    1 + self.number(200_000)
                } else {
                    2900
                };
                Packet::Fin(Fin { cookie, length })
            }
            13 | 14 => {
                let mark = turnstile_core::transport::rate::Mark::from_ecn(self.below(4) as u8);
                Packet::Ack(Ack {
                    cookie,
                    received: self.number(MAX_LENGTH),
                    window: self.number(MAX_LENGTH),
                    allowance: 0,
                    last: self.below(4) == 0,
                    mark,
                    notify: mark != turnstile_core::transport::rate::Mark::None
                        && self.below(2) == 0,
                })
            }
            _ if self.below(32) != 0 => Packet::Fin(Fin {
                cookie,
                length: 2900,
            }),
            _ => {
                let code = ResetCode::ALL[self.below(6) as usize];
                Packet::Reset(Reset { cookie, code })
            }
        }
    }

    /// The packet after some bits have flipped, if it is still valid.
    fn flip(&mut self, packet: &Packet) -> Option<Packet> {
        let mut bytes = [0; MAX_HEADER];
        let len = packet.write(&mut bytes);
        let payload = match packet {
            Packet::Data(data) => data.len as usize,
            _ => 0,
        };
        for _ in 0..=self.below(3) {
            let bit = self.below(8 * len as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        match parse(&bytes[..len], len + payload) {
            Ok(packet) => Some(packet),
            Err(why) => {
                self.endpoint.malformed(why);
                None
            }
        }
    }

    fn step(&mut self) {
        if self.below(4) == 0 {
            self.now += self.below(20_000);
        }
        if self.below(1 << 15) == 0 {
            self.now += 3_000_000_000;
        }
        let now = Nanos(self.now);
        if self.endpoint.next_timer().is_some_and(|at| at <= now) || self.below(64) == 0 {
            self.endpoint.timer(now, self.now as u32, &mut self.user);
        }
        let random = next(&mut self.random);
        match random % 64 {
            0 => self.send(),
            1 => {
                if let Some(&id) = self.user.ids.get((random >> 8) as usize % 64) {
                    let available = self.number(100_000);
                    // What the user has, before it says so.
                    if let Some(have) = self.endpoint.out_mut(id) {
                        *have = (*have).max(available);
                    }
                    let end = random >> 60 == 0;
                    self.endpoint
                        .written(now, id, available, end, &mut self.user);
                }
            }
            2 => {
                if let Some(&id) = self.user.ins.get((random >> 8) as usize % 64) {
                    let window = self.number(MAX_LENGTH);
                    self.endpoint.window(now, id, window, &mut self.user);
                }
            }
            3 if random >> 62 == 0 => {
                if let Some(&id) = self.user.ids.get((random >> 8) as usize % 64) {
                    self.endpoint.abort(now, id, &mut self.user);
                }
                if let Some(&id) = self.user.ins.get((random >> 16) as usize % 64) {
                    if self.endpoint.refuse(now, id, &mut self.user).is_some() {
                        self.user.coming.remove(&(id.index, id.generation)).unwrap();
                    }
                }
            }
            _ => {}
        }
        let (cookie, from) = self.cookie();
        let mut packet = self.packet(cookie, from);
        if self.below(4) == 0 {
            match self.flip(&packet) {
                Some(flipped) => packet = flipped,
                None => return,
            }
        }
        let from = match self.below(16) {
            0 => self.below(3) as usize,
            _ => from,
        };
        let from = address(from, 9, false);
        let ecn = self.below(4) as u8;
        let device = self.below(40) as u32;
        self.endpoint.packet(
            now,
            self.now as u32,
            &from,
            device,
            ecn,
            &packet,
            (),
            &mut self.user,
        );
    }

    fn send(&mut self) {
        let to = address(self.below(3) as usize, 9, false);
        let length = (self.below(3) != 0).then(|| 1 + self.number(50_000));
        let available = self.number(length.unwrap_or(50_000));
        let what = Outgoing {
            source: 1,
            destination: 1,
            length,
            deadline: (self.below(2) == 0).then_some(Nanos(1_000_000)),
            coflow: 0,
            priority: None,
            mss: self.below(2000) as u16,
            available,
            user: self.below(3) as u32,
        };
        let sent = self
            .endpoint
            .send(Nanos(self.now), &to, &what, available, &mut self.user);
        if let Ok(id) = sent {
            let random = next(&mut self.random);
            keep(&mut self.user.ids, random, id);
        }
    }

    /// After some time all messages have ended.
    fn finish(&mut self) {
        // What is finished is remembered for as long as its SYNC says, an hour at most.
        let end = self.now + 3_660_000_000_000;
        while let Some(at) = self.endpoint.next_timer() {
            assert!(at.0 < end, "a timer of a message that there is no more");
            self.now = self.now.max(at.0);
            self.endpoint
                .timer(Nanos(self.now), self.now as u32, &mut self.user);
        }
        assert_eq!(self.endpoint.counts(), (0, 0, 0));
        assert!(self.endpoint.peers(0).is_none());
        assert!(self.user.coming.is_empty());
    }
}

#[test]
fn packets_of_all_kinds() {
    const RUNS: u64 = 12;
    let (mut sent, mut done) = (0, 0);
    for run in 0..RUNS {
        let policies = [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN];
        let config = Config {
            policy: policies[run as usize % 3],
            schedule: run as u32 % 4,
            feedback: run as u32 % 2,
            unscheduled: 8,
            token_expiry: if run % 2 == 0 { 100_000 } else { 0 },
            max_incoming: 40,
            max_per_peer: 30,
            max_half_open: 10,
            max_outgoing: 30,
            max_remembered: 100,
            timeout: 1_000_000_000,
            ..Config::DEFAULT
        };
        let config = config.validate(None).unwrap();
        let mut fuzz = Fuzz {
            endpoint: Endpoint::new(Nanos(1000), &config, [run, 1, run]).unwrap(),
            user: User {
                random: run,
                coming: HashMap::new(),
                cookies: Vec::new(),
                tokens: Vec::new(),
                echoes: Vec::new(),
                tickets: HashMap::new(),
                ids: Vec::new(),
                ins: Vec::new(),
                sent: 0,
                done: 0,
            },
            random: run + 100,
            now: 1000,
        };
        for _ in 0..4_000_000 / RUNS {
            fuzz.step();
        }
        fuzz.finish();
        sent += fuzz.user.sent;
        done += fuzz.user.done;
    }
    println!("{sent} packets sent, {done} messages came in whole");
    assert!(done > 1000);
}
