// SPDX-License-Identifier: GPL-2.0
//! Packets of all kinds: random ones, right ones for no message, right ones for messages that are
//! under way, replayed ones, and all of these with something wrong. They come from a host that has
//! messages with the victim, so that they reach all states, and from one that pretends to be
//! another.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use turnstile_core::header::{FLAG_UNASKED, PORT};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi::{command, stat, FAMILY};
use turnstile_core::transport::wire::{
    self, Ack, Cookie, Cookies, Data, Delivered, Fin, First, Mark, Packet, Resend, Reset,
    ResetCode, Spans, Sync, Token, MAX_HEADER,
};
use turnstile_socket::{SendOptions, Socket};

use super::honest::Honest;
use super::{slow, OTHER};
use crate::harness::Ctx;
use crate::raw_netlink::Generic;
use crate::rng::Rng;
use crate::topology::Builder;

/// How many packets are sent. Runs with ten seeds send a million.
const COUNT: u64 = 100_000;
/// How many packets are remembered for being sent again.
const MEMORY: usize = 512;
/// How many messages of each side the storm plays with at once.
const MESSAGES: usize = 64;
/// Bytes of many of the attacker's messages: one packet.
const SMALL: u32 = 1000;
/// Bytes of each of the victim's messages.
const TALK: usize = 3000;
/// The victim opens its socket anew so often: what the attacker begins and never ends, a large
/// message, is read before others.
const REOPEN: u64 = 50;
/// One in so many of the victim's messages is taken as it should be, so that some end well whatever
/// the machine's speed.
const TAKEN: u64 = 4;
/// One in so many of the attacker's messages shows where it comes from: all of them would be more
/// than the victim's slow link can carry, and honest ones would have to wait for them.
const SHOWN: u64 = 16;
/// How often it is said that such a message has come.
const CONFIRMED: u32 = 8;
/// One in so many of what is sent is a super-packet.
const TRAINS: u64 = 6;
/// Packets between looks at what the victim says, and how long it is given then.
const BURST: u64 = 64;
const PAUSE: Duration = Duration::from_millis(1);

/// Who sends them.
struct Storm {
    /// Over IPv4, over IPv6, and with the address of somebody else.
    sockets: [UdpSocket; 3],
    rng: Rng,
    /// Messages to the victim.
    mine: VecDeque<u64>,
    /// Messages that the victim sends.
    theirs: VecDeque<u64>,
    /// Those of them that are taken as they should be, and how often that was said.
    taken: Vec<(u64, u32)>,
    recent: VecDeque<Vec<u8>>,
    sequence: u16,
    /// Tokens of the attacker's messages, as nobody can guess their numbers and timestamps.
    tokens: VecDeque<Token>,
    /// How the last of them began: a message is taken if such a SYNC comes again with the number of
    /// a CHALLENGE.
    begun: VecDeque<Sync>,
}

fn bytes(packet: &Packet, payload: usize) -> Vec<u8> {
    let mut header = [0; MAX_HEADER];
    let len = packet.write(&mut header);
    let mut bytes = header[..len].to_vec();
    bytes.resize(len + payload, 0x5a);
    bytes
}

impl Storm {
    fn cookie(&mut self, known: u64) -> Cookie {
        let pool = match self.rng.range(0..=2) {
            0 => &self.mine,
            1 => &self.theirs,
            _ => return Cookie(self.rng.range(0..=u64::MAX)),
        };
        if pool.is_empty() {
            return Cookie(known);
        }
        Cookie(pool[self.rng.index(pool.len())])
    }

    fn length(&mut self) -> u32 {
        let bits = self.rng.range(0..=30);
        (self.rng.range(1..=1 << bits) as u32).min(wire::MAX_LENGTH)
    }

    fn sync(&mut self) -> Sync {
        let cookie = self.rng.range(0..=u64::MAX);
        self.mine.push_back(cookie);
        if self.mine.len() > MESSAGES {
            self.mine.pop_front();
        }
        let rng = &mut self.rng;
        let length = if rng.one_in(2) {
            SMALL
        } else {
            rng.range(1..=40_000) as u32
        };
        let unknown = rng.one_in(4);
        let clocked = rng.range(0..=3);
        Sync {
            cookie: Cookie(cookie),
            source: rng.range(1..=9) as u16,
            destination: if rng.one_in(10) { OTHER + 1 } else { OTHER },
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

    /// A well-formed packet, for a message that there is or is not.
    fn packet(&mut self) -> Vec<u8> {
        let known = self.rng.range(0..=u64::MAX);
        let cookie = self.cookie(known);
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = match self.rng.range(0..=2) {
            0 => self.rng.range(0..=0xffff) as u16,
            _ => self.sequence,
        };
        let timestamp = self.rng.range(0..=u64::from(u32::MAX)) as u32;
        match self.rng.range(0..=17) {
            0 | 1 => {
                let sync = self.sync();
                self.begun.push_back(sync);
                if self.begun.len() > MESSAGES {
                    self.begun.pop_front();
                }
                bytes(&Packet::Sync(sync), 0)
            }
            2 => {
                let mut again = self.sync();
                again.cookie = cookie;
                bytes(&Packet::Sync(again), 0)
            }
            3..=6 => {
                let (mut offset, mut len) = (0, SMALL);
                if !self.rng.one_in(3) {
                    offset = self.rng.range(0..=40_000) as u32;
                    len = self.rng.range(1..=1450) as u32;
                }
                let flags = *self.rng.pick(&[0, 0, 0, 1, 0x80]);
                let unscheduled = flags == 1;
                let guess = (cookie, sequence, timestamp);
                let (cookie, token, timestamp) = match self.tokens.pop_back() {
                    _ if unscheduled => (cookie, 0, 0),
                    Some(given) if self.rng.one_in(2) => {
                        (given.cookie, given.sequence, given.timestamp)
                    }
                    _ => guess,
                };
                let data = Data {
                    cookie,
                    token,
                    timestamp,
                    offset,
                    len,
                    flags,
                    more: self.rng.range(0..=3) as u8,
                };
                bytes(&Packet::Data(data), len as usize)
            }
            7..=10 => {
                let grant = match self.rng.range(0..=5) {
                    0 => Some(Mark::Under),
                    1 => Some(Mark::Full),
                    2 => Some(Mark::Over),
                    _ => None,
                };
                let priority = self.rng.range(0..=7) as u8;
                let token = Token {
                    cookie,
                    sequence,
                    timestamp,
                    priority: if grant.is_some() { 0 } else { priority },
                    grant,
                    worth: 1,
                };
                bytes(&Packet::Token(token), 0)
            }
            11 => {
                let mut spans = Spans::EMPTY;
                let mut at = 0;
                for _ in 0..self.rng.range(1..=16) {
                    let start = at + self.rng.range(0..=3000) as u32;
                    at = start + self.rng.range(1..=3000) as u32;
                    spans.push(start, at);
                }
                bytes(&Packet::Resend(Resend { cookie, spans }), 0)
            }
            12 => {
                let length = self.length();
                bytes(&Packet::Fin(Fin { cookie, length }), 0)
            }
            13 | 14 => {
                let (mut received, window) = (self.length(), self.length());
                let last = self.rng.one_in(4);
                // What would really be said of the victim's messages.
                if self.rng.one_in(2) {
                    received = TALK as u32;
                }
                let ack = Ack {
                    cookie,
                    received,
                    window,
                    allowance: 0,
                    last,
                    mark: turnstile_core::transport::rate::Mark::None,
                    notify: false,
                };
                bytes(&Packet::Ack(ack), 0)
            }
            15 => {
                let (sync, of) = (self.sync(), self.cookie(known));
                let short = sync.length.unwrap_or(SMALL).min(u32::from(sync.mss));
                // Of a new message, or of one that there is.
                let sync = Sync {
                    cookie: if self.rng.one_in(2) { sync.cookie } else { of },
                    length: Some(short),
                    unscheduled: short,
                    probe: false,
                    acked: false,
                    ren: false,
                    paced: false,
                    ..sync
                };
                self.begun.push_back(sync);
                if self.begun.len() > MESSAGES {
                    self.begun.pop_front();
                }
                let data = Data {
                    cookie: sync.cookie,
                    token: 0,
                    timestamp: 0,
                    offset: 0,
                    len: short,
                    flags: FLAG_UNASKED,
                    more: 1,
                };
                let mut delivered = Delivered::NONE;
                for _ in 0..self.rng.range(0..=4) {
                    delivered.push(self.cookie(known));
                    delivered.allowance = self.rng.range(0..=65_535) as u16;
                }
                let first = First {
                    sync,
                    data,
                    prompt: self.rng.one_in(2),
                    delivered,
                };
                bytes(&Packet::First(first), short as usize)
            }
            16 => {
                let mut all = Cookies::new(cookie);
                for _ in 0..self.rng.range(1..=15) {
                    let another = self.cookie(known);
                    all.push(another);
                }
                if self.rng.one_in(2) {
                    let mut delivered = Delivered::NONE;
                    for &cookie in all.others().iter().take(4) {
                        delivered.push(cookie);
                    }
                    return bytes(&Packet::Delivered(delivered), 0);
                }
                bytes(&Packet::Confirm(all), 0)
            }
            _ => {
                let code = *self.rng.pick(&ResetCode::ALL);
                bytes(&Packet::Reset(Reset { cookie, code }), 0)
            }
        }
    }

    fn next(&mut self) -> Vec<u8> {
        let mut packet = match self.rng.range(0..=9) {
            0 => {
                let mut noise = vec![0; self.rng.index(200)];
                self.rng.fill(&mut noise);
                noise
            }
            1 if !self.recent.is_empty() => {
                let again = self.rng.index(self.recent.len());
                self.recent[again].clone()
            }
            _ => self.packet(),
        };
        if self.rng.one_in(4) {
            for _ in 0..self.rng.range(1..=3) {
                self.mutate(&mut packet);
            }
        }
        self.recent.push_back(packet.clone());
        if self.recent.len() > MEMORY {
            self.recent.pop_front();
        }
        packet
    }

    /// Packets that leave as one, of so many bytes each but for the last: a row of data as a sender
    /// would make it, in which something may be wrong, or whatever there is.
    fn train(&mut self) -> (Vec<u8>, usize) {
        let count = self.rng.range(2..=12) as u32;
        let size = match self.rng.one_in(3) {
            true => self.rng.range(1..=60) as usize,
            false => wire::DATA_LEN + *self.rng.pick(&[256, 1000, 1400]),
        };
        let mut all = Vec::new();
        let row = !self.rng.one_in(4) && size > wire::DATA_LEN;
        let known = self.rng.range(0..=u64::MAX);
        let given = self.tokens.pop_back();
        let cookie = given.map_or_else(|| self.cookie(known), |given| given.cookie);
        for number in 0..count {
            let mut packet = if row {
                let len = (size - wire::DATA_LEN) as u32;
                let (token, timestamp) = match given {
                    Some(given) => (given.sequence.wrapping_add(number as u16), given.timestamp),
                    None => (0, 0),
                };
                let data = Data {
                    cookie,
                    token,
                    timestamp,
                    offset: number * len,
                    len,
                    flags: if given.is_some() { 0 } else { FLAG_UNASKED },
                    more: (count - number) as u8,
                };
                bytes(&Packet::Data(data), len as usize)
            } else {
                self.next()
            };
            if self.rng.one_in(40) {
                self.mutate(&mut packet);
            }
            if number + 1 != count || !row {
                packet.resize(size, 0);
            } else if self.rng.one_in(2) {
                packet.truncate(self.rng.range(1..=size as u64) as usize);
            }
            all.extend(packet);
        }
        (all, size)
    }

    fn mutate(&mut self, packet: &mut Vec<u8>) {
        let rng = &mut self.rng;
        if packet.is_empty() {
            packet.push(0x10);
        }
        // Most of what is read is in the header.
        let at = rng.index(packet.len().min(40));
        match rng.range(0..=4) {
            0 => packet[at] ^= 1 << rng.range(0..=7),
            1 => packet[at] = rng.range(0..=255) as u8,
            2 => packet.truncate(at),
            3 => packet.extend_from_slice(&[0; 5]),
            _ => {
                let end = (at + 4).min(packet.len());
                let value = *rng.pick(&[0, 0xff, 0x3f, 0x80]);
                packet[at..end].fill(value);
            }
        }
    }

    /// Learns of the victim's messages. Returns what their receiver would say of some of them.
    fn listen(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut buffer = [0; 2048];
        let (mut heard, mut tokens, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for socket in &self.sockets {
            for _ in 0..BURST {
                match socket.recv_from(&mut buffer) {
                    Ok((len, _)) => {
                        let head = &buffer[..len.min(160)];
                        match wire::parse(head, len) {
                            Ok(Packet::Sync(sync)) => heard.push(sync.cookie.0),
                            Ok(Packet::Token(token)) => tokens.push(token),
                            Ok(Packet::Challenge(it)) if !it.ticket && self.rng.one_in(SHOWN) => {
                                let of = |sync: &&Sync| sync.cookie == it.cookie;
                                let sync = self.begun.iter().find(of);
                                shown.extend(sync.map(|sync| Sync {
                                    echo: it.echo,
                                    ..*sync
                                }));
                            }
                            _ => {}
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // What an ICMP message said of an earlier packet.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(error) => return Err(error).context("listening to the victim"),
                }
            }
        }
        self.tokens.extend(tokens);
        while self.tokens.len() > MESSAGES {
            self.tokens.pop_front();
        }
        for cookie in heard {
            self.learn(cookie);
        }
        while self.theirs.len() > MESSAGES {
            self.theirs.pop_front();
        }
        let mut packets = self.take();
        let shown = shown.into_iter().map(|sync| bytes(&Packet::Sync(sync), 0));
        packets.extend(shown);
        Ok(packets)
    }

    fn learn(&mut self, cookie: u64) {
        if self.taken.iter().any(|&(taken, _)| taken == cookie) {
            return;
        }
        if !self.theirs.contains(&cookie) && self.rng.one_in(TAKEN) {
            self.taken.push((cookie, 0));
        } else {
            self.theirs.push_back(cookie);
        }
    }

    /// What a receiver says of the messages that are taken: tokens for all packets, then that all
    /// came.
    fn take(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for (cookie, said) in &mut self.taken {
            let cookie = Cookie(*cookie);
            for sequence in 0..4 * u16::from(*said == 0) {
                let token = Token {
                    cookie,
                    sequence,
                    timestamp: 0,
                    priority: 0,
                    grant: None,
                    worth: 1,
                };
                packets.push(bytes(&Packet::Token(token), 0));
            }
            if *said != 0 {
                let ack = Ack {
                    cookie,
                    received: TALK as u32,
                    window: TALK as u32,
                    allowance: 0,
                    last: true,
                    mark: turnstile_core::transport::rate::Mark::None,
                    notify: false,
                };
                packets.push(bytes(&Packet::Ack(ack), 0));
            }
            *said += 1;
        }
        self.taken.retain(|&(_, said)| said <= CONFIRMED);
        packets
    }
}

/// A socket of the transport's UDP port, for a program.
fn udp(local: IpAddr) -> Result<UdpSocket> {
    let socket =
        UdpSocket::bind((local, PORT)).with_context(|| format!("binding {local}:{PORT}"))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What must have been reached for the storm to be worth anything.
const REACHED: &[Counter] = &[
    Counter::InOpened,
    Counter::InDelivered,
    Counter::InAborted,
    Counter::OutOpened,
    Counter::OutDelivered,
    Counter::OutReset,
    Counter::SyncReceived,
    Counter::SyncRepeated,
    Counter::DataReceived,
    Counter::DataUnknown,
    Counter::DataDuplicate,
    Counter::DataBeyondLength,
    Counter::UnscheduledReceived,
    Counter::TokenValid,
    Counter::TokenUnknown,
    Counter::TokenAddress,
    Counter::TokenDuplicate,
    Counter::ResendReceived,
    Counter::FinReceived,
    Counter::AckReceived,
    Counter::SignalUnknown,
    Counter::SignalAddress,
    Counter::MalformedSize,
    Counter::MalformedVersion,
    Counter::MalformedType,
    Counter::MalformedFlags,
    Counter::MalformedPort,
    Counter::MalformedMss,
];

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(3).build()?;
    let [attacker, victim, friend] = &net.hosts[..] else {
        bail!("three hosts");
    };
    // The attacker pretends to be the friend. (The victim's answers go to the friend.)
    attacker
        .ns
        .ip(&format!("addr add {}/32 dev lo", friend.v4))?;
    let sockets = attacker.ns.enter(|| {
        Ok([
            udp(attacker.v4.into())?,
            udp(attacker.v6.into())?,
            udp(friend.v4.into())?,
        ])
    })?;
    let mut family = Generic::open(&victim.ns, FAMILY)?;
    slow(&mut family)?;
    let mut storm = Storm {
        sockets,
        rng: Rng::new(ctx.seed, ctx.name),
        mine: VecDeque::new(),
        theirs: VecDeque::new(),
        taken: Vec::new(),
        recent: VecDeque::new(),
        tokens: VecDeque::new(),
        begun: VecDeque::new(),
        sequence: 0,
    };
    let honest = Honest::start(
        (&friend.ns, friend.v4.into()),
        (&victim.ns, victim.v4.into()),
    )?;
    let over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        // The victim has messages for the attacker, and takes those that it sends.
        let talk = scope.spawn(|| talk(&over, victim, (attacker.v4, OTHER).into()));
        let sent = send(
            &mut storm,
            COUNT,
            victim.v4.into(),
            victim.v6.into(),
            || honest.failed() || talk.is_finished(),
        );
        over.store(true, Ordering::Relaxed);
        let talked = talk.join().expect("the talking thread");
        sent.and_then(|sent| talked.map(|(begun, come)| (sent, begun, come)))
    });
    let served = honest.finish();
    let (sent, begun, come) = sent?;
    let served = served?;
    ctx.note(format!(
        "{sent} packets; {begun} messages to the attacker, {come} of the attacker's; {} honest \
         ones, the longest took {:?}",
        served.messages, served.longest
    ));
    ensure!(sent == COUNT, "{sent} of {COUNT} packets were sent");
    ensure!(
        begun > 0 && come > 0,
        "{begun} messages to the attacker, {come} of the attacker's"
    );
    let stats = family.read(command::STATS_GET)?;
    let count = |counter: Counter| stats.number(stat::FIRST + counter as u16).unwrap_or(0);
    let missed: Vec<_> = REACHED
        .iter()
        .filter(|&&counter| count(counter) == 0)
        .map(|counter| counter.name())
        .collect();
    ensure!(missed.is_empty(), "the storm never reached {missed:?}");
    Ok(())
}

/// Sends so many packets, half of them over IPv6; fewer if `enough` says so.
fn send(
    storm: &mut Storm,
    count: u64,
    v4: IpAddr,
    v6: IpAddr,
    enough: impl Fn() -> bool,
) -> Result<u64> {
    for sent in 0..count {
        if sent % BURST == 0 {
            if enough() {
                return Ok(sent);
            }
            for packet in storm.listen()? {
                push(&storm.sockets[0], &packet, v4)?;
            }
            // Others have their turn; in virtual time, time goes on.
            std::thread::sleep(PAUSE);
        }
        let which = *storm.rng.pick(&[0, 0, 0, 1, 1, 2]);
        let to = if which == 1 { v6 } else { v4 };
        if storm.rng.one_in(TRAINS) {
            let (train, size) = storm.train();
            segments(&storm.sockets[which], size)?;
            push(&storm.sockets[which], &train, to)?;
            segments(&storm.sockets[which], 0)?;
        } else {
            let packet = storm.next();
            push(&storm.sockets[which], &packet, to)?;
        }
    }
    Ok(count)
}

/// What is sent next leaves as packets of so many bytes each, in a super-packet; 0: as one.
fn segments(socket: &UdpSocket, size: usize) -> Result<()> {
    setsockopt(socket, UdpGsoSegment, &i32::try_from(size)?)
        .with_context(|| format!("UDP_SEGMENT {size}"))
}

/// Sends a packet, if there is room.
fn push(socket: &UdpSocket, packet: &[u8], to: IpAddr) -> Result<()> {
    match socket.send_to(packet, SocketAddr::from((to, PORT))) {
        Ok(_) => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error).context("sending a packet"),
    }
}

/// Sends small messages to the attacker and reads what comes; returns how many began, and came.
fn talk(over: &AtomicBool, victim: &crate::topology::Host, to: SocketAddr) -> Result<(u64, u64)> {
    let open = || -> Result<Socket> {
        let socket = victim
            .ns
            .enter(|| Ok(Socket::bind(format!("[::]:{OTHER}"))?))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let mut socket = open()?;
    let mut buffer = vec![0; 1 << 16];
    let (mut begun, mut come) = (0, 0);
    for round in 1_u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        if round % REOPEN == 0 {
            drop(socket);
            socket = open()?;
        }
        // Whatever it says: what becomes of these messages is the attacker's doing.
        let sent = socket.send_to(&vec![3; TALK], to, &SendOptions::default());
        begun += u64::from(sent.is_ok());
        while let Ok(part) = socket.recv(&mut buffer) {
            come += u64::from(part.end_of_message);
        }
        while let Ok(Some(_)) = socket.completion() {}
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok((begun, come))
}
