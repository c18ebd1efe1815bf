// SPDX-License-Identifier: GPL-2.0
//! What was given room in a receive buffer finds memory, whatever pieces it or others come in.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_core::header::PORT as UDP_PORT;
use turnstile_core::transport::wire::{
    self, Ack, Cookie, Data, Fin, Packet, Sync, Token, MAX_HEADER,
};
use turnstile_socket::SendOptions;

use super::content;
use super::support::{
    addresses, configure, counters, delivered, hosts, nothing_more, pair, receiver, same, sender,
    POLICIES, PORT,
};
use crate::harness::{Case, Ctx, Need};
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/receiving/held-by-short-packets", short_packets).timeout_s(120),
    Case::new("transport/receiving/held-by-what-ends-early", ends_early).timeout_s(120),
    Case::new("transport/receiving/narrow-path", narrow_path).timeout_s(180),
    Case::new("transport/receiving/narrow-and-reordered", reordered)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(180),
];

/// What is asked for; the kernel doubles it.
const BUFFER: usize = 64 << 10;

fn push(socket: &UdpSocket, to: SocketAddr, packet: &Packet, payload: usize) -> Result<()> {
    let mut header = [0; MAX_HEADER];
    let len = packet.write(&mut header);
    let mut bytes = header[..len].to_vec();
    bytes.resize(len + payload, 0x5a);
    socket.send_to(&bytes, to)?;
    Ok(())
}

fn cookie(number: u64) -> Cookie {
    Cookie((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn sync(number: u64, length: Option<u32>, echo: u64) -> Packet {
    Packet::Sync(Sync {
        cookie: cookie(number),
        source: 9,
        destination: PORT,
        length,
        deadline: 0,
        coflow: 0,
        unscheduled: 0,
        mss: 1450,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        patience: 100,
        echo,
        paced: false,
    })
}

fn answer(token: &Token, offset: u32) -> Packet {
    Packet::Data(Data {
        cookie: token.cookie,
        token: token.sequence,
        timestamp: token.timestamp,
        offset,
        len: 1,
        flags: 0,
        more: 0,
    })
}

/// A peer that proves its address and answers each token with one byte, from its messages' ends on,
/// takes no more than the room of its own messages: an honest one comes at once.
fn short_packets(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: usize = 7;
    const LEN: u32 = 5000;
    const EACH: u32 = 200;
    let net = hosts(&Builder::bridged(3))?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let host = &net.hosts[2];
    let local = SocketAddr::from((host.v4, UDP_PORT));
    let peer = host.ns.enter(|| Ok(UdpSocket::bind(local)?))?;
    peer.set_read_timeout(Some(Duration::from_millis(20)))?;
    let there = SocketAddr::from((net.hosts[1].v4, UDP_PORT));
    for number in 0..MESSAGES {
        push(&peer, there, &sync(number as u64, Some(LEN), 0), 0)?;
    }
    let (mut at, mut sent) = ([LEN; MESSAGES], 0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        let mut buffer = [0; 2048];
        let Ok((len, _)) = peer.recv_from(&mut buffer) else {
            continue;
        };
        let mine = |it: Cookie| (0..MESSAGES).find(|number| cookie(*number as u64) == it);
        let token = match wire::parse(&buffer[..len.min(160)], len) {
            Ok(Packet::Token(token)) => token,
            Ok(Packet::Challenge(it)) if !it.ticket => {
                let number = mine(it.cookie).context("a CHALLENGE of another's")?;
                push(&peer, there, &sync(number as u64, Some(LEN), it.echo), 0)?;
                continue;
            }
            _ => continue,
        };
        let number = mine(token.cookie);
        let at = &mut at[number.context("a token of another's")?];
        if *at > LEN - EACH {
            *at -= 1;
            sent += 1;
            push(&peer, there, &answer(&token, *at), 1)?;
        }
    }
    ensure!(sent > 500, "only {sent} packets of a byte were asked for");
    let from = sender(&net.hosts[0].ns)?;
    let began = Instant::now();
    for number in 0..3 {
        let bytes = content::content(number, 5000);
        from.send_to(&bytes, addresses(&net.hosts[1])[0], &SendOptions::default())?;
        let message = to.recv_message(1 << 20)?;
        same("an honest message", &message.data, &bytes)?;
    }
    delivered(&from, 3)?;
    let took = began.elapsed();
    ctx.note(format!(
        "{sent} packets of a byte; three messages in {took:?}"
    ));
    ensure!(took < Duration::from_secs(1), "it took {took:?}");
    Ok(())
}

/// Messages of untold length that end after two packets of a byte take more memory than their
/// length stands for: an honest one, that is given room beside them, finds memory all the same.
fn ends_early(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: u64 = 100;
    let net = hosts(&Builder::bridged(3))?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let host = &net.hosts[2];
    let local = SocketAddr::from((host.v4, UDP_PORT));
    let peer = host.ns.enter(|| Ok(UdpSocket::bind(local)?))?;
    peer.set_read_timeout(Some(Duration::from_millis(20)))?;
    let there = SocketAddr::from((net.hosts[1].v4, UDP_PORT));
    let (mut ended, mut ticket) = (0, 0);
    for number in 0..MESSAGES {
        push(&peer, there, &sync(number, None, ticket), 0)?;
        let (began, mut at) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_millis(100) {
            let mut buffer = [0; 2048];
            let Ok((len, _)) = peer.recv_from(&mut buffer) else {
                continue;
            };
            match wire::parse(&buffer[..len.min(160)], len) {
                Ok(Packet::Challenge(it)) if it.ticket => ticket = it.echo,
                Ok(Packet::Challenge(it)) if it.cookie == cookie(number) => {
                    push(&peer, there, &sync(number, None, it.echo), 0)?;
                }
                Ok(Packet::Token(token)) if token.cookie == cookie(number) => {
                    push(&peer, there, &answer(&token, at), 1)?;
                    at += 1;
                    if at == 2 {
                        let (cookie, length) = (token.cookie, at);
                        push(&peer, there, &Packet::Fin(Fin { cookie, length }), 0)?;
                    }
                }
                Ok(Packet::Ack(ack)) if ack.last && ack.cookie == cookie(number) => {
                    push(&peer, there, &Packet::Ack(Ack { ..ack }), 0)?;
                    ended += 1;
                    break;
                }
                _ => {}
            }
        }
    }
    // As many as find room, by what they take of memory: 10 to 14, by the size of their buffers.
    ensure!(ended > 7, "only {ended} messages ended");
    let from = sender(&net.hosts[0].ns)?;
    let mut came = 0;
    for number in 0..3 {
        let bytes = content::content(number, 1000 + 1000 * number as usize);
        from.send_to(&bytes, addresses(&net.hosts[1])[0], &SendOptions::default())?;
    }
    std::thread::sleep(Duration::from_millis(300));
    let refused = counters(&net.hosts[1].ns)?["data-no-memory"];
    // All is read, and what had no room has it then.
    while came < ended + 3 {
        let message = to.recv_message(1 << 20)?;
        if message.data.len() > 2 {
            let number = (message.data.len() / 1000 - 1) as u64;
            same(
                "a message",
                &message.data,
                &content::content(number, message.data.len()),
            )?;
        }
        came += 1;
    }
    delivered(&from, 3)?;
    ctx.note(format!(
        "{ended} messages ended early; memory was refused {refused} times"
    ));
    ensure!(refused == 0, "memory was refused {refused} times");
    Ok(())
}

/// Packets of 526 bytes each take 2.6 times that in memory. All messages that there is room for
/// come while nobody reads, by each policy, and then are read.
fn narrow_path(ctx: &mut Ctx) -> Result<()> {
    // As long as six of them find room, beside an eighth for strangers and one for shorter ones.
    const LEN: usize = 7000;
    const COUNT: u64 = 6;
    for policy in POLICIES {
        let net = pair()?;
        for host in &net.hosts {
            configure(&host.ns, &format!("policy {policy}"))?;
            host.ns.ip("link set eth0 mtu 576")?;
        }
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(BUFFER)?;
        let there = addresses(&net.hosts[1])[0];
        let from = sender(&net.hosts[0].ns)?;
        for number in 0..COUNT {
            from.send_to(
                &content::content(number, LEN),
                there,
                &SendOptions::default(),
            )?;
        }
        delivered(&from, COUNT as u32).with_context(|| policy)?;
        let refused = counters(&net.hosts[1].ns)?["data-no-memory"];
        ctx.note(format!("{policy}: memory was refused {refused} times"));
        ensure!(refused == 0, "{policy}: memory was refused {refused} times");
        let numbers = (0..COUNT).map(|number| (number, LEN));
        let mut ledger = content::Ledger::of(numbers);
        while ledger.missing() > 0 {
            ledger.arrived(&to.recv_message(1 << 20)?.data)?;
        }
        ledger.complete()?;
        nothing_more(&to)?;
    }
    Ok(())
}

/// The same in whatever order they come: each message finds the memory that it was given room for,
/// and none is sent again and again.
fn reordered(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 300;
    // The least MTUs.
    for (ipv4, mtu) in [(true, 576), (false, 1280)] {
        let net = pair()?;
        for host in &net.hosts {
            configure(&host.ns, "timeout 20s")?;
            host.ns.ip(&format!("link set eth0 mtu {mtu}"))?;
        }
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        // All are under way at once, and then come in any order.
        let netem = |words: &str| net.hosts[0].ns.tc(words).map(drop);
        netem("qdisc add dev eth0 root netem limit 1000000 delay 5ms 5ms loss 20%")?;
        let there = addresses(&net.hosts[1])[usize::from(!ipv4)];
        let mut lengths = Vec::new();
        for number in 0..COUNT {
            let len = ctx.rng.range(1500..=8500) as usize;
            let bytes = content::content(number, len);
            from.send_to(&bytes, there, &SendOptions::default())?;
            lengths.push((number, len));
        }
        delivered(&from, COUNT as u32)?;
        let counters = counters(&net.hosts[1].ns)?;
        let (came, refused) = (counters["data-received"], counters["data-no-memory"]);
        ctx.note(format!(
            "MTU {mtu}: memory was refused {refused} of {came} times"
        ));
        ensure!(
            refused <= came / 100,
            "MTU {mtu}: memory was refused {refused} of {came} times"
        );
        let mut ledger = content::Ledger::of(lengths);
        while ledger.missing() > 0 {
            ledger.arrived(&to.recv_message(1 << 20)?.data)?;
        }
        ledger.complete()?;
        nothing_more(&to)?;
    }
    Ok(())
}
