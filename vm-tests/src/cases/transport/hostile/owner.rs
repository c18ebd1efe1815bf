// SPDX-License-Identifier: GPL-2.0
//! A peer that is who it says: it begins messages with its own address, proves it for each, and
//! sends of each as little as keeps it from being given up, or nothing.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure, Context, Result};
use turnstile_core::header::PORT;
use turnstile_core::transport::wire::{self, Cookie, Data, Fin, Packet, Sync, Token, MAX_HEADER};
use turnstile_socket::{SendOptions, Socket};

use super::super::content;
use super::super::support::{
    addresses, configure, counters, hosts, receiver, sender, socket, PORT as SERVER,
};
use crate::harness::Ctx;
use crate::topology::{Builder, Host, Net};

/// It waits so long for a token of a message before it begins the next one.
const PATIENCE: Duration = Duration::from_millis(50);
/// Between two pieces of a message that it lets trickle.
const EVERY: Duration = Duration::from_millis(150);

/// One of its messages.
struct Mine {
    number: u64,
    port: u16,
    length: u32,
    sent: u32,
    last: Instant,
    token: Option<Token>,
}

/// The peer.
struct Owner {
    socket: UdpSocket,
    there: SocketAddr,
    next: u64,
    /// What it was given to show that it has its address.
    ticket: u64,
    all: HashMap<u64, Mine>,
    packets: u32,
}

fn cookie(number: u64) -> Cookie {
    Cookie((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Owner {
    fn new(host: &Host, there: SocketAddr) -> Result<Self> {
        let ip = match there.is_ipv4() {
            true => addresses(host)[0].ip(),
            false => addresses(host)[1].ip(),
        };
        let socket = host.ns.enter(|| Ok(UdpSocket::bind((ip, PORT))?))?;
        socket.set_read_timeout(Some(Duration::from_millis(10)))?;
        Ok(Self {
            socket,
            there: SocketAddr::new(there.ip(), PORT),
            next: 0,
            ticket: 0,
            all: HashMap::new(),
            packets: 0,
        })
    }

    fn push(&mut self, packet: &Packet, payload: u32) -> Result<()> {
        let mut header = [0; MAX_HEADER];
        let len = packet.write(&mut header);
        let mut bytes = header[..len].to_vec();
        bytes.resize(len + payload as usize, 0x5a);
        self.socket.send_to(&bytes, self.there)?;
        self.packets += 1;
        Ok(())
    }

    fn sync(&mut self, number: u64, port: u16, length: u32, echo: u64) -> Result<()> {
        let packet = Packet::Sync(Sync {
            cookie: cookie(number),
            source: 9,
            destination: port,
            length: Some(length),
            deadline: 0,
            coflow: 0,
            unscheduled: 0,
            mss: 1400,
            priority: None,
            probe: false,
            acked: false,
            ren: false,
            patience: 100,
            echo,
            paced: false,
        });
        self.push(&packet, 0)
    }

    /// Begins a message; `shown`: with its ticket, if it has one.
    fn begin(&mut self, port: u16, length: u32, shown: bool) -> Result<Cookie> {
        let number = self.next;
        self.next += 1;
        let it = Mine {
            number,
            port,
            length,
            sent: 0,
            last: Instant::now(),
            token: None,
        };
        self.all.insert(cookie(number).0, it);
        let ticket = if shown { self.ticket } else { 0 };
        self.sync(number, port, length, ticket)?;
        Ok(cookie(number))
    }

    /// Takes what comes for a moment. A message that was ended begins once more, with its ticket or
    /// without.
    fn listen(&mut self) -> Result<()> {
        let mut buffer = [0; 2048];
        let len = match self.socket.recv_from(&mut buffer) {
            Ok((len, _)) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Ok(packet) = wire::parse(&buffer[..len.min(160)], len) else {
            return Ok(());
        };
        let ended = match packet {
            Packet::Challenge(it) if it.ticket => {
                self.ticket = it.echo;
                false
            }
            Packet::Challenge(it) => {
                let known = self.all.get(&it.cookie.0);
                if let Some((number, port, length)) =
                    known.map(|it| (it.number, it.port, it.length))
                {
                    self.sync(number, port, length, it.echo)?;
                }
                false
            }
            Packet::Token(token) => {
                if let Some(it) = self.all.get_mut(&token.cookie.0) {
                    it.token = Some(token);
                }
                false
            }
            Packet::Reset(_) => true,
            Packet::Ack(ack) => ack.last,
            _ => false,
        };
        if ended {
            if let Some(it) = self.all.remove(&packet.cookie().0) {
                // Also as a stranger's, that has to prove its address again.
                self.begin(it.port, it.length, it.number % 2 == 0)?;
            }
        }
        Ok(())
    }

    /// Whether a message was asked for data.
    fn is_asked(&self, cookie: Cookie) -> bool {
        self.all.get(&cookie.0).is_some_and(|it| it.token.is_some())
    }

    /// Sends a little of each message that it was asked for: more than a sixteenth in 10 s.
    fn trickle(&mut self) -> Result<()> {
        let mut due = Vec::new();
        // Once: each reading is a call of the kernel's where time is simulated.
        let now = Instant::now();
        for it in self.all.values_mut() {
            let each = it.length / 533 + 2;
            let Some(token) = it.token.filter(|_| now - it.last > EVERY) else {
                continue;
            };
            if it.sent + each < it.length {
                it.last = now;
                due.push((token, it.sent, it.sent + each));
                it.sent += each;
            }
        }
        for (token, mut offset, end) in due {
            while offset < end {
                let len = (end - offset).min(1400);
                let data = Packet::Data(Data {
                    cookie: token.cookie,
                    token: token.sequence,
                    timestamp: token.timestamp,
                    offset,
                    len,
                    flags: 0,
                    more: 0,
                });
                self.push(&data, len)?;
                offset += len;
            }
        }
        Ok(())
    }

    /// Says of each message that all of it was sent.
    fn claim(&mut self) -> Result<()> {
        let all: Vec<_> = self.all.values().map(|it| (it.number, it.length)).collect();
        for (number, length) in all {
            let cookie = cookie(number);
            self.push(&Packet::Fin(Fin { cookie, length }), 0)?;
        }
        Ok(())
    }

    /// Fills a buffer with messages as long as find room, and goes on with them until it is over.
    fn fill(&mut self, most: u32, begun: &AtomicU32, over: &AtomicBool) -> Result<()> {
        let mut length = most;
        let mut tries = 0;
        let mut waits: Option<(Cookie, Instant)> = None;
        while !over.load(Ordering::Relaxed) {
            self.listen()?;
            self.trickle()?;
            match waits {
                Some((cookie, at)) if !self.is_asked(cookie) => {
                    if at.elapsed() < PATIENCE {
                        continue;
                    }
                    // There is no room for this one: it waits, and shorter ones follow.
                    length = (length * 7 / 10).max(1);
                    waits = None;
                }
                _ if tries < MESSAGES => {
                    // Some begin as a stranger's.
                    let cookie = self.begin(SERVER, length, tries % 3 != 0)?;
                    tries += 1;
                    begun.store(tries, Ordering::Relaxed);
                    waits = Some((cookie, Instant::now()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// How many it begins: more than find room.
const MESSAGES: u32 = 120;

/// The next message is reported as delivered, within this time.
fn told_within(from: &Socket, patience: Duration) -> Result<()> {
    let done = from.wait_completion(Some(patience))?;
    Ok(done.context("no message was reported")?.outcome?)
}

fn server(net: &Net, ipv6: bool) -> SocketAddr {
    addresses(&net.hosts[1])[usize::from(ipv6)]
}

/// Such a peer fills a buffer, and the application reads all that comes: short messages of another
/// one, in the same network, come at once.
pub(super) fn fills(ctx: &mut Ctx) -> Result<()> {
    // The default, which grows, and one that is set.
    for (ipv6, set) in [
        (false, Some(256 << 10)),
        (true, Some(256 << 10)),
        (false, None),
    ] {
        let net = hosts(&Builder::bridged(3))?;
        let to = receiver(&net.hosts[1].ns)?;
        if let Some(size) = set {
            to.set_recv_buffer_size(size)?;
        }
        let there = server(&net, ipv6);
        let mut peer = Owner::new(&net.hosts[2], there)?;
        let from = sender(&net.hosts[0].ns)?;
        // Both have their tickets.
        from.send_to(&[1; 100], there, &SendOptions::default())?;
        to.recv_message(1 << 20)?;
        told_within(&from, Duration::from_secs(5))?;
        let most = set.map_or(30 << 20, |size| size as u32 / 4);
        let (over, begun) = (AtomicBool::new(false), AtomicU32::new(0));
        let took = std::thread::scope(|scope| {
            let attack = scope.spawn(|| peer.fill(most, &begun, &over));
            let reads = scope.spawn(|| {
                to.set_read_timeout(Some(Duration::from_millis(200)))?;
                let mut came = 0_u32;
                while !over.load(Ordering::Relaxed) {
                    came += u32::from(to.recv_message(1 << 26).is_ok());
                }
                Ok::<_, anyhow::Error>(came)
            });
            let began = Instant::now();
            while begun.load(Ordering::Relaxed) < MESSAGES
                && began.elapsed() < Duration::from_secs(60)
            {
                std::thread::sleep(Duration::from_millis(100));
            }
            let took = honest(&from, there);
            over.store(true, Ordering::Relaxed);
            attack.join().map_err(|_| anyhow!("the peer panicked"))??;
            reads.join().map_err(|_| anyhow!("the reader panicked"))??;
            took
        });
        let sent = peer.packets;
        let counters = counters(&net.hosts[1].ns)?;
        let tokens = counters.get("token-sent").context("token-sent")?;
        ctx.note(format!(
            "SO_RCVBUF {set:?}, IPv6 {ipv6}: {took:?}; {tokens} tokens for {sent} packets"
        ));
        ensure!(begun.load(Ordering::Relaxed) == MESSAGES, "too slow");
        took.with_context(|| format!("SO_RCVBUF {set:?}, IPv6 {ipv6}, {sent} packets"))?;
    }
    Ok(())
}

/// Another one's short messages, one after the other: how long each takes.
fn honest(from: &Socket, there: SocketAddr) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    for len in [1_usize, 1000, 2500, 1, 1000, 2500] {
        let began = Instant::now();
        from.send_to(&vec![7; len], there, &SendOptions::default())?;
        told_within(from, Duration::from_secs(2)).with_context(|| format!("{len} bytes"))?;
        took.push(began.elapsed());
    }
    Ok(took)
}

/// Such a peer begins long messages to several sockets, says of each that it was sent, and sends
/// nothing: the buffers of others grow as far as before.
pub(super) fn grows(ctx: &mut Ctx) -> Result<()> {
    const LEN: usize = 6_500_000;
    // As long as each can be and make the buffer grow.
    const LENGTHS: [u32; 5] = [12_000_000, 12_000_000, 8_000_000, 5_000_000, 5_000_000];
    let net = hosts(&Builder::bridged(3))?;
    configure(&net.hosts[0].ns, "send-buffer 32mb")?;
    configure(&net.hosts[1].ns, "receive-memory 64mb")?;
    let held: Vec<_> = (SERVER + 1..)
        .zip(LENGTHS)
        .map(|(port, _)| socket(&net.hosts[1].ns, ("::", port)))
        .collect::<Result<_>>()?;
    let to = receiver(&net.hosts[1].ns)?;
    let there = server(&net, false);
    let mut peer = Owner::new(&net.hosts[2], there)?;
    for round in 0..3 {
        // One for each socket: of two one would wait, for which the other is soon given up.
        for (port, length) in (SERVER + 1..).zip(LENGTHS) {
            if round == 0 {
                peer.begin(port, length, false)?;
            }
        }
        let began = Instant::now();
        let mut claimed = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            peer.listen()?;
            if claimed.elapsed() > Duration::from_millis(500) {
                claimed = Instant::now();
                peer.claim()?;
            }
        }
        let sizes: Vec<_> = held
            .iter()
            .map(|it| it.recv_buffer_size().context("SO_RCVBUF"))
            .collect::<Result<_>>()?;
        // Nobody reads it yet. While it streams, others make room; the next one is whole.
        let from = sender(&net.hosts[0].ns)?;
        let mut whole = false;
        let began = Instant::now();
        let mut tries = 0;
        while !whole && began.elapsed() < Duration::from_secs(60) {
            let bytes = content::content(1, LEN);
            from.send_to(&bytes, there, &SendOptions::default())?;
            tries += 1;
            let end = Instant::now() + Duration::from_secs(13);
            while Instant::now() < end {
                peer.listen()?;
                if claimed.elapsed() > Duration::from_secs(5) {
                    claimed = Instant::now();
                    peer.claim()?;
                }
                if let Some(done) = from.completion()? {
                    done.outcome?;
                    whole = true;
                    break;
                }
            }
            if to.recv_message(1 << 24)?.data.len() != LEN {
                bail!("another one came");
            }
            if !whole {
                told_within(&from, Duration::from_secs(5))?;
            }
        }
        ctx.note(format!(
            "round {round}, {} packets without data: buffers of {sizes:?}; the message that came \
             whole was number {tries}, after {:?}",
            peer.packets,
            began.elapsed()
        ));
        ensure!(whole, "none came whole");
        // It takes all that there is, which it has to give back when another one needs it; from
        // then on it has nothing more.
        let expected = if round == 0 { 2 } else { 1 };
        ensure!(tries == expected, "round {round}: {tries}");
    }
    Ok(())
}
