// SPDX-License-Identifier: GPL-2.0
//! A switch between fast links and a slow one, under bursts of packets of all lengths: nothing is
//! lost with what `headroom auto` works out, and some is with a frame less.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::class;

use crate::harness::Ctx;
use crate::netns::Netns;
use crate::rng::Rng;
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::{Flow, Packet, Sent, Sink, Source};

/// The slowest of the fast links, bit/s.
const GBIT: u64 = 1_000_000_000;
/// 200 m of cable.
const DELAY: u64 = 1000;
/// Bytes of a full frame on the wire, which the headroom is counted in.
const FRAME: u64 = 1542;

/// A switch with two hosts on fast links and one on a slow link. All obey pauses, and the switch
/// sends them.
struct Net {
    fabric: Fabric,
    /// bit/s of the slow link: three tenths of the others.
    slow: u64,
}

/// A host's options, and a switch port's.
const OBEYS: &str = "pfc data 0 data-limit 64mb jitter 0";
const PAUSES: &str = "unscheduled off jitter 0 pfc data 0";

impl Net {
    fn new(fast: u64, options: &str) -> Result<Self> {
        let slow = fast / 10 * 3;
        let mut plan = Plan::new();
        let switch = plan.switch("s1");
        for rate in [fast, fast, slow] {
            let host = plan.host();
            plan.link(host, switch, Link::new(rate, DELAY));
        }
        let net = Self {
            fabric: plan.build()?,
            slow,
        };
        for host in ["h1", "h2", "h3"] {
            Tool::Tc.port(&net.fabric.node(host)?.ns, "change", "s1", OBEYS)?;
            let options = format!("{PAUSES} {options}");
            Tool::Turnstile.port(net.switch()?, "change", host, &options)?;
        }
        Ok(net)
    }

    fn switch(&self) -> Result<&Netns> {
        Ok(&self.fabric.node("s1")?.ns)
    }

    /// The data class of one of the switch's ports.
    fn data(&self, dev: &str) -> Result<Counters> {
        let mut classes = stats::classes(self.switch()?, dev)?;
        let data = classes.remove(&format!("1:{}", class::DATA));
        let data = data.context("no data class")?;
        data.check()?;
        Ok(data)
    }

    /// The first two send to the third, in bursts of packets of all lengths, and full frames go the
    /// other way, which pauses have to wait for. How many packets were sent and how many came.
    fn load(&self, rng: &mut Rng, packets: u64) -> Result<(u64, u64)> {
        let sinks = (0..3).map(|host| Sink::start(self.fabric.host(host)));
        let sinks = sinks.collect::<Result<Vec<_>>>()?;
        let start = crate::clock::monotonic() + 10_000_000;
        let third = self.fabric.address(2);
        let mut sources = Vec::new();
        for host in 0..2 {
            let (mut flows, mut at) = (Vec::new(), 0);
            for burst in 0..packets / 200 {
                let payload = match rng.range(0..=2) {
                    0 => 1472,
                    1 => rng.range(18..=1472) as usize,
                    _ => rng.range(1200..=1472) as usize,
                };
                let flow = Flow::new(burst as u16, Packet::Data, third).payload(payload);
                let flow = flow.burst(100);
                let wire = flow.wire_length() as u64 * 100 * 8;
                flows.push(flow.window(Duration::from_nanos(at), Duration::MAX));
                // As much as the slow link takes of one of two.
                at += wire * 1_000_000_000 / (self.slow / 2)
                    + rng.range(0..=20_000_000_000_000 / self.slow);
            }
            sources.push(Source::start(self.fabric.host(host), flows, start));
        }
        let back = (0..2).map(|host| {
            let flow = Flow::new(0, Packet::Data, self.fabric.address(host));
            flow.bits_per_s(self.slow as f64 * 0.499)
        });
        let back = Source::start(self.fabric.host(2), back.collect(), start);
        let mut sent = 0;
        let sum = |all: Vec<Sent>| all.iter().map(|flow| flow.packets).sum::<u64>();
        for source in sources {
            sent += sum(source.wait()?);
        }
        std::thread::sleep(Duration::from_millis(200));
        sent += sum(back.stop()?);
        std::thread::sleep(Duration::from_millis(200));
        let mut came = 0;
        for sink in sinks {
            came += sink.finish()?.values().map(|one| one.packets).sum::<u64>();
        }
        Ok((sent, came))
    }
}

/// [`lossless`] at so many Gbit/s, of 10^7 packets.
pub(super) fn long(ctx: &mut Ctx, gbit: u64) -> Result<()> {
    lossless(ctx, &[gbit], 10_000_000)
}

/// Nothing is dropped, whatever comes, with what `auto` works out, at each of these rates in
/// Gbit/s: of so many packets, or more. All is given back, and all pauses end.
pub(super) fn lossless(ctx: &mut Ctx, gbits: &[u64], packets: u64) -> Result<()> {
    for fast in gbits.iter().map(|gbit| gbit * GBIT) {
        let net = Net::new(fast, "xoff auto delay 1us")?;
        let (mut sent, mut came) = (0, 0);
        while sent < packets {
            let load = net.load(&mut ctx.rng, 100_000)?;
            (sent, came) = (sent + load.0, came + load.1);
            ctx.note(format!("{} Gbit/s: {sent} packets", fast / GBIT));
            ensure!(sent == came, "{came} of {sent} packets came");
        }
        let mut asked = 0;
        for dev in ["h1", "h2", "h3"] {
            let data = net.data(dev)?;
            ctx.note(format!("{dev}: {}", data.json));
            let drops = data.get("pfc-no-headroom") + data.drops_by_cause();
            ensure!(drops == 0, "{}", data.json);
            ensure!(data.get("pfc-held") == 0, "{}", data.json);
            let ended = data.get("pfc-ended");
            ensure!(data.get("pfc-asked") == ended, "{}", data.json);
            asked += ended;
            stats::check_port(net.switch()?, dev, "1:")?;
        }
        ensure!(asked > 100, "{asked} pauses");
    }
    Ok(())
}

/// With a frame less of headroom than `auto` has, some are dropped. At 1 Gbit/s, where the standard
/// lets the other end take 128 bytes: at higher rates it is more than a frame, and ports that obey
/// in no time leave that unused.
pub(super) fn tight(ctx: &mut Ctx) -> Result<()> {
    let net = Net::new(GBIT, "xoff auto delay 1us")?;
    let auto = net.data("h1")?.get("pfc-headroom");
    let less = format!("pfc headroom {}b", auto - FRAME);
    for dev in ["h1", "h2", "h3"] {
        Tool::Tc.port(net.switch()?, "change", dev, &less)?;
    }
    let (sent, came) = net.load(&mut ctx.rng, 100_000)?;
    let data = net.data("h1")?;
    ctx.note(format!(
        "{auto} bytes are auto: {came} of {sent} came; {}",
        data.json
    ));
    ensure!(data.get("pfc-headroom") == auto - FRAME, "{}", data.json);
    ensure!(
        data.get("pfc-no-headroom") > 0 && came < sent,
        "{}",
        data.json
    );
    Ok(())
}
