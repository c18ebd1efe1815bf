// SPDX-License-Identifier: GPL-2.0
//! Tokens that stand for several packets: to the port so many, to all others one packet.

use anyhow::{ensure, Result};
use turnstile_core::header;
use turnstile_core::port::uapi::{band_stat, class};

use super::{HTB, PORT};
use crate::cases::support::ledger::{check_class, settle};
use crate::harness::Ctx;
use crate::raw_netlink::{Stats, Tc};
use crate::topology::Builder;
use crate::traffic::frame::Frame;
use crate::traffic::RawSocket;

/// What each token stands for, and how many there are.
const WORTH: u64 = 8;
const FRAMES: u64 = 5;

/// Below a parent that counts the packets that its children give it. A kernel with
/// `CONFIG_DEBUG_NET` warns of one that says of itself that it is several, and has no segments.
pub(super) fn run(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let text = HTB
        .setup
        .replace("link 50mbit", "link 50mbit token-limit 100");
    ns.run_with("tc -batch -", &text)?;
    let mut tc = Tc::open(ns, "eth0")?;
    let before = settle(&mut tc, &[PORT])?;
    let socket = RawSocket::open(ns, "eth0")?;
    let payload = [&[0x12, 0, 0, (WORTH - 1) as u8][..], &[0; 14]].concat();
    let frame = Frame::udp4([10, 0, 0, 2].into(), 0, header::PORT, &payload).bytes();
    for _ in 0..FRAMES {
        socket.send(&frame)?;
    }
    let after = settle(&mut tc, &[PORT])?;
    let tokens = PORT | u32::from(class::TOKENS);
    check_class(after.class(tokens)?)?;
    let of_class = |which: &dyn Fn(&Stats) -> u64| -> Result<u64> {
        Ok(which(&after.class(tokens)?.stats) - which(&before.class(tokens)?.stats))
    };
    let offered = of_class(&|stats| stats.app(band_stat::OFFERED_PACKETS))?;
    let sent = of_class(&|stats| stats.packets)?;
    ensure!(
        (offered, sent) == (WORTH * FRAMES, WORTH * FRAMES),
        "{offered} tokens offered, {sent} sent, and not {}",
        WORTH * FRAMES
    );
    for handle in [PORT, 0x1_0000] {
        let packets = after.qdisc(handle)?.stats.packets - before.qdisc(handle)?.stats.packets;
        ensure!(
            packets == FRAMES,
            "{handle:#x} counts {packets} packets of {FRAMES}"
        );
    }
    Ok(())
}
