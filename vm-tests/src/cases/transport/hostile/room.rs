// SPDX-License-Identifier: GPL-2.0
//! SYNCs in others' names ask for all of a receive buffer, over and over: those who are what they
//! say are served as if there were none, and the buffer does not grow.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure, Context, Result};
use turnstile_core::header::PORT;
use turnstile_core::transport::wire::{Cookie, Packet, Sync, MAX_HEADER, MAX_LENGTH};
use turnstile_socket::{SendOptions, Socket};

use super::super::support::counters;
use super::{HONEST, OTHER};
use crate::harness::Ctx;
use crate::topology::Builder;

/// Messages of each round: many times as many as may be given room before another one's turn.
const MESSAGES: u32 = 400;
/// Between forged SYNCs.
const EVERY: Duration = Duration::from_millis(50);

fn sync(number: u64, length: Option<u32>) -> Packet {
    Packet::Sync(Sync {
        cookie: Cookie((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        source: 9,
        destination: OTHER,
        length,
        deadline: 0,
        coflow: 0,
        unscheduled: 0,
        mss: 1450,
        patience: 100,
        echo: 0,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    })
}

fn push(socket: &UdpSocket, packet: &Packet) {
    let mut header = [0; MAX_HEADER];
    let len = packet.write(&mut header);
    // Nobody answers for the name, which the kernel tells of as ICMP.
    let _ = socket.send(&header[..len]);
}

/// Sends messages and reads them, one after the other; how long that takes.
fn round(from: &Socket, to: &Socket, there: SocketAddr, bytes: &[u8]) -> Result<Duration> {
    let began = Instant::now();
    for number in 0..MESSAGES {
        from.send_to(bytes, there, &SendOptions::default())?;
        let got = to.recv_message(1 << 20);
        let got = got.with_context(|| format!("message {number}"))?;
        ensure!(got.data == bytes, "{} bytes came", got.data.len());
    }
    Ok(began.elapsed())
}

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(3).build()?;
    let [attacker, victim, friend] = &net.hosts[..] else {
        bail!("three hosts");
    };
    let forge = attacker.ns.enter(|| {
        let socket = UdpSocket::bind((attacker.v4, PORT)).context("the transport's UDP port")?;
        socket.connect((victim.v4, PORT))?;
        Ok(socket)
    })?;
    let at = |ns: &crate::netns::Netns, port| {
        let socket = ns.enter(|| Ok(Socket::bind(format!("0.0.0.0:{port}"))?))?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok::<_, anyhow::Error>(socket)
    };
    let there = SocketAddr::from((victim.v4, OTHER));
    let client = at(&friend.ns, HONEST)?;
    let mut forged = 0;
    // Half of what is set is for bytes of messages; of that a message may take half at once.
    for (buffer, len, streams) in [
        (512 << 10, 20_000, false),
        (512 << 10, 120_000, false),
        (512 << 10, 20_000, true),
        (64 << 10, 500, false),
        (64 << 10, 4000, false),
    ] {
        let server = at(&victim.ns, OTHER)?;
        server.set_recv_buffer_size(buffer / 2)?;
        let slow = at(&friend.ns, HONEST + 2)?;
        let mut stream = slow.begin(there, &SendOptions::default())?;
        if streams {
            stream.write_all(b"what streams")?;
            std::thread::sleep(EVERY);
        }
        let bytes = vec![0x5a; len];
        let alone = round(&client, &server, there, &bytes)?;
        for length in [Some(buffer as u32 / 4), Some(buffer as u32 / 11), None] {
            let (over, first) = (AtomicBool::new(false), forged);
            let (took, sent) = std::thread::scope(|scope| {
                let flood = scope.spawn(|| {
                    let mut sent = 0;
                    while !over.load(Ordering::Relaxed) {
                        // Two at once: the one is to wait for the other.
                        for _ in 0..2 {
                            push(&forge, &sync(first + sent, length));
                            sent += 1;
                        }
                        std::thread::sleep(EVERY);
                    }
                    sent
                });
                // A first round, so that they are there.
                std::thread::sleep(2 * EVERY);
                let took = round(&client, &server, there, &bytes);
                over.store(true, Ordering::Relaxed);
                let sent = flood.join().map_err(|_| anyhow!("the flood panicked"))?;
                Ok::<_, anyhow::Error>((took?, sent))
            })?;
            forged += sent;
            ctx.note(format!(
                "{buffer} B of buffer, {MESSAGES} messages of {len} B, one that streams: \
                 {streams}: {alone:?} alone, {took:?} beside forged SYNCs of {length:?}"
            ));
            ensure!(
                took < 2 * alone,
                "{buffer} B of buffer, messages of {len} B, one that streams: {streams}: {alone:?} \
                 alone, {took:?} beside forged SYNCs of {length:?}"
            );
        }
    }
    let came = counters(&victim.ns)?["sync-received"];
    ensure!(came > forged, "{came} SYNCs came of {forged} forged ones");

    // Nor does a buffer grow for them, that nobody has set.
    let server = at(&victim.ns, OTHER)?;
    let first = server.recv_buffer_size()?;
    for length in [first as u32 / 2, first as u32, MAX_LENGTH] {
        push(&forge, &sync(forged, Some(length)));
        forged += 1;
        std::thread::sleep(EVERY);
        let now = server.recv_buffer_size()?;
        ensure!(now == first, "{first} B grew to {now} B for {length} B");
    }
    Ok(())
}
