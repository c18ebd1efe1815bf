// SPDX-License-Identifier: GPL-2.0
//! ICMP errors: who has seen a packet may end its message, and nobody else.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use socket2::{Domain, Protocol, Socket as RawIp, Type};
use turnstile_core::header::PORT as UDP_PORT;
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{
    addresses, configure, counters, delivered, hosts, nothing_more, read_once, receiver, refused,
    sender, PATIENCE,
};
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::topology::{Builder, Host};
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] =
    &[Case::new("transport/path/forged-icmp", forged).timeout_s(120)];

const TIMEOUT: Duration = Duration::from_millis(600);

/// Port, host and network unreachable, prohibited; too long: type, code, and what follows.
const V4: [(u8, u8, u32); 5] = [(3, 3, 0), (3, 1, 0), (3, 0, 0), (3, 13, 0), (3, 4, 600)];
const V6: [(u8, u8, u32); 5] = [(1, 4, 0), (1, 3, 0), (1, 0, 0), (1, 1, 0), (2, 0, 1280)];

/// The checksum of IP, UDP and ICMP.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|word| (u32::from(word[0]) << 8) | u32::from(*word.get(1).unwrap_or(&0)))
        .sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An ICMP error about an IP packet.
fn error(v6: bool, (kind, code, rest): (u8, u8, u32), quote: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(rest.to_be_bytes());
    bytes.extend(quote);
    if !v6 {
        // IPv6's is the kernel's part.
        let sum = sum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// The packet as somebody guesses it who knows addresses, ports and the format, not the cookie.
fn guess(v6: bool, from: &Host, to: &Host, port: u16, cookie: u64) -> Vec<u8> {
    let mut udp = Vec::new();
    udp.extend(port.to_be_bytes());
    udp.extend(UDP_PORT.to_be_bytes());
    udp.extend([0, 52, 0, 0, 1, 1, 0, 0]);
    udp.extend(cookie.to_be_bytes());
    udp.resize(52, 0);
    let mut ip = if v6 {
        let mut ip = vec![0x60, 0, 0, 0, 0, 52, 17, 64];
        ip.extend(from.v6.octets());
        ip.extend(to.v6.octets());
        ip
    } else {
        let mut ip = vec![0x45, 0, 0, 72, 0, 0, 0x40, 0, 64, 17, 0, 0];
        ip.extend(from.v4.octets());
        ip.extend(to.v4.octets());
        let sum = sum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip
    };
    ip.extend(udp);
    ip
}

struct Attacker {
    raw: RawIp,
    victim: SocketAddr,
    v6: bool,
}

impl Attacker {
    fn new(at: &Host, victim: &Host, v6: bool) -> Result<Self> {
        let (domain, protocol) = if v6 {
            (Domain::IPV6, Protocol::ICMPV6)
        } else {
            (Domain::IPV4, Protocol::ICMPV4)
        };
        let raw = at
            .ns
            .enter(|| RawIp::new(domain, Type::RAW, Some(protocol)).context("a raw socket"))?;
        let mut victim = addresses(victim)[usize::from(v6)];
        victim.set_port(0);
        Ok(Self { raw, victim, v6 })
    }

    fn say(&self, what: (u8, u8, u32), quote: &[u8]) -> Result<()> {
        let bytes = error(self.v6, what, quote);
        self.raw.send_to(&bytes, &self.victim.into())?;
        Ok(())
    }
}

/// The errno by which a message fails, and when.
fn failure(from: &Socket, began: Instant) -> Result<(std::io::Error, Duration)> {
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    let took = began.elapsed();
    Ok((done.outcome.err().context("reported as delivered")?, took))
}

/// The SYNC that a host sends now, from its IP header on.
fn sync_of(tap: &RawSocket) -> Result<Vec<u8>> {
    for _ in 0..100 {
        let Some(frame) = tap.receive(1000)? else {
            break;
        };
        let ip = frame.bytes.get(14..).unwrap_or_default();
        let udp = if ip.first().is_some_and(|first| first >> 4 == 4) {
            20
        } else {
            40
        };
        let is_ours = ip.get(udp + 2..udp + 4) == Some(&UDP_PORT.to_be_bytes()[..]);
        if frame.outgoing && is_ours {
            return Ok(ip.to_vec());
        }
    }
    anyhow::bail!("no SYNC was sent")
}

/// A host that is on no path says all that routers can say, with guessed quotes; then it says so
/// with the packet that it was shown.
fn forged(ctx: &mut Ctx) -> Result<()> {
    for v6 in [false, true] {
        let net = hosts(&Builder::bridged(3))?;
        let [here, there, other] = [&net.hosts[0], &net.hosts[1], &net.hosts[2]];
        configure(&here.ns, "timeout 600ms")?;
        let attacker = Attacker::new(other, here, v6)?;
        let address = addresses(there)[usize::from(v6)];
        let errors = if v6 { V6 } else { V4 };
        let guesses = |ctx: &mut Ctx| -> Result<u64> {
            let mut count = 0;
            for what in errors {
                for _ in 0..50 {
                    let port = ctx.rng.range(49_152..=65_535) as u16;
                    let cookie = ctx.rng.range(0..=u64::MAX);
                    attacker.say(what, &guess(v6, here, there, port, cookie))?;
                    count += 1;
                }
            }
            Ok(count)
        };
        // Nobody answers: the guesses end nothing, and are not what is told in the end.
        there.ns.run("nft add table inet hole")?;
        there
            .ns
            .run("nft add chain inet hole in { type filter hook input priority 0 ; }")?;
        there.ns.run(&format!(
            "nft add rule inet hole in udp dport {UDP_PORT} drop"
        ))?;
        let from = sender(&here.ns)?;
        let began = Instant::now();
        from.send_to(&content::content(1, 5000), address, &SendOptions::default())?;
        std::thread::sleep(Duration::from_millis(10));
        let before = counters(&here.ns)?;
        let said = guesses(ctx)?;
        std::thread::sleep(Duration::from_millis(50));
        let after = counters(&here.ns)?;
        let ignored = after["unreachable-ignored"] - before["unreachable-ignored"];
        ensure!(ignored == said, "{ignored} of {said} were ignored");
        ensure!(after["unreachable-received"] == 0, "a guess was believed");
        let (why, took) = failure(&from, began)?;
        refused("guesses", Err::<(), _>(why), libc::ETIMEDOUT)?;
        ensure!(took >= TIMEOUT, "it ended after {took:?}");
        // Somebody has seen the packet: at once.
        let tap = RawSocket::open(&here.ns, "eth0")?;
        let began = Instant::now();
        from.send_to(&content::content(2, 5000), address, &SendOptions::default())?;
        let quote = sync_of(&tap)?;
        attacker.say(errors[0], &quote)?;
        let (why, took) = failure(&from, began)?;
        refused("the right quote", Err::<(), _>(why), libc::ECONNREFUSED)?;
        ensure!(
            !clock::is_simulated() || took < Duration::from_millis(100),
            "only after {took:?}"
        );
        // And host unreachable in the end.
        let began = Instant::now();
        while tap.receive(1)?.is_some() {}
        from.send_to(&content::content(3, 5000), address, &SendOptions::default())?;
        attacker.say(errors[1], &sync_of(&tap)?)?;
        let (why, took) = failure(&from, began)?;
        refused("host unreachable", Err::<(), _>(why), libc::EHOSTUNREACH)?;
        ensure!(took >= TIMEOUT, "it ended after {took:?}");
        // A message under way: neither guesses nor the right quote end it.
        there.ns.run("nft delete table inet hole")?;
        let to = receiver(&there.ns)?;
        to.set_recv_buffer_size(64 << 10)?;
        let sent = content::content(4, 400_000);
        let from = sender(&here.ns)?;
        while tap.receive(1)?.is_some() {}
        from.send_to(&sent, address, &SendOptions::default())?;
        let quote = sync_of(&tap)?;
        let mut came = read_once(&to, 50_000, 0)?.data;
        guesses(ctx)?;
        for what in errors {
            attacker.say(what, &quote)?;
        }
        while came.len() < sent.len() {
            came.extend(read_once(&to, 50_000, 0)?.data);
        }
        super::support::same("the message", &came, &sent)?;
        delivered(&from, 1)?;
        nothing_more(&to)?;
        ctx.note(format!("IPv6 {v6}: {said} guesses, {ignored} ignored"));
    }
    Ok(())
}
