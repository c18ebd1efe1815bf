// SPDX-License-Identifier: GPL-2.0
//! The network of TCD's experiments, after what sections 5.2.3 and 5.2.4 of the text say of figure
//! 2: a port that is overloaded, and one before it that only passes its pauses on.
//!
//! ```text
//! S0, S1 ── t0 ──┐                   ┌── R0
//! B0..B3 ────── l0 ──(P2)── t2 ──────┤
//!                           │        └──(P3)── R1
//!                        A0..A14
//! ```
//!
//! The A burst to R1, and S1 sends to it as well: the port from t2 to R1, P3, is overloaded. What
//! S1 has sent waits there, t2 pauses the link from l0, and P2 holds up whatever goes to R0, too.

use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use serde_json::Value;
use turnstile_core::pfc::frame::{Frame, ETHERTYPE};

use super::{Carrier, Queues, LEAD};
use crate::clock;
use crate::cmd::run_here;
use crate::netns::Netns;
use crate::pcap;
use crate::raw_netlink::{Stats, Tc};
use crate::recorder::{passages, Passage, Recorder};
use crate::topology::{Fabric, Link, NodeId, Plan};
use crate::traffic::messages::{places, Done, Message, Messages};
use crate::traffic::{Flow, Source};

/// Propagation delay of each link, ns.
pub const DELAY: u64 = 1_000;
/// No more channels than these are opened between two hosts.
const CHANNELS: usize = 24;
/// So often a run says that time passes: long flows take minutes.
const TELLS: Duration = Duration::from_millis(20);
/// How many hosts burst.
pub const BURSTING: usize = 15;
/// How many are on the switch before the one in front of the receivers.
pub const BESIDE: usize = 4;

/// Hosts, by their index.
pub const S0: usize = 0;
/// See [`S0`].
pub const S1: usize = 1;
/// The first of [`BESIDE`].
pub const B0: usize = 2;
/// See [`S0`].
pub const R0: usize = B0 + BESIDE;
/// See [`S0`].
pub const R1: usize = R0 + 1;
/// The first of [`BURSTING`].
pub const A0: usize = R1 + 1;

/// The first of those that [`plan_with`] adds.
pub const MORE0: usize = A0 + BURSTING;

/// The port that is a victim, by its switch and device.
pub const P2: (&str, &str) = ("l0", "t2");
/// The port that is overloaded.
pub const P3: (&str, &str) = ("t2", "h8");

/// The network, of links of so many bit/s but for those of S0 and S1, and a buffer of so many bytes
/// in each port.
pub fn plan(rate: u64, of_s: u64, buffer: u32) -> Plan {
    plan_with(rate, of_s, (0, rate), buffer)
}

/// [`plan`] with so many more hosts on t0, from [`MORE0`] on, that have links of so many bit/s.
pub fn plan_with(rate: u64, of_s: u64, (more, of_more): (usize, u64), buffer: u32) -> Plan {
    let link = Link::new(rate, DELAY).buffer(buffer);
    let mut plan = Plan::new();
    let [t0, l0, t2] = ["t0", "l0", "t2"].map(|name| plan.switch(name));
    plan.link(t0, l0, link);
    plan.link(l0, t2, link);
    let mut hosts = |at: NodeId, count, link: Link| {
        for _ in 0..count {
            let host = plan.host();
            plan.link(host, at, link);
        }
    };
    hosts(t0, 2, Link { rate: of_s, ..link });
    hosts(l0, BESIDE, link);
    hosts(t2, 2 + BURSTING, link);
    let of_more = Link {
        rate: of_more,
        ..link
    };
    hosts(t0, more, of_more);
    plan
}

/// Bytes that a switch holds of what came in by a device until it asks for a pause.
pub const XOFF: u64 = 40_000;
/// The marking threshold, bytes.
pub const THRESHOLD: u64 = 20_000;
/// What the links of S0 and S1 carry, as a part of the others, percent: both together less than one
/// of these, whatever has waited there. So no port on the way of these two is ever offered more
/// than it carries but P3.
pub const PERCENT: u64 = 45;
/// What a port may hold, bytes: hosts hold what they are paused for.
pub const BUFFER: u32 = 60_000_000;

/// What ports do with ECN's field of what leaves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Nothing.
    None,
    /// CE by the queue's length alone.
    Ecn,
    /// TCD's CE and UE.
    Tcd,
}

/// All ports of the network: lossless, with these marks.
pub fn queues(marks: Marks) -> Queues {
    let tcd = match marks {
        Marks::None => String::new(),
        Marks::Ecn => format!(" tcd threshold {THRESHOLD}b max-on off"),
        Marks::Tcd => format!(" tcd threshold {THRESHOLD}b max-on auto"),
    };
    let pfc = format!("pfc data 0 xoff {XOFF}b delay {DELAY}ns");
    Queues::Lossless(format!("unscheduled off {pfc}{tcd}"))
}

/// The result of [`run`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Every message.
    pub done: Vec<Done>,
    /// What passed some ports, in the order in which they were named.
    pub passed: Vec<Vec<Passage>>,
    /// The counters of these ports' data classes.
    pub counted: Vec<Stats>,
    /// What was asked of hosts, by host and time.
    pub told: Vec<Vec<Told>>,
    /// Wall clock at the start, ns.
    pub began: u64,
    /// Until the last message ended or was given up, ns.
    pub lasted: u64,
    /// Packets that any port dropped.
    pub dropped: u64,
}

/// What a host says of its messages.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// ns after the start.
    pub at: u64,
    /// Of the fastest that it sends, bytes/s.
    pub rate: u64,
    /// Bytes of those that it receives, by their sender's address.
    pub came: BTreeMap<String, u64>,
    /// Notifications of marks that have come, of any kind.
    pub notified: u64,
    /// How often a rate was held because of UE.
    pub held: u64,
}

/// Asks a host at these times, ns after the monotonic clock shows `start`.
fn ask(host: &Netns, start: u64, times: &[u64]) -> JoinHandle<Result<Vec<Told>>> {
    let times = times.to_vec();
    host.spawn(move || {
        let one = |at: u64| {
            clock::sleep_until(start + at);
            let flows: Vec<Value> = serde_json::from_str(&output("turnstile -j flows")?)?;
            let stats: Value = serde_json::from_str(&output("turnstile -j stats --all")?)?;
            let counted = |name: &str| stats[name].as_u64().unwrap_or(0);
            let (to, from): (Vec<_>, Vec<_>) =
                flows.iter().partition(|flow| flow["direction"] == "out");
            let rates = to.iter().filter_map(|flow| flow["rate"].as_u64());
            let came = from.iter().filter_map(|flow| {
                let peer = flow["peer"].as_str()?;
                let address = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
                Some((address.to_owned(), flow["received"].as_u64()?))
            });
            Ok(Told {
                at,
                rate: rates.max().unwrap_or(0),
                came: came.collect(),
                notified: counted("notify-received"),
                held: counted("rate-held"),
            })
        };
        times.into_iter().map(one).collect()
    })
}

fn output(line: &str) -> Result<String> {
    run_here(line, "")?.success()
}

/// Sends messages over a network of [`plan`], with queues that were [applied](Queues::apply), and
/// records what passes some ports of switches. Those that are under way after `span` are given up.
///
/// # Errors
/// When a transport cannot be configured, or fails.
pub fn run(
    fabric: &Fabric,
    (marks, carrier): (Marks, &Carrier),
    messages: &[Message],
    ports: &[(&str, &str)],
    span: Duration,
) -> Result<Outcome> {
    let beside = Beside::default();
    run_beside(fabric, (marks, carrier), messages, ports, beside, span)
}

/// What else happens while messages are sent.
#[derive(Clone, Debug, Default)]
pub struct Beside<'a> {
    /// These hosts are asked at these times, ns after the start.
    pub asked: (&'a [usize], &'a [u64]),
    /// What hosts send that heeds nothing.
    pub flows: Vec<(usize, Vec<Flow>)>,
}

/// [`run`], with something beside.
///
/// # Errors
/// As [`run`].
pub fn run_beside(
    fabric: &Fabric,
    (marks, carrier): (Marks, &Carrier),
    messages: &[Message],
    ports: &[(&str, &str)],
    beside: Beside<'_>,
    span: Duration,
) -> Result<Outcome> {
    let transport = carrier.configure(fabric)?;
    if let Carrier::Turnstile(_) = carrier {
        tell_links(fabric)?;
    }
    queues(marks).apply(fabric)?;
    // As many channels as there are ever messages between two hosts, so that none waits for one.
    let mut each: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for message in messages {
        *each.entry((message.from, message.to)).or_default() += 1;
    }
    let pairs: Vec<_> = each.keys().copied().collect();
    let channels = each.values().copied().max().unwrap_or(0).min(CHANNELS);
    let places = places(fabric);
    let mut sockets = Messages::open(transport, &places, &pairs, channels)?;
    // Counters begin at 0, and what opened the channels is forgotten.
    queues(marks).apply(fabric)?;
    let mut nodes: Vec<&str> = ports.iter().map(|(node, _)| *node).collect();
    nodes.dedup();
    let recorders = nodes
        .iter()
        .map(|node| Recorder::start(&fabric.node(node)?.ns))
        .collect::<Result<Vec<_>>>()?;
    let start = clock::monotonic() + LEAD;
    let began = clock::realtime() + (start - clock::monotonic());
    let (hosts, times) = beside.asked;
    let asked = hosts
        .iter()
        .map(|host| ask(fabric.host(*host), start, times));
    let asked: Vec<_> = asked.collect();
    let sources = beside.flows.into_iter();
    let sources = sources.map(|(host, flows)| Source::start(fabric.host(host), flows, start));
    let sources: Vec<_> = sources.collect();
    sockets.tell_every(TELLS);
    let done = sockets.run(messages, start, span)?;
    let lasted = clock::monotonic().saturating_sub(start);
    for source in sources {
        source.stop()?;
    }
    let captured = recorders
        .into_iter()
        .map(Recorder::finish)
        .collect::<Result<Vec<_>>>()?;
    let passed = ports.iter().map(|(node, dev)| {
        let index = nodes.iter().position(|it| it == node);
        let captured = &captured[index.context("every node is recorded")?];
        passages(captured, dev, &fabric.hosts_behind(node, dev)?)
    });
    Ok(Outcome {
        done,
        passed: passed.collect::<Result<_>>()?,
        counted: ports
            .iter()
            .map(|(node, dev)| data_stats(fabric, node, dev))
            .collect::<Result<_>>()?,
        told: asked
            .into_iter()
            .map(|asked| asked.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect::<Result<_>>()?,
        began,
        lasted,
        dropped: dropped(fabric)?,
    })
}

/// Tells each host what its link carries: the devices say 10 Gbit/s whatever that is.
fn tell_links(fabric: &Fabric) -> Result<()> {
    for port in fabric.ports().iter().filter(|port| port.of_host) {
        let words = format!("turnstile transport set link {}bit", port.link.rate);
        fabric.node(&port.node)?.ns.run(&words)?;
    }
    Ok(())
}

/// Packets that data classes of all ports have dropped.
///
/// # Errors
/// When the counters cannot be read.
pub fn dropped(fabric: &Fabric) -> Result<u64> {
    let mut sum = 0;
    for port in fabric.ports() {
        sum += u64::from(data_stats(fabric, &port.node, &port.dev)?.drops);
    }
    Ok(sum)
}

/// The handle of every port, `1:`.
const PORT: u32 = 1 << 16;

/// The counters of a port.
///
/// # Errors
/// When they cannot be read.
pub fn port_stats(fabric: &Fabric, (node, dev): (&str, &str)) -> Result<Stats> {
    Ok(Tc::open(&fabric.node(node)?.ns, dev)?.get(PORT)?.stats)
}

/// The counters of a port's data class.
///
/// # Errors
/// When they cannot be read.
pub fn data_stats(fabric: &Fabric, node: &str, dev: &str) -> Result<Stats> {
    const DATA: u32 = 2;
    let classes = Tc::open(&fabric.node(node)?.ns, dev)?.classes_of(PORT)?;
    let data = classes.into_iter().find(|it| it.handle & 0xffff == DATA);
    Ok(data.context("a port without a data class")?.stats)
}

/// When a device was told to pause priority 0 (`true`), and to go on.
pub fn pauses<'a>(captured: impl Iterator<Item = &'a pcap::Packet>) -> Vec<(u64, bool)> {
    const ADDRESS: usize = 6;
    const HEADER: usize = 14;
    let heard = captured.filter(|packet| !packet.sent).filter_map(|packet| {
        let to = packet.bytes.first_chunk::<ADDRESS>()?;
        let (header, payload) = packet.bytes.split_at_checked(HEADER)?;
        if header.last_chunk() != Some(&ETHERTYPE.to_be_bytes()) {
            return None;
        }
        let frame = Frame::parse(to, payload).ok()?;
        Some((packet.at, frame.says(0)? != 0))
    });
    heard.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_as_ports_name_them() {
        assert_eq!(P3.1, format!("h{}", R1 + 1));
        assert_eq!(A0 + BURSTING, 2 + BESIDE + 2 + BURSTING);
    }
}
