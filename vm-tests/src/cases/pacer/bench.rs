// SPDX-License-Identifier: GPL-2.0
//! Where the pacer's cases measure: a pacer on one end of a link; on the other somebody who
//! acknowledges, and a capture.

use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::stat;

use crate::clock;
use crate::pcap::{Capture, Captured};
use crate::raw_netlink::{Stats, Tc};
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::{RawSocket, VirtioNetHeader};

/// The pacer's handle.
pub(super) const PACER: u32 = 0x1_0000;
/// The device that it is on.
pub(super) const DEV: &str = "eth0";
/// More payload than a frame holds: full frames, then, over either protocol.
pub(super) const FULL: usize = 1460;
/// What a full frame takes on the wire.
pub(super) const WIRE: u64 = 1538;

pub(super) const ACK: u8 = 0x10;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ECE: u8 = 0x40;
/// An acknowledgement with ECN-Echo.
pub(super) const ECHO: u8 = ACK | ECE;
/// What looks like one, and is none.
pub(super) const NO_ECHO: [u8; 4] = [ACK, ECE, SYN | ACK | ECE, RST | ACK | ECE];

/// Two hosts on a switch that marks one packet in five on its way to the second: TCP's
/// acknowledgements say so.
pub(super) fn marked_link() -> Result<Net> {
    let net = Builder::bridged(2).build()?;
    for host in &net.hosts {
        host.ns.sysctl("net/ipv4/tcp_ecn", "1")?;
        // A SYN cannot be marked, and is lost; the next one is to ask for ECN, too.
        host.ns.sysctl("net/ipv4/tcp_ecn_fallback", "0")?;
    }
    let (switch, dev) = net.port_to(1);
    // With ecn, netem marks what it would lose.
    switch.tc(&format!(
        "qdisc add dev {dev} root netem limit 10000 loss 20% ecn"
    ))?;
    Ok(net)
}

/// A TCP flow from the pacer's host, told by its port. There is no socket behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) port: u16,
    pub(super) v6: bool,
}

impl Flow {
    pub(super) const fn v4(port: u16) -> Self {
        Self { port, v6: false }
    }

    pub(super) const fn v6(port: u16) -> Self {
        Self { port, v6: true }
    }

    /// A frame of this flow, or one that comes back.
    fn frame(self, out: bool, sequence: u32, flags: u8, payload: usize) -> Vec<u8> {
        const FAR: u16 = 443;
        let ports = if out {
            [self.port, FAR]
        } else {
            [FAR, self.port]
        };
        let mut tcp: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        tcp.extend(sequence.to_be_bytes());
        tcp.extend([0, 0, 0, 0, 0x50, flags, 16, 0, 0, 0, 0, 0]);
        tcp.resize(tcp.len() + payload, 0x5a);
        let hosts = if out { [1, 2] } else { [2, 1] };
        // To nobody's address: no stack answers.
        let mut frame = vec![2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 0x98];
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((tcp.len() as u16).to_be_bytes());
            frame.extend([6, 64]);
            for host in hosts {
                frame.extend([0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + tcp.len() as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            for host in hosts {
                frame.extend([10, 9, 0, host]);
            }
        }
        frame.extend(tcp);
        frame
    }

    /// Bytes of payload in a frame: `wanted`, or as many as fit.
    fn payload(self, wanted: usize) -> usize {
        wanted.min(if self.v6 { 1440 } else { 1460 })
    }

    /// Bytes before TCP's header.
    fn before_tcp(self) -> u16 {
        14 + if self.v6 { 40 } else { 20 }
    }
}

/// A frame that came out at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) at: u64,
    pub(super) flow: Flow,
    pub(super) sequence: u32,
    pub(super) length: usize,
}

/// See the module's documentation.
pub(super) struct Bench {
    pub(super) net: Net,
    pub(super) tc: Tc,
    out: RawSocket,
    back: RawSocket,
    /// What is written into each frame.
    tag: Option<u16>,
    capture: Option<Capture>,
}

impl Bench {
    /// A link with a pacer of these options.
    pub(super) fn new(options: &str) -> Result<Self> {
        let bench = Self::bare()?;
        bench.pacer(Tool::Turnstile, "add", options)?;
        Ok(bench)
    }

    /// A link without a pacer.
    pub(super) fn bare() -> Result<Self> {
        Self::on(Builder::pair().build()?)
    }

    /// The first link of this network, without a pacer.
    pub(super) fn on(net: Net) -> Result<Self> {
        let (ns, peer) = (&net.hosts[0].ns, &net.hosts[1].ns);
        Ok(Self {
            tc: Tc::open(ns, DEV)?,
            out: RawSocket::open_gso(ns, DEV)?,
            back: RawSocket::open(peer, DEV)?,
            tag: None,
            capture: None,
            net,
        })
    }

    /// Frames go out and come back with this VLAN's tag in them.
    pub(super) fn tag(&mut self, vlan: u16) {
        self.tag = Some(vlan);
    }

    /// Frames go out and come back by way of this device on both ends.
    pub(super) fn through(&mut self, dev: &str) -> Result<()> {
        self.out = RawSocket::open_gso(&self.net.hosts[0].ns, dev)?;
        self.back = RawSocket::open(&self.net.hosts[1].ns, dev)?;
        Ok(())
    }

    fn tagged(&self, mut frame: Vec<u8>) -> Vec<u8> {
        if let Some(vlan) = self.tag {
            frame.splice(12..12, [[0x81, 0], vlan.to_be_bytes()].concat());
        }
        frame
    }

    /// Waits until the kernel has nothing more to say about new devices.
    pub(super) fn quiet(&self) {
        std::thread::sleep(Duration::from_secs(5));
    }

    /// Adds, replaces or changes the pacer at the device's root.
    pub(super) fn pacer(&self, tool: Tool, verb: &str, options: &str) -> Result<()> {
        self.net.hosts[0]
            .ns
            .run(&line(tool, verb, "root handle 1:", options))
            .map(drop)
    }

    pub(super) fn stats(&mut self) -> Result<Stats> {
        Ok(self.tc.get(PACER)?.stats)
    }

    /// One of the pacer's own counters.
    pub(super) fn stat(&mut self, number: u16) -> Result<u64> {
        Ok(self.stats()?.app(number))
    }

    /// Waits until a counter has reached a value.
    pub(super) fn wait_for(&mut self, what: &str, number: u16, value: u64) -> Result<()> {
        let mut now = 0;
        for _ in 0..2000 {
            now = self.stat(number)?;
            if now >= value {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        anyhow::bail!("{what} is {now} after 10 s, and not {value}")
    }

    /// Waits until nothing is queued.
    pub(super) fn drained(&mut self) -> Result<Stats> {
        for _ in 0..4000 {
            let stats = self.stats()?;
            if stats.qlen == 0 {
                return Ok(stats);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        anyhow::bail!("packets are still queued after 20 s: {:?}", self.stats()?)
    }

    /// An acknowledgement of the flow comes in, with these flags.
    pub(super) fn acknowledge(&self, flow: Flow, flags: u8) -> Result<()> {
        let frame = self.tagged(flow.frame(false, 1, flags, 0));
        ensure!(self.back.send(&frame)?, "the other end dropped it");
        Ok(())
    }

    /// Associates flows that were not: each of them gets an acknowledgement with ECN-Echo, with
    /// `associate 100%`.
    pub(super) fn associate(&mut self, flows: &[Flow]) -> Result<()> {
        let before = self.stat(stat::ASSOCIATED)?;
        for flow in flows {
            self.acknowledge(*flow, ECHO)?;
        }
        self.wait_for("associated", stat::ASSOCIATED, before + flows.len() as u64)
    }

    /// Hands packets of a flow to the pacer, numbered from `first` on; how many it took.
    pub(super) fn send(&self, flow: Flow, first: u32, count: u32, payload: usize) -> Result<u64> {
        let mut taken = 0;
        for sequence in first..first + count {
            let frame = self.tagged(flow.frame(true, sequence, ACK, flow.payload(payload)));
            taken += u64::from(self.out.send(&frame)?);
        }
        Ok(taken)
    }

    /// Hands one super-packet of `segments` full segments to the pacer.
    pub(super) fn send_super(&self, flow: Flow, segments: usize) -> Result<bool> {
        let tag = if self.tag.is_some() { 4 } else { 0 };
        let (before, payload) = (flow.before_tcp() + tag, flow.payload(FULL));
        let header = VirtioNetHeader {
            flags: 1,
            gso_type: if flow.v6 { 4 } else { 1 },
            header_len: before + 20,
            gso_size: payload as u16,
            sum_start: before,
            sum_offset: 16,
        };
        let frame = self.tagged(flow.frame(true, 0, ACK, segments * payload));
        self.out.send_gso(header, &frame)
    }

    /// Begins to capture at the other end.
    pub(super) fn capture(&mut self) -> Result<()> {
        self.capture_on(DEV)
    }

    /// The same on another device.
    pub(super) fn capture_on(&mut self, dev: &str) -> Result<()> {
        self.capture = Some(Capture::start(&self.net.hosts[1].ns, Some(dev))?);
        Ok(())
    }

    /// What came out there, once all has: in order, and only what was sent here.
    pub(super) fn arrivals(&mut self) -> Result<Vec<Arrival>> {
        self.drained()?;
        let Some(capture) = self.capture.take() else {
            anyhow::bail!("nothing was captured")
        };
        Ok(arrivals(&capture.finish()?))
    }

    /// See [`adds_up`].
    pub(super) fn adds_up(&mut self) -> Result<()> {
        adds_up(&self.stats()?)
    }
}

/// That what was offered was sent, is queued or was dropped for a reason that is told.
pub(super) fn adds_up(stats: &Stats) -> Result<()> {
    lanes_add_up(stats)?;
    let sent = stats.app(stat::PASS_SENT) + stats.app(stat::PACED_SENT);
    ensure!(
        sent == stats.packets,
        "the kernel counts {} packets sent, the pacer {sent}",
        stats.packets
    );
    Ok(())
}

/// The same while packets fly: the kernel reads its own count of what was sent a moment after the
/// pacer's.
pub(super) fn lanes_add_up(stats: &Stats) -> Result<()> {
    for first in [stat::PASS_OFFERED, stat::PACED_OFFERED] {
        let [offered, rest @ ..] = [0, 1, 2, 3, 4].map(|offset| stats.app(first + offset));
        ensure!(
            offered == rest.iter().sum::<u64>(),
            "offered {offered}; sent, queued, over limit and lost {rest:?}"
        );
    }
    Ok(())
}

/// What a tool is to be told.
pub(super) fn line(tool: Tool, verb: &str, place: &str, options: &str) -> String {
    match tool {
        Tool::Tc => format!("tc qdisc {verb} dev {DEV} {place} turnstile_pacer {options}"),
        Tool::Turnstile => format!("turnstile pacer {verb} {DEV} {place} {options}"),
    }
}

fn arrivals(captured: &Captured) -> Vec<Arrival> {
    let received = captured.packets.iter().filter(|packet| !packet.sent);
    let mut arrivals: Vec<Arrival> = received
        .filter_map(|packet| {
            let bytes = &packet.bytes;
            let v6 = match bytes.get(12..14)? {
                [8, 0] => false,
                [0x86, 0xdd] => true,
                _ => return None,
            };
            let tcp = if v6 { 54 } else { 34 };
            let protocol = if v6 { 20 } else { 23 };
            if *bytes.get(protocol)? != 6 || bytes.get(..6)? != [2, 0, 0, 0, 0, 0x99] {
                return None;
            }
            let port = u16::from_be_bytes(*bytes.get(tcp..)?.first_chunk()?);
            Some(Arrival {
                at: packet.at,
                flow: Flow { port, v6 },
                sequence: u32::from_be_bytes(*bytes.get(tcp + 4..)?.first_chunk()?),
                length: packet.length,
            })
        })
        .collect();
    // veth leaves a packet with the processor that sent it, and of two processors either may be
    // first to hand on what it has. The time is from before that, when the packet left its queue.
    arrivals.sort_by_key(|one| one.at);
    arrivals
}

/// Only those of one flow, which must be in order.
pub(super) fn of(arrivals: &[Arrival], flow: Flow) -> Result<Vec<Arrival>> {
    let of: Vec<Arrival> = arrivals
        .iter()
        .copied()
        .filter(|arrival| arrival.flow == flow)
        .collect();
    ensure!(
        of.windows(2).all(|two| two[0].sequence < two[1].sequence),
        "{flow:?}: a packet overtook another: {of:?}"
    );
    Ok(of)
}

/// That packets of these wire lengths, all handed over at the instant in which the first came, left
/// as a bucket of `bucket` bytes at `rate` bytes/s lets them: to the nanosecond in simulated time,
/// and not early by more than timestamps are off elsewhere.
pub(super) fn check_paced(
    what: &str,
    times: &[u64],
    wire: &[u64],
    bucket: u64,
    rate: u64,
) -> Result<()> {
    ensure!(
        times.len() == wire.len(),
        "{what}: {} of {} packets came",
        times.len(),
        wire.len()
    );
    let Some(&start) = times.first() else {
        return Ok(());
    };
    let mut taken = 0;
    for (&at, &wire) in times.iter().zip(wire) {
        // All that has left before must be paid for, and this one be in the bucket.
        let needed = u128::from((taken + wire.min(bucket)).saturating_sub(bucket)) * 1_000_000_000;
        let due = start + needed.div_ceil(u128::from(rate)) as u64;
        let late = at as i64 - due as i64;
        if clock::is_simulated() {
            ensure!(late == 0, "{what}: left {late} ns late, for {due}");
        } else {
            // The first one's timestamp may itself be late.
            ensure!(late >= -5_000_000, "{what}: left {} ns early", -late);
        }
        taken += wire;
    }
    Ok(())
}
